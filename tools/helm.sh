#!/usr/bin/env bash
# Installs Helm and the tools that check a chart into .tools/, built from their Go modules (a few minutes, once), and
# their schemas. Programs of the same version in $KUBE_BIN are used as they are.
#
#   tools/helm.sh            installs what is missing
#   tools/helm.sh --there    installs nothing; fails with status 77 if something is missing
#
# Ends with status 77 and a reason if there is no Go.
set -euo pipefail
cd "$(dirname "$0")/.."

programs=(
  helm=helm.sh/helm/v3/cmd/helm@v3.17.0
  kubeconform=github.com/yannh/kubeconform/cmd/kubeconform@v0.6.7
  helm-unittest=github.com/helm-unittest/helm-unittest/cmd/helm-unittest@v0.7.2
  helm-docs=github.com/norwoodj/helm-docs/cmd/helm-docs@v1.14.2
)
# The schemas' sources: Kubernetes, the Prometheus operator's and cert-manager's custom resources.
modules=(
  k8s.io/kubernetes@v1.33.1
  github.com/prometheus-operator/prometheus-operator@v0.85.0
  github.com/cert-manager/cert-manager@v1.18.2
)
bin=$PWD/.tools/bin
schemas=.tools/schemas
kube_bin=${KUBE_BIN:-$HOME/.cache/kube-from-source/bin}
stamp="${programs[*]} ${modules[*]} $(cksum < tests/helm/schemas.py)"

[ "$(cat .tools/chart-tools 2>/dev/null)" != "$stamp" ] || exit 0
if [ "${1:-}" = --there ]; then
  echo 'helm: skipped: the chart tools are not in .tools/; tools/helm.sh brings them'
  exit 77
fi
PATH=$PATH:/usr/local/go/bin
command -v go >/dev/null || { echo 'helm: skipped: there is no Go to build Helm with'; exit 77; }

mkdir -p "$bin"
for program in "${programs[@]}"; do
  name=${program%%=*} package=${program#*=}
  # A Go program contains its module and version.
  is_right() { go version -m "$1/$name" 2>/dev/null | grep -qP "^\tmod\t.*\t${package##*@}\t"; }
  if is_right "$bin"; then continue; fi
  if is_right "$kube_bin"; then
    cp "$kube_bin/$name" "$bin/$name"
  else
    echo "helm: building $name ${package##*@}"
    GOBIN=$bin go install "$package"
  fi
done

folders=()
for module in "${modules[@]}"; do
  folders+=("$(go mod download -json "$module" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')")
done
rm -rf "$schemas"
python3 tests/helm/schemas.py "$bin/helm" "${folders[@]}" "$schemas"
echo "$stamp" > .tools/chart-tools
echo 'helm: the chart tools are in place'
