#!/usr/bin/env bash
# All checks and measurements of a machine with a GPU, in the folder that pack.sh's archive was unpacked into, in order of value. Each has a
# limit; what the machine or the time does not permit is skipped, and the table at the end says why.
#
#   src/tests/gpu/device.sh [--seconds N] [--text FILE] [--out FOLDER] [STEP…]
#
#   --seconds   of all steps together [1500]
#   --text      what is trained on [the archive's own sources]
#   --out       for logs and tables [a new one in the archive's folder]
#   STEP        the steps, or groups of them: smoke kernels trainer check profile [all but loss]; loss is 600 steps of runs of 25.6 M parameters
#
# Exit status: 0 if no step that ran has failed.
set -uo pipefail
cd "$(dirname "$0")/../.." || exit
. tests/gpu/environment.sh
[ -n "$packed" ] || { echo "gpu device: wanted a folder that tests/gpu/pack.sh has made; in the tree: tests/gpu/run.sh, worker.sh, python.sh" >&2; exit 2; }
limit=1500 out='' wanted=()
while [ $# -gt 0 ]; do
  case $1 in
    --seconds) limit=$2; shift 2 ;;
    --text) LONGWAVE_TEST_TEXT=$(realpath "$2"); shift 2 ;;
    --out) out=$2; shift 2 ;;
    -*) echo "gpu device: got $1; the head of this script has the options" >&2; exit 2 ;;
    *) wanted+=("$1"); shift ;;
  esac
done
[ ${#wanted[@]} -gt 0 ] || wanted=(smoke kernels trainer check profile)
out=$(realpath "${out:-$(mktemp -d "$packed/device-XXXXXX")}")
mkdir -p "$out"
runs=$(mktemp -d) table=$out/table.txt
trap 'rm -rf "$runs"' EXIT
: >"$table"

# Why the GPU cannot be used, or nothing.
no_gpu=
nvidia-smi >/dev/null 2>&1 || no_gpu='no GPU: nvidia-smi is missing or finds no device'
grep -q '^cuda yes' "$packed/packed" || no_gpu="${no_gpu:+$no_gpu; }the archive was built without CUDA"
no_torch=
has_torch=$(python3 -c 'import torch; print(torch.__version__)' 2>/dev/null) || no_torch='python3 has no torch'
lacks=
for program in "$bin"/* "$packed"/lib/liblongwave.so.1; do
  missing=$(ldd "$program" 2>&1 | awk '/not found/ {print $1}' | sort -u | tr '\n' ' ')
  [ -z "$missing" ] || lacks="$(basename "$program") lacks $missing"
done
has() { command -v "$1" >/dev/null || echo "no $1 here"; }

note() { printf '%-16s %-8s %4ss  %s\n' "$@" | tee -a "$table"; }

# step GROUP NAME LIMIT WHY_NOT COMMAND: WHY_NOT is empty, or the reason for which it is skipped. The last line of the output is the result.
step() {
  local group=$1 name=$2 seconds=$3 why=$4 began=$SECONDS left result
  shift 4
  [[ " ${wanted[*]} " == *" $group "* || " ${wanted[*]} " == *" $name "* ]] || return 0
  left=$((limit - SECONDS))
  [ "$seconds" -le "$left" ] || seconds=$left
  [ -n "$why" ] || [ "$seconds" -ge 8 ] || why="the $limit s of --seconds are over"
  if [ -n "$why" ]; then
    note "$name" skipped 0 "$why"
    return 1
  fi
  timeout -k 5 "$seconds" bash -c "$*" >"$out/$name.log" 2>&1
  result=$?
  case $result in
    0) result=passed ;;
    124 | 137) result=limit ;;
    *) result=FAILED ;;
  esac
  note "$name" "$result" $((SECONDS - began)) "$(grep -av '^[[:space:]]*$' "$out/$name.log" | tail -n 1 | cut -c1-200)"
  [ "$result" = passed ]
}
later() { step "$@" & }

cat "$packed/packed"
echo "torch ${has_torch:-none}; logs in $out"
gpt='--set model.vocabulary=50304 --set model.d_model=768 --set model.layers=12 --set model.heads=12 --set model.context=1024 --set train.batch=16 --set train.device=cuda --set train.autocast=bf16'
bars="$bin/bench_kernels --backend cuda --bars --seconds 0.1"
columns='cut -d, -f1,5,6,7,8,10,11'

step smoke gpu 15 "$no_gpu" "nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader"
step smoke linked 15 "$no_torch" "[ -z '$lacks' ] && echo 'every program finds its libraries' || { echo '$lacks'; false; }"
no_torch=${no_torch:-$lacks}
step smoke conformance 150 "$no_gpu" "$bin/conformance_test --gtest_brief=1 --gtest_filter='*/cuda:RunFft.*'"
step smoke library 20 "${no_gpu:-$no_torch}" "python3 -c 'from longwave import _library as l; code = l.library().lw_can_use(l.CUDA); print(\"lw_can_use\", code); raise SystemExit(code)'"
step kernels bars 100 "$no_gpu" "$bars --params 1073741824 --out $out/bars.csv; r=\$?; $columns $out/bars.csv; python3 tests/bench/kernels/table.py bars $out/bars.csv; exit \$r"
for tiles in 256 1024; do
  step kernels "bars-$tiles" 40 "$no_gpu" "$bars --params 134217728 --segment-tiles $tiles --out $out/bars-$tiles.csv; r=\$?; $columns $out/bars-$tiles.csv; grep -c 'ok$' $out/bars-$tiles.csv; exit \$r"
done
python3 -c "import torch; torch.randint(50257, (8, 16, 1025)).numpy().tofile('$runs/batches')" 2>/dev/null
for optimizer in adamw muon; do
  step trainer "gpt-$optimizer" 40 "${no_gpu:-$no_torch}" "(echo 2; echo 8) | $bin/bench_gpt --batches $runs/batches --weights $runs/weights $gpt --set train.optimizer=$optimizer | tail -1 | awk '{printf \"%.0f tokens/s, loss %s\n\", 8 * 16384 / \$1, \$3}'"
done
step trainer pytorch 90 "${no_gpu:-$no_torch}" "python3 tests/gpu/pytorch.py speed adamw muon adamw-compile"
step trainer run 90 "${no_gpu:-$no_torch}" "$bin/longwave up configs/demo.yaml --plain --data $LONGWAVE_TEST_TEXT --runs-dir $runs --name run --set run.workers=1 --set run.shards=4 --set run.steps=90 --set sync.inner_steps=30 $gpt && grep -h 'synced for' $runs/run/logs/* | tail -1"
# Nothing from here on is timed, so that these run beside one another.
few='*NonFinite*/cuda:*WhateverTheThreads/cuda:*SmallerIndex*/cuda:*Restore*/cuda:*SegmentsAndOwners*/cuda:*SquareSum*/cuda:RunFft.*'
sanitizer=${no_gpu:-$(has compute-sanitizer)}
no_pytest=$(python3 -c 'import pytest' 2>/dev/null || echo 'python3 has no pytest')
later check worker 150 "${no_gpu:-$no_torch}" "tests/gpu/worker.sh"
later check python 200 "${no_gpu:-${no_torch:-$no_pytest}}" "LONGWAVE_TEST_DEVICE=cuda python3 -m pytest -p no:cacheprovider -q tests/python/test_sync.py"
later check racecheck 200 "$sanitizer" "compute-sanitizer --tool racecheck --error-exitcode 1 $bin/conformance_test --gtest_brief=1 --gtest_filter='$few'"
later check memcheck 200 "$sanitizer" "compute-sanitizer --tool memcheck --error-exitcode 1 $bin/conformance_test --gtest_brief=1 --gtest_filter='$few:*Shapes*Updates*/cuda'"
wait
profile='--clock-control none --launch-skip 3 --launch-count 1 --kill yes --section SpeedOfLight --section Occupancy --section WarpStateStats --section ComputeWorkloadAnalysis --section LaunchStats'
for kernel in EncodeBlock DecodeSums DecodeBlock; do
  step profile "ncu-$kernel" 40 "${no_gpu:-$(has ncu)}" "ncu $profile -k regex:$kernel.*Kernel $bin/bench_kernels --backend cuda --bars --params 67108864 --segment-tiles 2048 --seconds 0; grep 'Memory Throughput' \$0; true"
done
model='--set model.d_model=512 --set model.layers=8 --set model.heads=8 --set model.context=512 --set train.batch=16 --set train.warmup_steps=60 --set train.device=cuda --set train.autocast=bf16 --set run.workers=4 --set run.validate_every=5 --set run.validation_batches=64 --set data.validation_share=0.05 --set run.steps=600 --set sync.inner_steps=30'
for run in 'longwave --set preset=longwave --set train.learning_rate=0.004' 'muloco --set preset=muloco --set train.learning_rate=0.004' \
  'diloco --set preset=diloco --set train.learning_rate=0.001'; do
  later loss "loss-${run%% *}" 600 "${no_gpu:-$no_torch}" "$bin/bench_loss configs/demo.yaml --data $LONGWAVE_TEST_TEXT $model ${run#* }"
done
later loss loss-adamw 600 "${no_gpu:-$no_torch}" "python3 tests/gpu/pytorch.py loss adamw --text $LONGWAVE_TEST_TEXT"
later loss loss-muon 600 "${no_gpu:-$no_torch}" "python3 tests/gpu/pytorch.py loss muon --text $LONGWAVE_TEST_TEXT"
wait

echo
echo "gpu device: ${SECONDS} s, $(grep -c ' passed ' "$table") passed, $(grep -cE ' (FAILED|limit) ' "$table") did not, $(grep -c ' skipped ' "$table") skipped:"
cat "$table"
! grep -qE ' (FAILED|limit) ' "$table"
