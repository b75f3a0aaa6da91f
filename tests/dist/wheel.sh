#!/usr/bin/env bash
# Holds that a wheel alone runs a cluster where nothing of the build is, in a root of the C library, Python and PyTorch.
#
#   tests/dist/wheel.sh [build/bin [WHEEL]]     WHEEL: [that of these sources, made in build/python/wheel]
#
# build/bin has the longwave-worker that trains with the wheel's servers. PyTorch is that of tests/python/run.sh, which fetches it;
# without it no training loop is tried. Ends with `N passed, N failed`; status 77 and a reason where it cannot be tried.
set -euo pipefail
cd "$(dirname "$0")/../.."
programs=$(realpath "${1:-build/bin}")

. tests/support/checks.sh
. tests/support/roots.sh
. tests/support/wheel.sh
unshare --mount true 2>/dev/null || skip 'a root of its own needs root'
[ -x "$programs/longwave-worker" ] || skip "$programs has no longwave-worker"
wheel=${2:-}
if [ -z "$wheel" ]; then make_wheel && wheel=$(ls build/python/wheel/longwave-*.whl); fi

work=$(mktemp -d) root='' servers=() mounted=()
clean_up() {
  for one in "${servers[@]}"; do kill "$one" 2>/dev/null || true; done
  for one in "${mounted[@]}"; do umount "$one"; done
  rm -rf "$work"
}
trap clean_up EXIT
chmod 755 "$work"
root=$work/root
python_root "$root" "$wheel"
here() { run_in "$root" "$(state_folder try)" "$@"; }

# Whatever its files need is in it, or is the C library's, C++'s or zlib, which Python needs, too.
needs_nothing_else() {
  local needed
  mkdir -p "$work/unpacked" && python3 -m zipfile -e "$wheel" "$work/unpacked"
  for needed in $(find "$work/unpacked" -type f -exec readelf -d {} + 2>/dev/null | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort -u); do
    [ -e "$work/unpacked/longwave.libs/$needed" ] && continue
    case $needed in
      ld-linux* | libc.so.6 | libm.so.6 | libpthread.so.0 | libdl.so.2 | librt.so.1 | libresolv.so.2 | libstdc++.so.6 | libgcc_s.so.1 | libz.so.1) ;;
      *) echo "$needed"; return 1 ;;
    esac
  done
}
check 'it needs nothing else' needs_nothing_else
says_its_version() { [ "$(here "$commands/$1" --version)" = "$1 $(sed -n 's/^project(longwave VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)" ]; }
for program in longwave longwave-server; do check "its $program says its version" says_its_version $program; done
wants_a_worker() {
  local said status=0
  said=$(here "$commands/longwave" "$@" 2>&1) || status=$?
  echo "$said"
  [ $status = 1 ] && grep -q "got no longwave-worker.*wanted that of the worker's archive" <<<"$said"
}
check 'join says what brings a worker' wants_a_worker join 127.0.0.1:1 --token lw1.x
check 'up of a built-in model does, too' wants_a_worker up $state/config.yaml --runs-dir $state
has_what_a_coordinating_machine_wants() { (cd "$root${commands%/bin}/share/longwave" && ls two-boxes.yaml longwave-coordinator.service longwave-shard@.service); }
check 'a configuration and units of systemd are there' has_what_a_coordinating_machine_wants

mkdir "$work/worker" && tiny_run "$work/worker" "$work/worker"
serve servers "$root" "$commands" "$programs/longwave-worker" --config "$work/worker/config.yaml" --coordinator ADDRESS --name w \
  --run-dir "$work/worker" --state-dir "$work/worker/state"

cache=${LONGWAVE_PYTHON_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/longwave-python}
complete=$(find "$cache" -mindepth 2 -maxdepth 2 -name complete 2>/dev/null | tail -n 1)
if [ -z "$complete" ]; then
  echo 'not tried: a training loop: no PyTorch was fetched yet (tests/python/run.sh)'
else
  touch "$root"/dev/{null,urandom}  # as in every container
  packages=$(echo "${complete%/complete}"/lib/python3*/site-packages)
  for one in /dev/null /dev/urandom "$packages"; do
    at=$root${one/#$packages//packages}
    mount --bind "$one" "$at"
    mounted+=("$at")
  done
  cp python/examples/{common,nanogpt}.py "$(state_folder loop)"
  loop="$interpreter $state/nanogpt.py --data $state/text --layers 1 --width 32 --context 32"
  check 'it runs a cluster of a training loop' run_in "$root" "$work/loop" "$commands/longwave" up --worker-command "$loop" \
    --name own --runs-dir $state --set run.workers=2 --set run.steps=60 --set train.warmup_steps=5
  check 'the replicas are equal' grep -q '"replicas_equal": *true' "$work/loop/own/summary.json"
fi
sum_up
