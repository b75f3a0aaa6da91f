#!/usr/bin/env bash
# Runs the tests of a build folder and ends with a plain line of the results.
#   tools/test.sh BUILD [ctest options, e.g. -L unit]
set -uo pipefail
cd "$(dirname "$0")/.."
build=$1
shift
report=$(mktemp)
trap 'rm -f "$report"' EXIT
ctest --test-dir "$build" --output-on-failure --no-tests=error --parallel "$(nproc)" \
  --output-junit "$report" "$@"
status=$?
tools/count_tests.py "$report"
exit $status
