#!/usr/bin/env bash
# Tests the chart's object store against a stand-in, moto of PyPI, in .tools/object-store (installed once).
#
#   tests/helm/object_store.sh            everything
#   tests/helm/object_store.sh --there    the same without installing; status 77 if something is missing
set -euo pipefail
cd "$(dirname "$0")/../.."
packages=.tools/object-store wanted='moto[server]==5.1.4'
if [ "$(cat "$packages/installed" 2>/dev/null)" != "$wanted" ]; then
  if [ "${1:-}" = --there ]; then
    echo 'object store: skipped: moto is not in .tools/; tests/helm/object_store.sh brings it'
    exit 77
  fi
  python3 -m venv --clear "$packages"
  "$packages/bin/pip" install --quiet --disable-pip-version-check "$wanted"
  echo "$wanted" > "$packages/installed"
fi
if [ "${1:-}" = --there ]; then tools/helm.sh --there; else tools/helm.sh; fi
exec "$packages/bin/python" -B tests/helm/object_store.py .tools/bin/helm helm/longwave
