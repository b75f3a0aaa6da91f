# For test scripts: a Slurm of one node, this machine, from unpacked packages. Wants $work, a folder of the script's
# own, and root.
# shellcheck shell=bash
slurm_processes=()
# in_background COMMAND…: $! is the process, which ends with this script, even if the script is killed without a
# clean-up: all processes are root's.
in_background() { exec setpriv --pdeathsig KILL "$@"; }

# start_slurm ROOT: starts the programs that tests/cloud/packages.sh has unpacked to ROOT. Afterwards sbatch and related
# commands are in PATH.
start_slurm() {
  local root=$1 libraries node ports held
  # shellcheck disable=SC2154
  node=$work/slurm
  libraries=$(echo "$root"/usr/lib/*-linux-gnu)
  export LD_LIBRARY_PATH=$libraries:$libraries/slurm-wlm PATH=$root/usr/bin:$PATH SLURM_CONF=$node/slurm.conf
  mkdir -p "$node/state" "$node/spool"
  chmod 755 "$work" "$node"
  exec {held}< <(exec python3 tests/support/held_ports.py 2)
  slurm_processes+=($!)
  read -r -a ports <&"$held"
  # Larger numbers than the machine's, as the script wants; Slurm does not check or bind them.
  cat >"$SLURM_CONF" <<CONF
ClusterName=test
SlurmctldHost=$(hostname -s)(127.0.0.1)
SlurmctldPort=${ports[0]}
SlurmdPort=${ports[1]}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$node/munge
CredType=cred/munge
PluginDir=$libraries/slurm-wlm
StateSaveLocation=$node/state
SlurmdSpoolDir=$node/spool
SlurmctldPidFile=$node/slurmctld.pid
SlurmdPidFile=$node/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SchedulerType=sched/builtin
SlurmdParameters=config_overrides
KillWait=20
NodeName=$(hostname -s) NodeAddr=127.0.0.1 CPUs=64 RealMemory=300000
PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP
CONF
  # A folder of our own: the machine's control groups are left alone.
  printf 'CgroupPlugin=cgroup/v1\nCgroupAutomount=no\nCgroupMountpoint=%s\n' "$node/cgroup" >"$node/cgroup.conf"
  (umask 077 && head -c 1024 /dev/urandom >"$node/key")
  in_background "$root/usr/sbin/munged" --foreground --key-file="$node/key" --socket="$node/munge" --pid-file="$node/munged.pid" \
    --log-file="$node/munged.log" --seed-file="$node/seed" >"$node/munged.out" 2>&1 &
  slurm_processes+=($!)
  until_it_holds 60 test -S "$node/munge" || { tail -n 3 "$node"/munged.*; return 1; }
  in_background "$root/usr/sbin/slurmctld-wlm" -D -f "$SLURM_CONF" >"$node/slurmctld.log" 2>&1 &
  slurm_processes+=($!)
  in_background "$root/usr/sbin/slurmd-wlm" -D -f "$SLURM_CONF" -d "$root/usr/sbin/slurmstepd-wlm" >"$node/slurmd.log" 2>&1 &
  slurm_processes+=($!)
  until_it_holds 120 node_is_idle || { tail -n 3 "$node"/*.log; return 1; }
}

node_is_idle() { timeout 20 sinfo --noheader --format %T | grep -q idle; }

stop_slurm() {
  local process
  ((${#slurm_processes[@]})) || return 0
  if timeout 20 scancel --user root >/dev/null 2>&1; then until_it_holds 30 node_is_idle 2>/dev/null || true; fi
  for process in "${slurm_processes[@]}"; do kill "$process" 2>/dev/null || true; done
  wait "${slurm_processes[@]}" 2>/dev/null || true
}

# until_it_holds SECONDS COMMAND…: repeats the command, since Slurm sends no notices.
until_it_holds() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do
    ((SECONDS < end)) || return 1
    sleep 0.5
  done
}
