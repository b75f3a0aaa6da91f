#!/usr/bin/env bash
# Builds the kernels with CUDA (preset cuda: nothing above them), or takes those of pack.sh's folder, and holds them, on this machine's GPU,
#   1. to the conformance suites, which compare with the CPU's bits, cuFFT's path included
#   2. to compute-sanitizer, in the smaller tests, where the toolkit has it
#   3. against the roofline: bench_kernels with 2^30 parameters, as shares of the copy bandwidth that is
#      measured in the same run; kernels.csv in the build folder has every row
# Ends with one line about the result. Exit status 0 only if the CUDA tests ran and passed, whatever the benchmark's
# figures.
#
#   tests/gpu/run.sh [BUILD_FOLDER]     default build-cuda; in pack.sh's folder, where kernels.csv goes
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/gpu/environment.sh
build=${1:-${packed:-build-cuda}}

fail() {
  echo "gpu tests: $1" >&2
  exit 1
}

gpus=$(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null) ||
  fail "no GPU: nvidia-smi is missing or finds no device on this machine; nothing was run"
echo "gpu tests: on $gpus"

if [ -n "$packed" ]; then
  suite=$bin/conformance_test bench=$bin/bench_kernels
else
  cmake --preset cuda -B "$build" >/dev/null || fail "the configuration failed"
  cmake --build "$build" --target conformance_test kernels_test bench_kernels || fail "the build failed"
  # cuFFT is loaded at run time: that of the toolkit the build found.
  nvcc=$(sed -n 's/^LONGWAVE_NVCC:[A-Z]*=//p' "$build/CMakeCache.txt")
  toolkit=$(dirname "$(dirname "$(readlink -f "$nvcc")")")
  export LD_LIBRARY_PATH="$toolkit/lib64:$toolkit/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
  suite=$build/tests/conformance_test bench=$build/bin/bench_kernels
fi

log=$(mktemp)
trap 'rm -f "$log"' EXIT
"$suite" --gtest_filter='*/cuda:RunFft.*' 2>&1 | tee "$log" || fail "the conformance suite failed"
passed=$(grep -c '^\[       OK \]' "$log" || true)
skipped=$(grep '^\[  SKIPPED \].*ms)$' "$log" | grep -vc 'RunFft' || true)
[ "$skipped" -eq 0 ] || fail "$skipped tests were skipped: $(grep -m1 -i cuda "$log")"
[ "$passed" -gt 0 ] || fail "no CUDA test ran"
fft="cuFFT's path included"
if grep -q '^\[  SKIPPED \] RunFft' "$log"; then fft="without cuFFT: $(grep -m1 'no cuFFT' "$log")"; fi

sanitized="compute-sanitizer is not here, so that its tools did not run"
sanitizer=$(command -v compute-sanitizer || ls /usr/local/cuda/bin/compute-sanitizer 2>/dev/null || true)
if [ -n "$sanitizer" ]; then
  # The smaller tests: under the sanitizer the whole suite takes an hour.
  few='*Encode*Refuses*/cuda:*NonFinite*/cuda:*WhateverTheThreads/cuda:*SmallerIndex*/cuda:*Documented/cuda'
  few+=':*Restore*/cuda:*SegmentsAndOwners*/cuda:*HashesOfMany*/cuda:*SquareSum*/cuda:RunFft.*'
  few+=':*AdamW*/cuda'
  # sanitize TOOL FILTER: a filter that matches no test is a mistake, not a clean run.
  sanitize() {
    "$sanitizer" --tool "$1" --error-exitcode 1 "$suite" --gtest_filter="$2" 2>&1 | tee "$log" ||
      fail "compute-sanitizer's $1 found something"
    grep -q '^\[       OK \]' "$log" || fail "no test ran under compute-sanitizer's $1"
  }
  for tool in memcheck racecheck synccheck; do sanitize "$tool" "$few"; done
  # A tile that is not finite leaves its part of the payload unwritten (ops.h), and the test copies that part.
  sanitize initcheck "$few:-*NonFinite*"
  sanitized="clean under memcheck, racecheck, synccheck and initcheck"
fi

csv="$build/kernels.csv"
rm -f "$csv"
measured="the benchmark ran: $csv"
if "$bench" --backend cuda --params $((1 << 30)) --out "$csv"; then
  python3 tests/bench/kernels/table.py bars "$csv"
elif [ -e "$csv" ] && grep -q 'FAILED$' "$csv"; then
  fail "the benchmark has wrong results: $csv"
else
  measured="the benchmark did not run (it wants about 28 GiB of the GPU's memory and 40 GiB of the host's)"
fi
echo "gpu tests: $passed passed on $gpus, $fft; $sanitized; $measured"
