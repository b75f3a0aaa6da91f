#!/usr/bin/env bash
# Tests of the Python package as it lies in the tree, on the library and the programs of a build folder: no wheel is made. Where the
# build has the address sanitizer its runtime is loaded before Python's own allocations; leaks are not looked for, since the interpreter
# and PyTorch keep memory until the end.
#
#   tests/python/built.sh BUILD [pytest options]
#
# packages.sh fetches what they need. Ends with `N passed, N failed, N skipped`.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=$(realpath "$1")
shift
packages=$(tests/python/packages.sh)
variables=("LONGWAVE_LIBRARY=$build/lib/liblongwave.so" "LONGWAVE_BIN=$build/bin" "PYTHONPATH=$PWD/python" PYTHONDONTWRITEBYTECODE=1)
if grep -q '^LONGWAVE_SANITIZE:.*address' "$build/CMakeCache.txt"; then
  compiler=$(sed -n 's/^CMAKE_CXX_COMPILER:[A-Z]*=//p' "$build/CMakeCache.txt")
  variables+=("LD_PRELOAD=$("$compiler" -print-file-name=libasan.so)"
    "ASAN_OPTIONS=detect_leaks=0:${ASAN_OPTIONS:-}")
fi
report=$(mktemp)
trap 'rm -f "$report"' EXIT
status=0
env "${variables[@]}" "$packages/bin/python" -m pytest -p no:cacheprovider -q --durations=5 --junitxml="$report" "$@" || status=$?
tests/support/count_tests.py "$report"
exit "$status"
