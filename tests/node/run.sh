#!/usr/bin/env bash
# Workers of several processes, as one worker each: longwave-worker --ranks, whose bits are those of one device, and the
# Python package under torchrun; ranks are killed in both, and in half a minute of chaos.
#
#   tests/node/run.sh [BUILD [python]]     BUILD: a build folder with its programs in bin/ [build]; python: the
#                                          package's tests alone, where `make test` has run the others
#
# Needs what tests/python/run.sh needs, and fetches it. Ends with `N passed, N failed`.
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${1:-build}
part=${2:-all}
case $part in
  all | python) ;;
  *) echo "run.sh: got $part, wanted python or nothing" >&2; exit 1 ;;
esac

passed=0
failed=0
# Runs a suite whose last line is `N passed, N failed` or that with more behind it, and adds its counts.
suite() {
  local output counts
  output=$(mktemp)
  "$@" 2>&1 | tee "$output" || true
  counts=$(tail -n 1 "$output")
  rm -f "$output"
  if [[ $counts =~ ^([0-9]+)\ passed,\ ([0-9]+)\ failed ]]; then
    passed=$((passed + BASH_REMATCH[1]))
    failed=$((failed + BASH_REMATCH[2]))
  else
    failed=$((failed + 1))  # it ended before its last line
  fi
}

[ "$part" = python ] || suite tests/run.sh "$build" -R '^(integration\.Ranks|chaos\.ranks)'
suite tests/python/run.sh "$build/bin" -k test_node
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
