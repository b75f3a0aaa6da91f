#!/usr/bin/env bash
# Checks the charts: lint, unit tests of their templates, every object against its schema, the READMEs.
#
#   tests/helm/check_chart.sh           everything; tools/helm.sh installs the tools (status 77: no Go)
#   tests/helm/check_chart.sh --there   the same with installed tools; status 77 if one is missing
#   tests/helm/check_chart.sh --write   writes the charts' READMEs from their values
set -euo pipefail
cd "$(dirname "$0")/../.."
if [ "${1:-}" = --there ]; then tools/helm.sh --there; else tools/helm.sh; fi

chart=helm/longwave
monitoring=helm/longwave-monitoring
bin=$PWD/.tools/bin
kubernetes=1.33.0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "chart: $1" >&2; exit 1; }

# helm-docs writes beside the values, so it gets copies.
for one in "$chart" "$monitoring"; do
  copy=$work/${one##*/}
  cp -r "$one" "$copy"
  (cd "$copy" && "$bin/helm-docs" --chart-search-root . --sort-values-order file --log-level warning)
  if [ "${1:-}" = --write ]; then
    cp "$copy/README.md" "$one/README.md"
  else
    diff -u "$one/README.md" "$copy/README.md" || fail "$one/README.md is not what its values say: tests/helm/check_chart.sh --write"
  fi
done
if [ "${1:-}" = --write ]; then exit 0; fi

# The chart cannot be installed without a text, so these values are the defaults with one.
least=tests/helm/values/least.yaml
lint() {
  "$bin/helm" lint --strict --kube-version "$kubernetes" -f "$2" "$1" > "$work/lint" 2>&1 &&
    ! grep -E '^\[(INFO|WARNING|ERROR)\]' "$work/lint" >/dev/null ||
    { cat "$work/lint"; fail "helm lint --strict -f $2 $1"; }
}
for values in tests/helm/values/*.yaml; do lint "$chart" "$values"; done
for values in tests/helm/monitoring/*.yaml; do lint "$monitoring" "$values"; done
echo 'chart: no lint findings'
# Artifact Hub reads these.
for one in "$chart" "$monitoring"; do
  for key in license category operator prerelease; do
    grep -q "^  artifacthub.io/$key: ." "$one/Chart.yaml" || fail "$one/Chart.yaml: no annotation artifacthub.io/$key"
  done
done

"$bin/helm-unittest" --strict "$chart" "$monitoring"
python3 -B tests/helm/switches.py "$bin/helm" "$chart"
python3 -B tests/helm/switches.py "$bin/helm" "$monitoring"
echo 'chart: every value is set in a unit test'

conform() { "$bin/kubeconform" -strict -schema-location '.tools/schemas/{{.ResourceKind}}{{.KindSuffix}}.json' "$@"; }
render() { "$bin/helm" template run "$chart" --namespace training --kube-version "$kubernetes" "$@"; }
# The check must find a planted error.
render -f "$least" | sed 's/podManagementPolicy:/podManagmentPolicy:/' | conform >/dev/null &&
  fail 'kubeconform takes a property that does not exist'
for values in tests/helm/values/*.yaml; do
  render -f "$values" > "$work/objects.yaml"
  conform -summary "$work/objects.yaml" | sed "s|^Summary:|chart: $values:|" || fail "kubeconform -f $values"
done

# Alerts and dashboards, for all runs. promtool also checks the rules, if installed.
for values in tests/helm/monitoring/*.yaml; do
  "$bin/helm" template all "$monitoring" --namespace monitoring --kube-version "$kubernetes" -f "$values" > "$work/objects.yaml"
  conform -summary "$work/objects.yaml" | sed "s|^Summary:|chart: $values:|" || fail "kubeconform -f $values"
  "$bin/helm" template all "$monitoring" --kube-version "$kubernetes" -f "$values" -s templates/rules.yaml |
    sed -n '/^spec:$/,$s/^  //p' > "$work/rules.yaml"
  if command -v promtool >/dev/null; then
    promtool check rules --lint=all --lint-fatal "$work/rules.yaml" >/dev/null || fail "promtool refuses the rules of -f $values"
  fi
done
# A run's chart has neither: a second run on the cluster would bring everything twice.
render -f "$least" --set metrics.serviceMonitor.enabled=true | grep -E '^kind: PrometheusRule|grafana_dashboard' &&
  fail "a run's chart makes alerts or dashboards"

# The notes' pod for copying the weights. `helm template` leaves notes out, so a template has them here.
cat > "$work/longwave/templates/notes.yaml" <<'T'
notes: |
  {{- include (print $.Template.BasePath "/NOTES.txt") . | nindent 2 }}
T
for kind in StatefulSet Job; do
  "$bin/helm" template run "$work/longwave" --kube-version "$kubernetes" -f "$least" --set "workers.kind=$kind" \
    -s templates/notes.yaml | sed -n "/<<'END'$/,/^  END$/{/END/!s/^  //p}" > "$work/pod.yaml"
  conform -summary "$work/pod.yaml" | grep -q 'Valid: 1, Invalid: 0, Errors: 0, Skipped: 0' ||
    { conform "$work/pod.yaml" || true; fail "the notes' pod for a $kind"; }
done
echo "chart: the notes' pod conforms"

# As a part of another chart, twice: each has names of its own and goes by its condition.
parent=$work/parent
mkdir -p "$parent/charts"
cp -r "$chart" "$parent/charts/"
cat > "$parent/Chart.yaml" <<'Y'
{apiVersion: v2, name: parent, version: 0.1.0, dependencies: [
  {name: longwave, version: "*", condition: longwave.enabled}, {name: longwave, version: "*", alias: west, condition: west.enabled}]}
Y
cat > "$parent/values.yaml" <<'Y'
global: {imageRegistry: registry.example.org/all, imagePullSecrets: [pull]}
longwave: &part {enabled: true, workers: {data: {existingClaim: text}}}
west: *part
Y
parts() { "$bin/helm" template longwave-west "$parent" --kube-version "$kubernetes" "$@" > "$work/objects.yaml"; }
coordinators() { sed -n '/^kind: StatefulSet/,/^spec/s/^  name: "\(.*\)-coordinator"$/\1/p' "$work/objects.yaml" | sort | xargs; }
parts
[ "$(coordinators)" = 'longwave-west-longwave longwave-west-west' ] || fail "two parts of a chart are called $(coordinators)"
grep -q '^      name: longwave-west-west$' "$work/objects.yaml" || fail 'a part is a run of the same name as another'
grep 'image: ' "$work/objects.yaml" | grep -v 'image: registry.example.org/all/longwave-' && fail "a parent's registry is not that of all images"
conform -summary "$work/objects.yaml" | sed 's|^Summary:|chart: as parts:|' || fail 'kubeconform of two parts'
parts --set longwave.enabled=false
[ "$(coordinators)" = longwave-west-west ] || fail "a part's condition does not switch it off"

# YAML's numbers are floating point to Helm, which would print them as 1e+06.
echo '{workers: {kind: Job, terminationGracePeriodSeconds: 1e6, job: {activeDeadlineSeconds: 2e6}}, config: {run: {steps: 3e6}}}' > "$work/numbers.yaml"
render -f "$least" -f "$work/numbers.yaml" --set config.run.validate_every=4000000 > "$work/objects.yaml"
for number in 'terminationGracePeriodSeconds: 1000000' 'activeDeadlineSeconds: 2000000' 'steps: 3000000' 'validate_every: 4000000'; do
  grep -q "^ *$number$" "$work/objects.yaml" || fail "a number becomes another: wanted $number"
done
echo 'chart: parts of another chart, and numbers'

# Scaling replaces no pod, and a changed configuration replaces all.
given=(-f "$least" --set security.chart.existingAuthority=given)
changed() { diff <(render "${given[@]}") <(render "${given[@]}" "$@") | grep '^>' || true; }
[ "$(changed --set workers.replicas=5 | sed 's/^> *//')" = 'replicas: 5' ] ||
  fail 'another number of workers changes more than that number'
worker_command='workers.command={python,train.py}'
diff <(render "${given[@]}" --set "$worker_command") <(render "${given[@]}" --set "$worker_command,workers.replicas=5") > "$work/scaled" || true
[ "$(sed -n 's/^> *//p' "$work/scaled")" = 'replicas: 5' ] ||
  fail "another number of workers with a command of the user's changes more than that number"
[ "$(changed --set config.train.batch=9 | grep -c checksum/config)" = 3 ] ||
  fail 'another configuration does not replace the pods of all three parts'
[ "$(changed --set metrics.podMonitor.enabled=true | grep -c checksum/config)" = 0 ] ||
  fail 'a switch of the metrics replaces pods'
# A changed Job has another name; a scaled one keeps its own, but a JobSet cannot be scaled.
job() {
  local kind=$1
  shift
  render "${given[@]}" --set "workers.kind=$kind" "$@" -s "templates/worker/${kind,,}.yaml" | sed -n 's/^  name: //p'
}
[ "$(job Job)" = "$(job Job --set workers.replicas=5)" ] || fail 'a Job that is scaled gets another name'
[ "$(job Job --set "$worker_command")" = "$(job Job --set "$worker_command,workers.replicas=5")" ] ||
  fail "a Job of the user's command that is scaled gets another name"
[ "$(job Job)" != "$(job Job --set images.worker.tag=new)" ] || fail 'a Job of other pods keeps its name'
[ "$(job JobSet)" = "$(job JobSet)" ] || fail 'a JobSet has another name each time'
[ "$(job JobSet)" != "$(job JobSet --set workers.replicas=5)" ] || fail 'a JobSet of another size keeps its name'
echo 'chart: scaling changes nothing else, configuration everything'

# The authority is a pair of the requested age.
render -f "$least" --set security.chart.authorityDays=7 -s templates/security/authority.yaml > "$work/authority.yaml"
for file in ca.crt ca.key; do sed -n "s/^  $file: //p" "$work/authority.yaml" | base64 -d > "$work/$file"; done
openssl x509 -in "$work/ca.crt" -noout -text | grep -q 'CA:TRUE' || fail 'the authority is none'
openssl x509 -in "$work/ca.crt" -noout -checkend $((6 * 86400)) >/dev/null || fail 'the authority ends too early'
openssl x509 -in "$work/ca.crt" -noout -checkend $((8 * 86400)) >/dev/null && fail 'the authority ends too late'
diff <(openssl x509 -in "$work/ca.crt" -noout -pubkey) <(openssl pkey -in "$work/ca.key" -pubout) ||
  fail "the authority's key is another's"
echo 'chart: the authority is one'

# A ConfigMap holds 1 MiB, and kubectl apply writes it once more into an annotation of at most 256 KiB.
for dashboard in "$monitoring"/dashboards/*.json; do
  size=$(stat -c %s "$dashboard")
  ((size < 1000000)) || fail "$dashboard has $size bytes, and a ConfigMap at most 1 MiB"
  ((size < 200000)) || echo "chart: $dashboard has $size bytes: only a server-side apply takes it"
done
echo 'chart: everything holds'
