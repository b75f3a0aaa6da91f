#!/usr/bin/env bash
# Tests the files of configs/cloud without a cloud: with their own tools, and with stand-ins for the programs that they
# call; the Slurm script also under a real Slurm of one node.
#
#   tests/cloud/run.sh unit|cloud-init|skypilot|slurm [build/bin]
#
# cloud-init and Slurm are fetched from the system's package sources and unpacked into a cache, not installed. If they
# are unavailable, their checks are left out with a reason.
#
# Ends with `N passed, N failed`; status 77 and a reason if a tool is missing.
# shellcheck disable=SC2013,SC2028
set -euo pipefail
cd "$(dirname "$0")/../.."
part=$1 programs=${2:-build/bin}
files=$PWD/configs/cloud

. tests/support/checks.sh
work=$(mktemp -d)
at_end=()
clean_up() {
  for what in "${at_end[@]}"; do $what; done
  rm -rf "$work"
}
trap clean_up EXIT
cache=${XDG_CACHE_HOME:-$HOME/.cache}/longwave-cloud-tools
# A program of that name that records its call, and then runs the rest of the arguments.
stand_in() {
  local path=$1
  shift
  mkdir -p "$(dirname "$path")"
  { echo '#!/usr/bin/env bash'; echo "printf '%s\n' \"\${0##*/} \$*\" >>'$work/calls'"; printf '%s\n' "$@"; } >"$path"
  chmod +x "$path"
}
has_flags() {
  local flag
  for flag in $(grep -v '^ *#' "$1" | grep -o -- '--\(state-dir\|token-file\|token\|name\|data\|threads\|device\|set\)\b' | sort -u); do
    "$programs/longwave" join --help | grep -q -- "$flag\b" || { echo "longwave join has no $flag"; return 1; }
  done
}
has_server_flags() {
  local flag
  for flag in $(grep -h -o -- ' --[a-z-]*' "$@" | grep -vE -- '--(authority|folder|now)$' | sort -u); do
    "$programs/longwave-server" --help | grep -q -- "$flag\b" || { echo "longwave-server has no $flag"; return 1; }
  done
}

if [ "$part" = unit ]; then
  command -v systemd-analyze >/dev/null || skip 'systemd-analyze is not installed'
  for program in longwave longwave-server; do stand_in "$work/longwave/bin/$program"; done
  mkdir "$work/units"
  is_clean() { local said; said=$(systemd-analyze verify --man=no "$1" 2>&1) || true; echo "$said"; [ -z "$said" ]; }
  is_hard() { systemd-analyze security --offline=true --threshold=25 "$1"; }
  for unit in longwave-worker longwave-coordinator longwave-shard@; do
    sed "s|/opt/longwave/|$work/longwave/|" "$files/$unit.service" >"$work/units/$unit.service"
    instance=$work/units/${unit/@/@0}.service
    [ "$unit" = "${unit%@}" ] || ln -s "$unit.service" "$instance"
    check "systemd has nothing to say of $unit" is_clean "$instance"
    check "$unit is exposed at most 2.5 of 10" is_hard "$instance"
  done
  check 'longwave-server has the flags that they give' has_server_flags "$files/longwave-coordinator.service" "$files/longwave-shard@.service"
  check 'a misspelt setting would be noticed' bash -c "sed s/NoNewPrivileges/NoNewPrivilege/ '$work/units/longwave-worker.service' >'$work/units/wrong.service'; systemd-analyze verify --man=no '$work/units/wrong.service' 2>&1 | grep -q NoNewPrivilege"
  check 'longwave join has the flags that it gives' has_flags "$files/longwave-worker.service"
elif [ "$part" = cloud-init ]; then
  yaml_python=$(for python in /usr/bin/python3 python3; do "$python" -c 'import yaml' 2>/dev/null && echo "$python" && break; done || true)
  [ -n "$yaml_python" ] || skip 'no Python here has PyYAML'
  part_of() { "$yaml_python" -c 'import sys, yaml; data = yaml.safe_load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$files/cloud-init.yaml" "$1"; }
  cloud_init() { cloud-init "$@"; }
  reason=
  if ! command -v cloud-init >/dev/null; then
    cloud_init() { PYTHONPATH=$cache/cloud-init/root/usr/lib/python3/dist-packages /usr/bin/python3 "$cache/cloud-init/root/usr/bin/cloud-init" "$@"; }
    reason=$(tests/cloud/packages.sh "$cache/cloud-init" cloud-init) || true
  fi
  if [ -z "$reason" ]; then
    sed 's/^    permissions:/    permission:/' "$files/cloud-init.yaml" >"$work/misspelt.yaml"
    sed 's/permissions: .*/permissions: 644/' "$files/cloud-init.yaml" >"$work/wrong.yaml"
    refuses_it() { local status=0; cloud_init schema --config-file "$1" || status=$?; [ $status = 1 ]; }
    check 'cloud-init takes it' cloud_init schema --config-file "$files/cloud-init.yaml"
    check 'a misspelt setting would be noticed' refuses_it "$work/misspelt.yaml"
    check 'a value of another type would be noticed' refuses_it "$work/wrong.yaml"
  else
    echo "not tried: cloud-init schema: $reason"
  fi
  check 'it is YAML with commands to run' part_of 'data["runcmd"][0]'
  part_of 'next(f["content"] for f in data["write_files"] if f["path"].endswith("longwave-install"))' >"$work/install"
  part_of 'next(f["content"] for f in data["write_files"] if f["path"].endswith("worker.env"))' >"$work/worker.env"
  check 'its script is one' sh -n "$work/install"
  check 'it says whom to join' grep -q '^COORDINATOR=' "$work/worker.env"
  check 'longwave join has the flags that it gives' has_flags "$work/worker.env"
  if [ "$(id -u)" = 0 ] && unshare --mount true 2>/dev/null; then
    stand_in "$work/longwave-worker-1/bin/longwave"
    mkdir "$work/longwave-worker-1/share"
    cp "$files/longwave-worker.service" "$work/longwave-worker-1/share/"
    tar -C "$work" -czf "$work/archive" longwave-worker-1
    stand_in "$work/bin/curl" "cp '$work/archive' /tmp/longwave.tar.gz"
    stand_in "$work/bin/systemctl"
    # shellcheck disable=SC2016
    install_it() {
      unshare --mount bash -euc '
        work=$1 sum=$2
        mkdir -p /opt /etc/systemd/system
        for folder in /opt /etc/systemd/system /tmp/; do
          case $work/ in "$folder"*) continue ;; esac
          mount -t tmpfs none "$folder"
        done
        PATH=$work/bin:$PATH sh "$work/install" https://example.org/archive "$sum" $3
        [ -z "$3" ] || [ -e /opt/longwave/torch/lib/libtorch_cuda.so ]
        [ -x /opt/longwave/bin/longwave ] && [ -d /opt/longwave-data ]
        cmp "$work/longwave-worker-1/share/longwave-worker.service" /etc/systemd/system/longwave-worker.service
        [ ! -e /tmp/longwave.tar.gz ]' - "$work" "$1" "${2:-}"
    }
    # A virtual environment, and its pip, which installs torch.
    # shellcheck disable=SC2016
    stand_in "$work/pip" 'lib=${0%/bin/pip}/lib/python3.11/site-packages/torch/lib' 'mkdir -p "$lib"' 'touch "$lib/libtorch_cuda.so"'
    stand_in "$work/bin/python3" 'mkdir -p "$3/bin"' "cp '$work/pip' \"\$3/bin/pip\""
    check 'its script installs the archive and starts the service' install_it "$(sha256sum "$work/archive" | cut -d' ' -f1)"
    check 'the service is enabled' grep -qx 'systemctl enable --now longwave-worker.service' "$work/calls"
    check 'it brings LibTorch to an archive for GPUs' install_it "$(sha256sum "$work/archive" | cut -d' ' -f1)" 2.11.0
    check 'of the version that is asked for' grep -qx 'pip install --quiet torch==2.11.0' "$work/calls"
    refuses() { rm -f "$work/calls"; ! install_it "$(printf '0%.0s' $(seq 64))" && ! grep -q systemctl "$work/calls"; }
    check 'an archive of another sum is not installed' refuses
  else
    echo 'not tried: the installation, which needs root and a mount namespace'
  fi
elif [ "$part" = skypilot ]; then
  python=$(for python in ${SKYPILOT_PYTHON:+"$SKYPILOT_PYTHON"} /usr/bin/python3 python3; do
    "$python" -c 'import sky' 2>/dev/null && echo "$python" && break; done || true)
  [ -n "$python" ] || skip "no Python here has PyPI's skypilot (460 MB); SKYPILOT_PYTHON names one"
  mkdir -p "$work/home"
  takes() {
    HOME=$work/home SKYPILOT_DISABLE_USAGE_COLLECTION=1 "$python" - "$1" <<'PYTHON'
import sys, sky, yaml
from sky.utils import common_utils, schemas
settings = yaml.safe_load(open(sys.argv[1]))
common_utils.validate_schema(settings, schemas.get_task_schema(), "wrong: ")
task = sky.Task.from_yaml_config(settings, env_overrides=[(name, "x") for name in settings["envs"]],
                                 secrets_overrides=[(name, "x") for name in settings.get("secrets", {})])
print(*task.resources)
PYTHON
  }
  refuses_it() { ! takes "$work/wrong.yaml" >"$work/said" 2>&1 && grep -q "$1" "$work/said"; }
  clouds() { takes "$files/skypilot.yaml" | grep -o 'AWS(\[Spot\]\|GCP(\[Spot\]' | sort -u | grep -c .; }
  check 'SkyPilot takes the coordinator' takes "$files/skypilot-coordinator.yaml"
  check 'SkyPilot takes the worker' takes "$files/skypilot.yaml"
  check 'its GPUs are spot ones of two clouds' test "$(clouds)" = 2
  sed 's/use_spot:/use_spots:/' "$files/skypilot.yaml" >"$work/wrong.yaml"
  check 'a misspelt setting would be noticed' refuses_it use_spots
  sed 's/use_spot: true/use_spot: often/' "$files/skypilot.yaml" >"$work/wrong.yaml"
  check 'a value of another type would be noticed' refuses_it often
  # Their commands, with stand-ins for the programs.
  command_of() { "$python" -c 'import sys, yaml; print(yaml.safe_load(open(sys.argv[1]))[sys.argv[2]])' "$files/$1.yaml" "$2" >"$work/$1.$2"; }
  for name in skypilot skypilot-coordinator; do command_of "$name" run; command_of "$name" setup; done
  home=$work/machine/longwave
  mkdir -p "$home/dist" "$work/longwave-worker-1"
  stand_in "$work/longwave-worker-1/bin/longwave"
  tar -C "$work" -czf "$home/dist/longwave-worker-1-x86_64.tar.gz" longwave-worker-1
  worker() { HOME=$work/machine COORDINATOR=c:7070 TORCH='' OPTIONS="--device cpu" TOKEN=lw1.secret bash "$work/skypilot.$1"; }
  joins() { worker setup && worker run && worker run && [ "$(grep -cx "longwave join c:7070 --name $(cat "$home/name") --state-dir state --token-file token --data text --device cpu" "$work/calls")" = 2 ]; }
  check 'the worker joins, after a restart by the same name' joins
  check 'others cannot read the token' test "$(stat -c %a "$home/token")" = 600
  check 'a command line has no token' bash -c "! grep -q lw1.secret '$work/calls'"
  # The coordinator makes its authority a moment after its start, and the first to end ends the job.
  # shellcheck disable=SC2016
  stand_in "$home/env/bin/longwave-server" 'case $* in *coordinator\ --config*) sleep 1; mkdir -p coordinator/security; touch coordinator/security/ca.crt; exec sleep 3 ;; esac' 'exec sleep 60'
  stand_in "$home/env/bin/longwave" 'mkdir -p shard-0/security; touch shard-0/security/tls.crt'
  coordinator() { HOME=$work/machine ADDRESS=$1 timeout 20 bash "$work/skypilot-coordinator.run"; }
  check 'without an address nothing starts' bash -c "rm '$work/calls'; $(declare -f coordinator); work='$work'; coordinator '' && [ ! -e '$work/calls' ]"
  starts() { coordinator 192.0.2.7 && grep -q '^longwave-server --role=coordinator .* --set cluster.coordinator=192.0.2.7:7070 ' "$work/calls" &&
    grep -q '^longwave certificate make .* --role shard/0' "$work/calls" && grep -q '^longwave-server --role=shard .* --advertise 192.0.2.7:7072 ' "$work/calls"; }
  check 'coordinator, certificate and shard start' starts
  check 'longwave join has the flags that it gives' has_flags "$files/skypilot.yaml"
  check 'longwave-server has the flags that it gives' has_server_flags "$work/skypilot-coordinator.run"
else
  script=$files/longwave-worker.sbatch
  check 'bash can read it' bash -n "$script"
  if command -v shellcheck >/dev/null; then
    check 'shellcheck has nothing to say' shellcheck "$script"
  else
    echo 'not tried: shellcheck, which is not installed'
  fi
  check 'longwave join has the flags that it gives' has_flags "$script"
  # Slurm runs a copy; the job says where the script lay, and srun starts the tasks.
  mkdir -p "$work/archive/share"
  cp "$script" "$work/archive/share/"
  cp "$script" "$work/copy"
  stand_in "$work/archive/bin/longwave"
  # shellcheck disable=SC2016
  stand_in "$work/bin/srun" 'while [[ $1 = --* ]]; do shift; done' \
    'for task in 0 1 2; do SLURM_PROCID=$task "$@" || exit; done'
  stand_in "$work/bin/scontrol" "echo 'JobId=7 JobName=longwave'; echo '   Command=$work/archive/share/longwave-worker.sbatch --x'"
  run_it() { env -u LONGWAVE_HOME PATH="$work/bin:$PATH" HOME="$work/home" SLURM_JOB_ID=7 SLURM_CPUS_PER_TASK=8 "$@" bash "$work/copy"; }
  check 'every task joins' run_it LONGWAVE_COORDINATOR=c:7070 LONGWAVE_DATA=/text LONGWAVE_TOKEN_FILE=/token LONGWAVE_OPTIONS='--device cpu'
  for task in 0 1 2; do
    check "task $task has a name and a folder of its own" grep -qx "longwave join c:7070 --name slurm-$task --state-dir $work/home/.longwave/slurm/slurm-$task --data /text --threads 8 --token-file /token --device cpu" "$work/calls"
  done
  refuses_gpus() { # as Slurm has their number
    rm -f "$work/calls"
    ! run_it LONGWAVE_COORDINATOR=c:7070 LONGWAVE_DATA=/text SLURM_GPUS_PER_TASK="$1" 2>"$work/said" &&
      grep -q "got $1 GPUs a task, wanted 1 and more tasks, or a Python loop under torchrun" "$work/said" && ! grep ^srun "$work/calls"
  }
  check 'a task of several GPUs is refused' refuses_gpus 3
  check 'also where it names their kind' refuses_gpus a100:2
  check 'a task of one GPU joins' run_it LONGWAVE_COORDINATOR=c:7070 LONGWAVE_DATA=/text SLURM_GPUS_PER_TASK=a100:1
  # The command of docs/how-to/python.md for a loop of one's own.
  sed -n "/^    srun bash/,/train.py'$/s/^    //p" docs/how-to/python.md >"$work/torchrun.sh"
  # shellcheck disable=SC2016
  stand_in "$work/bin/torchrun" 'echo "$LONGWAVE_NAME $LONGWAVE_STATE_DIR" >>"${0%/bin/*}/calls"'
  is_a_torchrun() {
    rm "$work/calls"
    PATH="$work/bin:$PATH" HOME="$work/home" SLURM_GPUS_ON_NODE=8 bash -eu "$work/torchrun.sh" &&
      [ "$(grep -cx 'torchrun --standalone --nproc-per-node 8 --max-restarts 100 train.py' "$work/calls")" = 3 ] &&
      grep -qx "node-2 $work/home/.longwave/node-2" "$work/calls"
  }
  check 'a loop of one'\''s own has a torchrun a task, as a node of its own' is_a_torchrun
  comes_back() { rm "$work/calls"; run_it LONGWAVE_COORDINATOR=c:7070 LONGWAVE_DATA=/text && grep -q '^longwave join' "$work/calls" && ! grep '^longwave join' "$work/calls" | grep -q token; }
  check 'a job that comes back needs no token' comes_back
  lacks_torch() { ! run_it LONGWAVE_COORDINATOR=c:7070 LONGWAVE_DATA=/text 2>"$work/said" && grep -q "got no $work/archive/torch" "$work/said"; }
  printf '## LibTorch\n' >"$work/archive/README.md"
  check 'an archive for GPUs without LibTorch is refused' lacks_torch
  mkdir -p "$work/archive/torch/lib"
  check 'with it the tasks join' comes_back
  check 'without a coordinator it says what it wants' bash -c "LONGWAVE_DATA=/text bash '$work/copy' 2>&1 | grep -q 'wanted host:port of the coordinator'"

  # The real script with real processes: a secured run, whose two workers are the tasks of a job.
  reason=
  if [ "$(id -u)" != 0 ]; then
    reason='it needs root'
  elif [ ! -x "$programs/longwave-worker" ] || [ ! -x "$programs/longwave-server" ]; then
    reason="$programs has no longwave-worker or longwave-server"
  else
    reason=$(tests/cloud/packages.sh "$cache/slurm" slurmctld slurmd slurm-client munge) || true
  fi
  if [ -z "$reason" ]; then
    . tests/cloud/slurm_node.sh
    at_end+=(stop_slurm)
    is_up=
    bring_it_up() { start_slurm "$cache/slurm/root" && is_up=1; }
    check 'a Slurm of this one node comes up' bring_it_up
    # Without a running Slurm there is no job to submit.
    if [ -n "$is_up" ]; then . tests/cloud/slurm_run.sh; fi
  else
    echo "not tried: a real Slurm: $reason"
  fi
fi
sum_up
