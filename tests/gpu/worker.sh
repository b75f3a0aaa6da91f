#!/usr/bin/env bash
# A CPU worker and a GPU worker in one run, under ddp (the optimizer takes the merged gradient) and
# longwave (pseudo-gradients): the coordinator must find their replicas equal in every round.
# Needs a build with CUDA and a LibTorch with CUDA (docs/running.md, "On machines with GPUs"). Exit status
# 0 only if both runs came to that.
#
#   tests/gpu/worker.sh [BUILD_FOLDER]     default build/release-torch, or pack.sh's folder
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/gpu/environment.sh
[ -n "$packed" ] || bin=$(cd "${1:-build/release-torch}/bin" 2>/dev/null && pwd) || {
  echo "gpu worker: no ${1:-build/release-torch}/bin: wanted a build (docs/running.md)" >&2
  exit 1
}

name='gpu worker' servers=$bin
. tests/support/two_workers.sh

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null ||
  fail "no GPU: nvidia-smi is missing or finds no device on this machine; nothing was run"

run() {  # PRESET STEPS
  two_workers "$1" "$2" "cpu=$bin/longwave-worker --device cpu" "cuda=$bin/longwave-worker --device cuda"
  grep -q 'backend cuda' "$root/cuda.log" || fail "$1: the worker did not compute on the GPU"
}

run ddp 100
run longwave 150
echo "gpu worker: a CPU worker and a GPU worker kept equal replicas under ddp and longwave"
