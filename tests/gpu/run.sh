#!/usr/bin/env bash
# Builds the kernels with CUDA (preset cuda: nothing above them) and runs the conformance suite on this
# machine's GPU: first plainly, then under compute-sanitizer where the toolkit has it. Ends in one line
# that says what came of it; exit status 0 only if the CUDA rows ran and passed.
#
#   tests/gpu/run.sh [BUILD_FOLDER]     default build/cuda
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${1:-build/cuda}

fail() {
  echo "gpu tests: $1" >&2
  exit 1
}

gpus=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null) ||
  fail "no GPU: nvidia-smi is missing or finds no device on this machine; nothing was run"
echo "gpu tests: on $gpus"

cmake --preset cuda -B "$build" >/dev/null || fail "the configuration failed"
cmake --build "$build" --target conformance_test kernels_test || fail "the build failed"

suite="$build/tests/conformance_test"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
"$suite" --gtest_filter='*/cuda' 2>&1 | tee "$log" || fail "the conformance suite failed"
passed=$(grep -c '^\[       OK \]' "$log" || true)
skipped=$(grep -c '^\[  SKIPPED \].*ms)$' "$log" || true)
[ "$skipped" -eq 0 ] || fail "$skipped tests were skipped: $(grep -m1 -i cuda "$log")"
[ "$passed" -gt 0 ] || fail "no CUDA test ran"

sanitized="compute-sanitizer is not here"
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null || true)
if [ -n "$sanitizer" ]; then
  # The smaller tests: under the sanitizer the whole suite takes an hour.
  few='*Encode*Refuses*/cuda:*NonFinite*/cuda:*WhateverTheThreads/cuda:*SmallerIndex*/cuda:*Documented/cuda'
  for tool in memcheck racecheck synccheck; do
    "$sanitizer" --tool "$tool" --error-exitcode 1 "$suite" --gtest_filter="$few" ||
      fail "compute-sanitizer's $tool found something"
  done
  sanitized="clean under memcheck, racecheck and synccheck"
fi
echo "gpu tests: $passed passed on $gpus; $sanitized"
