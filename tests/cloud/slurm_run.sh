# The last part of `tests/cloud/run.sh slurm`, which sources it: a run trained by a job of a real Slurm.
# shellcheck shell=bash disable=SC2154
home=$work/unpacked
mkdir -p "$home/bin" "$home/share" "$work/real"
for program in longwave longwave-worker; do ln -s "$(realpath "$programs/$program")" "$home/bin/$program"; done
cp "$script" "$home/share/"
find /usr/include -name '*.h' -size -64k 2>/dev/null | sort | xargs cat 2>/dev/null | head -c 100000 >"$work/real/text" || true
cat >"$work/real/config.yaml" <<'YAML'
run: {preset: longwave, steps: 4000, workers: 2, shards: 1, validation_batches: 2}
model: {d_model: 32, layers: 1, heads: 2, context: 32}
data: {path: .}
train: {batch: 4, warmup_steps: 4, threads: 1, device: cpu}
sync: {inner_steps: 4}
cluster: {start_timeout_s: 300}
security: {mode: "on"}
YAML
operator=$work/real/coordinator/security/operator
servers=()
stop_servers() { for server in "${servers[@]}"; do kill "$server" 2>/dev/null || true; done; }
at_end+=(stop_servers)

mkfifo "$work/real/said"
in_background "$programs/longwave-server" --role=coordinator --config "$work/real/config.yaml" --listen 127.0.0.1:0 --exit-when-done \
  --state-dir "$work/real/coordinator" >"$work/real/said" 2>"$work/real/coordinator.log" &
coordinator=$!
servers+=("$coordinator")
read -r _ address <"$work/real/said" || true
"$programs/longwave" certificate make --authority "$work/real/coordinator/security" \
  --folder "$work/real/shard/security" --role shard/0 --dns localhost --ip 127.0.0.1 >/dev/null
in_background "$programs/longwave-server" --role=shard --shard=0 --config "$work/real/config.yaml" --coordinator "$address" \
  --state-dir "$work/real/shard" >"$work/real/shard.log" 2>&1 &
servers+=($!)
(umask 077 && "$programs/longwave" token create "$address" --security "$operator" --uses 2 >"$work/real/token")

# No GPU here, and no eight cores a task; everything else is the script's.
give_the_job() {
  job=$(LONGWAVE_COORDINATOR=$address LONGWAVE_DATA=$work/real/text LONGWAVE_TOKEN_FILE=$work/real/token \
    LONGWAVE_STATE=$work/real/workers LONGWAVE_OPTIONS='--device cpu' sbatch --parsable --chdir "$work/real" \
    --ntasks 2 --gpus-per-task 0 --cpus-per-task 1 --output "$work/real/job.log" "$home/share/longwave-worker.sbatch")
  [ -n "$job" ]
}
status_has() { "$programs/longwave" status "$address" --security "$operator" >"$work/real/status" && grep -Eq "$1" "$work/real/status"; }
log_has() { [ "$(grep -Ec "$2" "$work/real/job.log")" -ge "$1" ]; }
job_is() { scontrol show job "$job" | grep -q "JobState=$1"; }
in_time() { until_it_holds "$@" || { tail -n 20 "$work/real/status" "$work/real/job.log" "$work/slurm/slurmctld.log"; return 1; }; }
trains() { give_the_job && in_time 180 status_has '^rounds +[1-9][0-9]' && status_has '^slurm-0 ' && status_has '^slurm-1 '; }
# Slurm delays such a job for two minutes, unless told to start it at once. Both uses of the token are spent.
comes_back_for_real() {
  scontrol requeue "$job" && in_time 180 job_is PENDING &&
    scontrol update "JobId=$job" StartTime=now && in_time 180 log_has 2 'resumed (after|in) round'
}
coordinator_has_ended() { ! kill -0 "$coordinator" 2>/dev/null; }
ends_with_the_run() { in_time 300 job_is COMPLETED && in_time 60 coordinator_has_ended && wait "$coordinator"; }

check 'under a real Slurm every task of the job trains' trains
# A job that fails shows nothing more.
((failed == 0)) || return 0
check 'put back into the queue, the job goes on where it was' comes_back_for_real
check 'the job ends well with the run' ends_with_the_run
check 'the weights are there' test -s "$(ls "$work"/real/workers/slurm-*/model.safetensors)"
