#!/usr/bin/env bash
# A CPU worker and a GPU worker in one run, under ddp (the optimizer takes the merged gradient) and
# longwave (pseudo-gradients): the coordinator must find their replicas equal in every round.
# Needs a build with CUDA and a LibTorch with CUDA (docs/running.md, "On machines with GPUs"). Exit status
# 0 only if both runs came to that.
#
# It has not run on a GPU yet: on the machine that it was written on it was tried with the CPU in the
# GPU's place.
#
#   tests/gpu/worker.sh [BUILD_FOLDER]     default build/gpu
set -euo pipefail
cd "$(dirname "$0")/../.."
bin=$(cd "${1:-build/gpu}/bin" 2>/dev/null && pwd) || {
  echo "gpu worker: no ${1:-build/gpu}/bin: wanted a build (docs/running.md)" >&2
  exit 1
}

root=$(mktemp -d)
processes=()
# However this ends, nothing that it started stays.
end() {
  for process in "${processes[@]}"; do kill "$process" 2>/dev/null || true; done
  wait 2>/dev/null || true
  rm -rf "$root"
}
trap end EXIT

fail() {
  echo "gpu worker: $1" >&2
  tail -n 5 "$root"/*.log >&2 2>/dev/null || true
  exit 1
}

nvidia-smi --query-gpu=name,driver_version --format=csv,noheader 2>/dev/null ||
  fail "no GPU: nvidia-smi is missing or finds no device on this machine; nothing was run"

# NAME COMMAND…: starts a server and waits for its line "ready WHERE"; WHERE is in $answer then.
serve() {
  local name=$1 lines
  shift
  exec {lines}< <(exec "$@" 2> "$root/$name.log")
  processes+=($!)
  read -r -t 60 _ answer <&"$lines" || fail "the $name was not ready after a minute"
}

run() {  # PRESET STEPS
  local preset=$1 config="$root/$1.yaml" name
  cat > "$config" <<END
run: {preset: $preset, steps: $2, workers: 2, shards: 1, validate_every: 1000000}
model: {d_model: 64, layers: 2, heads: 4, context: 64}
train: {batch: 8, threads: 1}
data: {path: compiler-headers}
END
  rm -f "$root"/*.log
  processes=()
  serve coordinator "$bin/longwave-server" --role=coordinator --config "$config" \
    --listen 127.0.0.1:0 --run-dir "$root"
  local coordinator=$answer
  serve shard "$bin/longwave-server" --role=shard --shard=0 --config "$config" \
    --coordinator "$coordinator" --listen tcp://127.0.0.1:0
  local workers=()
  for name in cpu cuda; do
    mkdir -p "$root/$name"
    "$bin/longwave-worker" --config "$config" --coordinator "$coordinator" --name "$name" \
      --device "$name" --run-dir "$root/$name" > /dev/null 2> "$root/$name.log" &
    workers+=($!)
    processes+=($!)
  done
  for name in "${workers[@]}"; do wait "$name" || fail "$preset: a worker failed"; done
  grep -q 'backend cuda' "$root/cuda.log" || fail "$preset: the worker did not compute on the GPU"
  local status
  status=$("$bin/longwave" status "$coordinator")
  echo "$status"
  grep -q 'replicas   equal' <<< "$status" || fail "$preset: the replicas of CPU and GPU differ"
  for name in "${processes[@]}"; do kill "$name" 2>/dev/null || true; done
  wait 2>/dev/null || true
  processes=()
}

run ddp 100
run longwave 150
echo "gpu worker: a CPU worker and a GPU worker kept equal replicas under ddp and longwave"
