#!/usr/bin/env bash
# Builds the Prometheus operator, its config reloader and a Prometheus that finds its targets in Kubernetes (Debian's
# does not), as they are published as Go modules, into FOLDER, and puts the operator's custom resources into
# FOLDER/crds:   tests/kube/operators.sh FOLDER
set -euo pipefail
mkdir -p "$1"
folder=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export GOFLAGS=-mod=mod CGO_ENABLED=0

# build MODULE VERSION COMMAND…: programs of a module, in a module of our own: one that replaces its own parts by
# folders which its archive lacks takes the published ones as a dependency.
build() {
  local module=$1 version=$2 programs=() command
  shift 2
  for command; do [ -x "$folder/$command" ] || programs+=("$module/cmd/$command"); done
  ((${#programs[@]})) || return 0
  mkdir -p "$work/$version"
  cd "$work/$version"
  printf 'module programs\n\ngo 1.23.0\n\nrequire %s %s\n' "$module" "$version" >go.mod
  { printf '//go:build tools\n\npackage tools\n\n'; printf 'import _ "%s"\n' "${programs[@]}"; } >tools.go
  go mod tidy >log 2>&1 || { tail -3 log >&2; return 1; }
  sources=$(go list -m -f '{{.Dir}}' "$module")
  if [ -d "$sources/plugins" ]; then
    # Of Prometheus' ways to find targets, that of Kubernetes: the others are the kits of every cloud.
    cp -r "$sources" sources
    chmod -R u+w sources
    printf 'package plugins\n\nimport _ "%s/discovery/kubernetes"\n' "$module" >sources/plugins/plugins.go
    go mod edit -replace "$module=./sources"
  fi
  go build -o "$folder/" "${programs[@]}"
}

build github.com/prometheus-operator/prometheus-operator v0.81.0 operator prometheus-config-reloader
if [ ! -d "$folder/crds" ]; then
  cp -r "$sources/example/prometheus-operator-crd" "$work/crds"
  chmod -R u+w "$work/crds"
  mv "$work/crds" "$folder/crds"
fi
build github.com/prometheus/prometheus v0.54.1 prometheus
