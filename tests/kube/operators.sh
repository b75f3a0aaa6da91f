#!/usr/bin/env bash
# Builds the Prometheus operator, its config reloader, a Prometheus that finds its targets in Kubernetes (Debian's does
# not), and cert-manager's controller, as they are published as Go modules, into FOLDER, and puts their custom resources
# into FOLDER/crds and FOLDER/cert-manager-crds:   tests/kube/operators.sh FOLDER
#
# Ends with status 77 and a reason if Go is missing, or if the module proxy does not answer for missing sources; with 1
# if sources are there and a build fails.
set -euo pipefail
mkdir -p "$1"
folder=$(cd "$1" && pwd)
work=$(mktemp -d)
end() {
  local status=$?
  # Requests the newest version of a small module, which no cache can answer.
  if [ "$status" != 0 ] && ! (cd "$work" && go list -m golang.org/x/mod@latest) >"$work/proxy" 2>&1; then
    echo "skipped: the operators: the module proxy does not answer: $(tail -n 1 "$work/proxy")"
    status=77
  elif [ "$status" != 0 ]; then
    echo 'the operators could not be built' >&2
    status=1
  fi
  rm -rf "$work"
  exit "$status"
}
export GOFLAGS=-mod=mod CGO_ENABLED=0
command -v go >/dev/null || { echo 'skipped: the operators: there is no Go to build them with'; exit 77; }
trap end EXIT

# Existing programs are not built again; of each part the program comes last. sources_of MODULE VERSION: the folder of
# its sources.
sources_of() {
  go mod download -json "$1@$2" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p'
}

# As a dependency of a module of our own, since its own replaces parts by folders that the archive lacks.
build_operator() {
  [ -x "$folder/operator" ] && [ -x "$folder/prometheus-config-reloader" ] && return
  local module=github.com/prometheus-operator/prometheus-operator version=v0.81.0
  local commands=("$module/cmd/operator" "$module/cmd/prometheus-config-reloader")
  mkdir "$work/operator"
  cd "$work/operator"
  printf 'module programs\n\ngo 1.23.0\n\nrequire %s %s\n' $module $version >go.mod
  { printf '//go:build tools\n\npackage tools\n\n'; printf 'import _ "%s"\n' "${commands[@]}"; } >tools.go
  go mod tidy >log 2>&1 || { tail -3 log >&2; return 1; }
  mkdir -p "$folder/crds"
  cp "$(sources_of $module $version)"/example/prometheus-operator-crd/*.yaml "$folder/crds/"
  go build -o "$folder/" "${commands[@]}"
}

# build_of MODULE VERSION COMMAND TO: builds in a copy of the sources, with the module's own replacements.
build_of() {
  local copy
  copy=$work/$(basename "$1")
  cp -r "$(sources_of "$1" "$2")" "$copy"
  chmod -R u+w "$copy"
  if [ -d "$copy/plugins" ]; then
    # Only Kubernetes of Prometheus's ways to find targets: the others need every cloud's libraries.
    printf 'package plugins\n\nimport _ "%s/discovery/kubernetes"\n' "$1" >"$copy/plugins/plugins.go"
  fi
  (cd "$copy" && go build -o "$4" "./cmd/$3")
}

build_prometheus() {
  [ -x "$folder/prometheus" ] || build_of github.com/prometheus/prometheus v0.54.1 prometheus "$folder/prometheus"
}

# The last version with its controller in the module itself.
build_cert_manager() {
  [ -x "$folder/cert-manager" ] && return
  local module=github.com/cert-manager/cert-manager version=v1.11.5 crd
  mkdir -p "$folder/cert-manager-crds"
  for crd in "$(sources_of $module $version)"/deploy/crds/crd-*.yaml; do
    # A template of a chart, which is plain without the chart's lines.
    grep -v '{{' "$crd" >"$folder/cert-manager-crds/${crd##*/}"
  done
  build_of $module $version controller "$folder/cert-manager"
}

build_operator
build_prometheus
build_cert_manager
