#!/usr/bin/env bash
# Builds the images from a build folder's programs, and runs them as a cluster does: as user 65532, without
# capabilities, on a root that cannot be written but for the state's folder and /tmp.
#
#   tests/image/run.sh [build/bin]
#
# Ends with `N passed, N failed`; status 77 and a reason where images cannot be built.
set -euo pipefail
cd "$(dirname "$0")/../.."
programs=${1:-build/bin}

. tests/support/checks.sh
[ "$(id -u)" = 0 ] || skip "building images without a container engine needs root"
for tool in buildah busybox unshare setpriv ldd strip; do
  command -v "$tool" >/dev/null || skip "$tool is not installed"
done
for program in longwave longwave-server longwave-worker; do
  [ -x "$programs/$program" ] || skip "$programs has no $program"
done

buildah=(buildah --storage-driver "${STORAGE_DRIVER:-vfs}")
work=$(mktemp -d)
tag=test-$$
containers=()
clean_up() {
  for container in "${containers[@]}"; do "${buildah[@]}" rm "$container" >/dev/null 2>&1 || true; done
  for part in server worker; do "${buildah[@]}" rmi "localhost/longwave-$part:$tag" >/dev/null 2>&1 || true; done
  rm -rf "$work"
}
trap clean_up EXIT

root_of() {
  local container
  container=$("${buildah[@]}" from "localhost/longwave-$1:$tag")
  containers+=("$container")
  "${buildah[@]}" mount "$container"
}
# run_in ROOT STATE COMMAND…: as the image's user, its root read-only; STATE is what may be written, beside /tmp.
run_in() {
  # shellcheck disable=SC2016
  unshare --mount bash -euc '
    root=$1 state=$2; shift 2
    mkdir -p "$root/proc"
    mount --bind "$root" "$root"
    mount -o remount,bind,ro "$root"
    mount --rbind /proc "$root/proc"
    mount -t tmpfs -o mode=1777 none "$root/tmp"
    mount --bind "$state" "$root/var/lib/longwave"
    exec env -i PATH=/usr/bin HOME=/var/lib/longwave \
      /usr/bin/setpriv --no-new-privs /usr/sbin/chroot --userspec=65532:65532 --groups= "$root" "$@"' - "$@"
}
state_folder() {
  mkdir -p "$work/$1"
  cp "$work/config.yaml" "$work/text" "$work/$1/"
  chown -R 65532:65532 "$work/$1"
  echo "$work/$1"
}

helm/images/build.sh --programs "$programs" --tag "$tag" | tee "$work/sizes"
server=$(root_of server)
worker=$(root_of worker)

# The text is this machine's own: headers, one after the other.
find /usr/include -name '*.h' -size -64k | sort | xargs cat 2>/dev/null | head -c 100000 >"$work/text" || true
cat >"$work/config.yaml" <<'YAML'
run: {preset: longwave, steps: 12, workers: 1, shards: 1, validation_batches: 2}
model: {d_model: 32, layers: 1, heads: 2, context: 32}
data: {path: /var/lib/longwave/text}
train: {batch: 4, warmup_steps: 4, threads: 1, device: cpu}
sync: {inner_steps: 4}
YAML

config=/var/lib/longwave/config.yaml
is_user() { "${buildah[@]}" inspect --type image --format '{{.OCIv1.Config.User}}' "localhost/longwave-$1:$tag" | grep -qx 65532:65532; }
has_only() { [ -z "$(find "$1" -xdev -type f ! -path '*/usr/bin/longwave*' ! -path '*/lib*' ! -path '*/etc/*')" ]; }
owns_nothing() { [ -z "$(find "$1" -xdev ! -path '*/var/lib/longwave*' \( -user 65532 -o -perm -o+w -type f \) -print -quit)" ]; }
at_most_mb() { awk -v part="longwave-$1:" -v most="$2" 'index($1, part) { found = 1; if ($3 == "GB" || $2 > most) exit 1 } END { exit !found }' "$work/sizes"; }
refuses_to_write() { ! run_in "$server" "$(state_folder try)" /usr/bin/longwave-server --role=coordinator --config "$config" --listen 127.0.0.1:0 --state-dir /state 2>&1 | grep -q ready; }

for part in server worker; do
  check "the $part's image runs as 65532" is_user $part
  check "the $part's image has programs and libraries alone" has_only "${!part}"
  check "the $part's image has no file that its user could change" owns_nothing "${!part}"
  check "the $part's programs find their libraries" run_in "${!part}" "$(state_folder try)" /usr/bin/longwave-$part --help
  check "the $part's image has the command" run_in "${!part}" "$(state_folder try)" /usr/bin/longwave --version
done
check 'the server takes at most 60 MB' at_most_mb server 60
check 'the worker takes at most 800 MB' at_most_mb worker 800
check 'nothing can be written but the state' refuses_to_write

# A run of the three, from their images.
mkfifo "$work/said"
run_in "$server" "$(state_folder coordinator)" /usr/bin/longwave-server --role=coordinator --config "$config" \
  --listen 127.0.0.1:0 --state-dir /var/lib/longwave/state --exit-when-done >"$work/said" 2>"$work/coordinator.log" &
coordinator=$!
read -r _ address <"$work/said" || true
run_in "$server" "$(state_folder shard)" /usr/bin/longwave-server --role=shard --shard=0 --config "$config" \
  --coordinator "$address" --state-dir /var/lib/longwave/state >"$work/shard.log" 2>&1 &
shard=$!
check 'a worker trains to the end' timeout 120 bash -c "$(declare -f run_in); run_in \"\$@\"" - "$worker" \
  "$(state_folder worker)" /usr/bin/longwave-worker --config "$config" --coordinator "$address" --name w \
  --run-dir /var/lib/longwave --state-dir /var/lib/longwave/state
ends() { timeout 30 tail --pid "$1" -f /dev/null && wait "$1"; }
check 'the shard ends with the run' ends $shard
check 'the coordinator ends with the run' ends $coordinator
check 'the weights are there' test -s "$work/worker/model.safetensors"

sum_up
