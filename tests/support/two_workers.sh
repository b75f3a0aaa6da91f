# For test scripts: two workers that are not alike, in one run of a coordinator and a shard. The including script sets
# $name (for messages) and $servers (the folder of longwave and longwave-server). They train on $LONGWAVE_TEST_TEXT, if that is set.
# shellcheck shell=bash
root=$(mktemp -d)
processes=()
# However this ends, nothing that it started stays.
end() {
  for process in "${processes[@]}"; do kill "$process" 2>/dev/null || true; done
  wait 2>/dev/null || true
  rm -rf "$root"
}
trap end EXIT

# shellcheck disable=SC2154
fail() {
  echo "$name: $1" >&2
  tail -n 5 "$root"/*.log >&2 2>/dev/null || true
  exit 1
}

# NAME COMMAND…: starts a server and waits for its line "ready WHERE"; WHERE is in $answer then.
serve() {
  local server=$1 lines
  shift
  exec {lines}< <(exec "$@" 2> "$root/$server.log")
  processes+=($!)
  read -r -t 60 _ answer <&"$lines" || fail "the $server was not ready after a minute"
}

# two_workers PRESET STEPS NAME=COMMAND NAME=COMMAND: both train to the end, and the coordinator has found their replicas
# equal after each round. Their logs are $root/NAME.log.
two_workers() {
  local preset=$1 config="$root/$1.yaml" coordinator status worker workers=()
  cat > "$config" <<END
run: {preset: $preset, steps: $2, workers: 2, shards: 1, validate_every: 1000000}
model: {d_model: 64, layers: 2, heads: 4, context: 64}
train: {batch: 8, threads: 1, warmup_steps: 10}
data: {path: ${LONGWAVE_TEST_TEXT:-compiler-headers}}
END
  rm -f "$root"/*.log
  # shellcheck disable=SC2154
  serve coordinator "$servers/longwave-server" --role=coordinator --config "$config" \
    --listen 127.0.0.1:0 --run-dir "$root"
  coordinator=$answer
  serve shard "$servers/longwave-server" --role=shard --shard=0 --config "$config" \
    --coordinator "$coordinator" --listen tcp://127.0.0.1:0
  shift 2
  for worker in "$@"; do
    mkdir -p "$root/${worker%%=*}"
    # shellcheck disable=SC2086
    ${worker#*=} --config "$config" --coordinator "$coordinator" --name "${worker%%=*}" \
      --run-dir "$root/${worker%%=*}" > /dev/null 2> "$root/${worker%%=*}.log" &
    workers+=($!)
    processes+=($!)
  done
  for worker in "${workers[@]}"; do wait "$worker" || fail "$preset: a worker failed"; done
  status=$("$servers/longwave" status "$coordinator" --json)
  python3 - "$preset" "$status" <<'PYTHON' || fail "$preset: the replicas differ"
import json, sys
status = json.loads(sys.argv[2])
print(f"{sys.argv[1]}: {status['rounds']} rounds, loss {status['train_loss']:.3f}, state {status['state_hash']}, "
      f"replicas equal: {status['replicas_equal']}, repairs: {status['repairs']}")
sys.exit(not status["replicas_equal"] or status["repairs"] != 0 or status["rounds"] != status["rounds_of"])
PYTHON
  for worker in "${processes[@]}"; do kill "$worker" 2>/dev/null || true; done
  wait 2>/dev/null || true
  processes=()
}
