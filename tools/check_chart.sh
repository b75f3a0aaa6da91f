#!/usr/bin/env bash
# Checks the chart: lint, unit tests of its templates, every object against its schema, the README.
#
#   tools/check_chart.sh           everything; the tools come by tools/helm.sh (status 77: there is no Go)
#   tools/check_chart.sh --there   the same with the tools that are there; status 77 if they are not
#   tools/check_chart.sh --write   writes helm/longwave/README.md from the values
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${1:-}" = --there ]; then tools/helm.sh --there; else tools/helm.sh; fi

chart=helm/longwave
bin=$PWD/.tools/bin
kubernetes=1.33.0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "chart: $1" >&2; exit 1; }

# helm-docs writes beside the values, so it gets a copy.
cp -r "$chart" "$work/chart"
(cd "$work/chart" && "$bin/helm-docs" --chart-search-root . --sort-values-order file --log-level warning)
if [ "${1:-}" = --write ]; then
  cp "$work/chart/README.md" "$chart/README.md"
  exit 0
fi
diff -u "$chart/README.md" "$work/chart/README.md" ||
  fail "$chart/README.md is not what its values say: tools/check_chart.sh --write"

# Without a text nothing can be installed, so these are the defaults with one.
least=tests/helm/values/least.yaml
for values in tests/helm/values/*.yaml; do
  "$bin/helm" lint --strict --kube-version "$kubernetes" -f "$values" "$chart" > "$work/lint" 2>&1 &&
    ! grep -E '^\[(INFO|WARNING|ERROR)\]' "$work/lint" >/dev/null ||
    { cat "$work/lint"; fail "helm lint --strict -f $values"; }
done
echo 'chart: no lint findings'

"$bin/helm-unittest" --strict "$chart"
python3 -B tests/helm/switches.py "$bin/helm" "$chart"
echo 'chart: every value is set in a unit test'

conform() { "$bin/kubeconform" -strict -schema-location '.tools/schemas/{{.ResourceKind}}{{.KindSuffix}}.json' "$@"; }
render() { "$bin/helm" template run "$chart" --namespace training --kube-version "$kubernetes" "$@"; }
# A check that finds nothing in a wrong object is none.
render -f "$least" | sed 's/podManagementPolicy:/podManagmentPolicy:/' | conform >/dev/null &&
  fail 'kubeconform takes a property that does not exist'
for values in tests/helm/values/*.yaml; do
  render -f "$values" > "$work/objects.yaml"
  conform -summary "$work/objects.yaml" | sed "s|^Summary:|chart: $values:|" || fail "kubeconform -f $values"
done

# The pod that the notes give, to copy the weights with. `helm template` leaves notes out, so here a template has them.
cat > "$work/chart/templates/notes.yaml" <<'T'
notes: |
  {{- include (print $.Template.BasePath "/NOTES.txt") . | nindent 2 }}
T
for kind in StatefulSet Job; do
  "$bin/helm" template run "$work/chart" --kube-version "$kubernetes" -f "$least" --set "workers.kind=$kind" \
    -s templates/notes.yaml | sed -n "/<<'END'$/,/^  END$/{/END/!s/^  //p}" > "$work/pod.yaml"
  conform -summary "$work/pod.yaml" | grep -q 'Valid: 1, Invalid: 0, Errors: 0, Skipped: 0' ||
    { conform "$work/pod.yaml" || true; fail "the notes' pod for a $kind"; }
done
echo "chart: the notes' pod conforms"

# Who scales replaces no pod, and who changes the configuration replaces all.
given=(-f "$least" --set security.chart.existingAuthority=given)
changed() { diff <(render "${given[@]}") <(render "${given[@]}" "$@") | grep '^>' || true; }
[ "$(changed --set workers.replicas=5 | sed 's/^> *//')" = 'replicas: 5' ] ||
  fail 'another number of workers changes more than that number'
[ "$(changed --set config.train.batch=9 | grep -c checksum/config)" = 3 ] ||
  fail 'another configuration does not replace the pods of all three parts'
[ "$(changed --set metrics.podMonitor.enabled=true | grep -c checksum/config)" = 0 ] ||
  fail 'a switch of the metrics replaces pods'
# A Job that changes has another name; one that is scaled keeps its own, but a JobSet can't be scaled.
job() {
  local kind=$1
  shift
  render "${given[@]}" --set "workers.kind=$kind" "$@" -s "templates/worker/${kind,,}.yaml" | sed -n 's/^  name: //p'
}
[ "$(job Job)" = "$(job Job --set workers.replicas=5)" ] || fail 'a Job that is scaled gets another name'
[ "$(job Job)" != "$(job Job --set images.worker.tag=new)" ] || fail 'a Job of other pods keeps its name'
[ "$(job JobSet)" = "$(job JobSet)" ] || fail 'a JobSet has another name each time'
[ "$(job JobSet)" != "$(job JobSet --set workers.replicas=5)" ] || fail 'a JobSet of another size keeps its name'
echo 'chart: scaling changes nothing else, configuration everything'

# The authority is one: a pair, of the age that was asked for.
render -f "$least" --set security.chart.authorityDays=7 -s templates/security/authority.yaml > "$work/authority.yaml"
for file in ca.crt ca.key; do sed -n "s/^  $file: //p" "$work/authority.yaml" | base64 -d > "$work/$file"; done
openssl x509 -in "$work/ca.crt" -noout -text | grep -q 'CA:TRUE' || fail 'the authority is none'
openssl x509 -in "$work/ca.crt" -noout -checkend $((6 * 86400)) >/dev/null || fail 'the authority ends too early'
openssl x509 -in "$work/ca.crt" -noout -checkend $((8 * 86400)) >/dev/null && fail 'the authority ends too late'
diff <(openssl x509 -in "$work/ca.crt" -noout -pubkey) <(openssl pkey -in "$work/ca.key" -pubout) ||
  fail "the authority's key is another's"
echo 'chart: the authority is one'

# A ConfigMap holds 1 MiB, and kubectl apply writes it once more into an annotation of at most 256 KiB.
for dashboard in "$chart"/dashboards/*.json; do
  [ -e "$dashboard" ] || continue
  size=$(stat -c %s "$dashboard")
  ((size < 1000000)) || fail "$dashboard has $size bytes, and a ConfigMap at most 1 MiB"
  ((size < 200000)) || echo "chart: $dashboard has $size bytes: only a server-side apply takes it"
done
echo 'chart: everything holds'
