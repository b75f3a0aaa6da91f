#!/usr/bin/env bash
# Runs the tests of a build folder and ends with a plain line of the results.
#   tests/run.sh BUILD [ctest options, e.g. -L unit]
# One TEST of a program: BUILD/tests/PROGRAM --gtest_filter=SUITE.TEST
set -uo pipefail
cd "$(dirname "$0")/.."
build=$1
shift
report=$(mktemp)
trap 'rm -f "$report"' EXIT
results=$build/tests/results
rm -rf "$results"
# Two places a core, since many tests wait more than they compute; those of whole clusters take two of them.
ctest --test-dir "$build" --output-on-failure --no-tests=error --parallel "$(($(nproc) * 2))" \
  --output-junit "$report" "$@"
status=$?
tests/support/count_tests.py "$report" "$results"
exit $status
