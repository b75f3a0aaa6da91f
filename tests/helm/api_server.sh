#!/usr/bin/env bash
# Installs, upgrades and removes the chart on a real API server. With only etcd and kube-apiserver no pod runs, but
# everything is admitted, under the restricted Pod Security Standard, with the custom resources that the chart can use.
# Ends with status 77 and a reason if one of the programs is missing.
set -euo pipefail
cd "$(dirname "$0")/../.."
skip() { echo "api server: skipped: $1"; exit 77; }
fail() { echo "api server: $1" >&2; exit 1; }

tools/helm.sh --there
export PATH=$PWD/.tools/bin:${KUBE_BIN:-$HOME/.cache/kube-from-source/bin}:$PATH
for program in etcd kube-apiserver kubectl; do
  command -v "$program" >/dev/null || skip "no $program here (\$KUBE_BIN)"
done

work=$(mktemp -d)
servers=()
clean() {
  for server in "${servers[@]}"; do kill "$server" 2>/dev/null || true; done
  wait
  rm -rf "$work"
}
trap clean EXIT
exec {held}< <(exec python3 tests/support/held_ports.py 3)
servers+=($!)
read -r client_port peer_port api_port <&"$held"

etcd --data-dir "$work/etcd" --unsafe-no-fsync --listen-client-urls "http://127.0.0.1:$client_port" \
  --advertise-client-urls "http://127.0.0.1:$client_port" --listen-peer-urls "http://127.0.0.1:$peer_port" \
  > "$work/etcd.log" 2>&1 &
servers+=($!)
openssl genrsa -out "$work/accounts.key" 2048 2>/dev/null
echo 'secret,admin,1,system:masters' > "$work/tokens"
kube-apiserver --etcd-servers "http://127.0.0.1:$client_port" --bind-address 127.0.0.1 --advertise-address 127.0.0.1 \
  --secure-port "$api_port" --cert-dir "$work/certificates" --token-auth-file "$work/tokens" \
  --service-account-key-file "$work/accounts.key" --service-account-signing-key-file "$work/accounts.key" \
  --service-account-issuer https://kubernetes.default.svc --service-cluster-ip-range 10.96.0.0/16 \
  --authorization-mode RBAC --endpoint-reconciler-type none > "$work/apiserver.log" 2>&1 &
servers+=($!)
export KUBECONFIG=$work/kubeconfig
cat > "$KUBECONFIG" <<K
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:$api_port", insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: secret}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
K
for _ in $(seq 240); do
  if kubectl get --raw /readyz >/dev/null 2>&1; then break; fi
  kill -0 "${servers[@]}" 2>/dev/null || { tail -5 "$work"/*.log; fail 'etcd or kube-apiserver has ended'; }
  sleep 0.5
done
kubectl get --raw /readyz >/dev/null || { tail -5 "$work/apiserver.log"; fail 'kube-apiserver did not come up'; }

kubectl create -f .tools/schemas/crds.json >/dev/null
kubectl wait --for condition=Established crd --all --timeout 60s >/dev/null
kubectl create priorityclass low --value 1 >/dev/null
kubectl create -f - >/dev/null <<'K'
{apiVersion: node.k8s.io/v1, kind: RuntimeClass, metadata: {name: nvidia}, handler: nvidia}
K
kubectl create namespace training >/dev/null
kubectl -n training create serviceaccount default >/dev/null
kubectl label namespace training pod-security.kubernetes.io/{enforce,warn}=restricted >/dev/null

chart=helm/longwave
kubectl() { command kubectl -n training "$@"; }
helm() { command helm -n training "$@"; }
if kubectl run root --image=any --dry-run=server > "$work/root" 2>&1; then fail 'a pod of root is admitted here'; fi
grep -q 'violates PodSecurity "restricted' "$work/root" || { cat "$work/root"; fail 'a pod of root is refused otherwise'; }
# The pod that a workload's controller would make, for the API server to admit or refuse.
pods_of() {
  kubectl get "$1" -l app.kubernetes.io/instance=run -o json | python3 -c '
import json, sys
for item in json.load(sys.stdin)["items"]:
    spec = item["spec"]
    spec = spec["replicatedJobs"][0]["template"]["spec"] if item["kind"] == "JobSet" else spec
    pod = dict(spec["template"], apiVersion="v1", kind="Pod")
    pod["metadata"]["name"] = item["metadata"]["name"] + "-0"
    # The controller replaces the claims of a workload by volumes.
    pod["spec"].setdefault("volumes", []).extend(
        {"name": claim["metadata"]["name"], "emptyDir": {}} for claim in spec.get("volumeClaimTemplates", []))
    print(json.dumps(pod))'
}

if helm install run "$chart" > "$work/refused" 2>&1; then fail 'installed workers that have no text'; fi
grep -q 'workers.data: wanted existingClaim or configMap' "$work/refused" || { cat "$work/refused"; fail 'another refusal'; }
for values in tests/helm/values/*.yaml; do
  helm install run "$chart" -f "$values" > "$work/installed" 2>&1 ||
    { cat "$work/installed"; fail "helm install -f $values"; }
  if grep -i warning "$work/installed"; then fail "helm install -f $values was warned of"; fi
  pods=0
  while read -r pod; do
    kubectl create --dry-run=server -f - <<< "$pod" > "$work/pod" 2>&1 || { cat "$work/pod"; fail 'a pod was refused'; }
    pods=$((pods + 1))
  done < <(for kind in statefulsets jobs jobsets; do pods_of "$kind"; done)
  wanted=3
  if grep -q 'kind: None' "$values"; then wanted=2; fi
  ((pods == wanted)) || fail "$values: got $pods kinds of pods, wanted $wanted"
  helm upgrade run "$chart" -f "$values" --set commonAnnotations.again=yes >/dev/null
  helm uninstall run --wait >/dev/null
  left=$(kubectl get statefulsets,jobs,services,configmaps,secrets -l app.kubernetes.io/instance=run -o name)
  [ -z "$left" ] || fail "helm uninstall left $left"
  echo "api server: $values: installed, $pods kinds of pods admitted, upgraded, removed"
done

least=tests/helm/values/least.yaml
authority() { kubectl get secret run-longwave-authority -o jsonpath='{.data}'; }
helm install run "$chart" -f "$least" >/dev/null
before=$(authority)
helm upgrade run "$chart" -f "$least" --set workers.replicas=5 >/dev/null
[ "$(authority)" = "$before" ] || fail 'an upgrade made another authority'
[ "$(kubectl get statefulset run-longwave-worker -o jsonpath='{.spec.replicas}')" = 5 ] || fail 'workers were not scaled'
[ "$(kubectl get statefulset run-longwave-worker -o jsonpath='{.metadata.generation}')" = 2 ] &&
  [ "$(kubectl get statefulset run-longwave-shard -o jsonpath='{.metadata.generation}')" = 1 ] ||
  fail 'scaling the workers changed more than them'
if helm upgrade run "$chart" -f "$least" --set shards.replicas=3 > "$work/refused" 2>&1; then fail 'took another number of shards'; fi
grep -q "the run has 2 shards, and that can't change" "$work/refused" || { cat "$work/refused"; fail 'another refusal'; }
# The pod of `helm test` does not run here, so the test sets its end.
for _ in first again; do
  helm test run --timeout 60s > "$work/tested" 2>&1 &
  tested=$!
  for _ in $(seq 120); do
    kubectl patch pod run-longwave-test-status --subresource status --type merge -p '{"status": {"phase": "Succeeded"}}' \
      > "$work/patched" 2>&1 || true
    kill -0 $tested 2>/dev/null || break
    sleep 0.5
  done
  wait $tested || { cat "$work/tested"; fail 'helm test'; }
  grep -q '^Phase: *Succeeded' "$work/tested" || { cat "$work/tested"; fail 'helm test says something else'; }
  kubectl get pod run-longwave-test-status >/dev/null 2>&1 || fail 'helm test --logs finds no pod to read the log of'
done
echo 'api server: the pod of helm test is there when its log is read, and makes room for the next'
helm uninstall run --wait >/dev/null
kubectl delete pod run-longwave-test-status --wait=false >/dev/null
echo 'api server: an upgrade keeps the authority, scales the workers alone and keeps the shards'

# A rollback reverts the changes of an upgrade.
helm install run "$chart" -f "$least" >/dev/null
helm upgrade run "$chart" -f "$least" --set workers.podAnnotations.new=yes >/dev/null
helm rollback run >/dev/null
[ -z "$(kubectl get statefulset run-longwave-worker -o jsonpath='{.spec.template.metadata.annotations.new}')" ] ||
  fail 'a rollback left what the upgrade had brought'

# A second run of the same name in another namespace, and one release of the monitoring chart for both.
command kubectl create namespace second >/dev/null
command helm -n second install run "$chart" -f "$least" --set metrics.serviceMonitor.enabled=true >/dev/null
for values in tests/helm/monitoring/*.yaml; do
  watch=watch-$(basename "$values" .yaml)
  command kubectl create namespace "$watch" >/dev/null
  command helm -n "$watch" install monitoring helm/longwave-monitoring -f "$values" > "$work/installed" 2>&1 ||
    { cat "$work/installed"; fail "helm install -f $values"; }
  command helm -n "$watch" upgrade monitoring helm/longwave-monitoring -f "$values" --set alertLabels.again=yes >/dev/null
  command helm -n "$watch" rollback monitoring >/dev/null
  [ "$(command kubectl get prometheusrules -A -o name | wc -l)" = 1 ] || fail 'alerts are there twice, or not at all'
  uids=$(command kubectl get configmaps -A -l grafana_dashboard=1 -o jsonpath='{.items[*].data}' | grep -o '\\"uid\\": \\"longwave-[a-z]*\\"' | sort)
  [ "$(wc -l <<< "$uids")" = "$(find helm/longwave-monitoring/dashboards -name '*.json' | wc -l)" ] &&
    [ -z "$(uniq -d <<< "$uids")" ] || { echo "$uids"; fail 'a dashboard is there twice, or not at all'; }
  command helm -n "$watch" uninstall monitoring >/dev/null
  echo "api server: $values: one release for two runs of one name"
done
helm uninstall run >/dev/null

jobs() { kubectl get jobs -o name | sort | tr '\n' ' '; }
helm install run "$chart" -f "$least" --set workers.kind=Job >/dev/null
first=$(jobs)
helm upgrade run "$chart" -f "$least" --set workers.kind=Job,workers.replicas=5 >/dev/null
[ "$(jobs)" = "$first" ] || fail 'scaling made another Job'
[ "$(kubectl get jobs -o jsonpath='{.items[*].spec.completions}')" = 5 ] || fail 'the Job was not scaled'
helm upgrade run "$chart" -f "$least" --set workers.kind=Job,images.worker.tag=new --wait=false >/dev/null
grep -q . <<< "$(jobs)" && [ "$(jobs)" != "$first" ] || fail 'another image is in the same Job'
helm uninstall run >/dev/null
echo 'api server: a Job is scaled as it is, and replaced where it changes'
