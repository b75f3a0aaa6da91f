#!/usr/bin/env bash
# Builds the images from a build folder's programs, and runs them like a cluster does: as user 65532, without
# capabilities, on a root that is read-only except for the state's folder and /tmp.
#
#   tests/image/run.sh [build/bin]
#
# Ends with `N passed, N failed`; status 77 and a reason if images cannot be built.
set -euo pipefail
cd "$(dirname "$0")/../.."
programs=${1:-build/bin}

. tests/support/checks.sh
. tests/support/roots.sh
[ "$(id -u)" = 0 ] || skip "building images without a container engine needs root"
for tool in buildah busybox unshare setpriv ldd readelf strip; do
  command -v "$tool" >/dev/null || skip "$tool is not installed"
done
for program in longwave longwave-server longwave-worker; do
  [ -x "$programs/$program" ] || skip "$programs has no $program"
done

buildah=(buildah --storage-driver "${STORAGE_DRIVER:-vfs}")
work=$(mktemp -d)
elsewhere=$(mktemp -d /var/tmp/longwave-XXXX)  # the images have a /tmp of their own
tag=test-$$
clean_up() {
  while read -r container; do "${buildah[@]}" rm "$container" >/dev/null 2>&1 || true; done <"$work/containers"
  for image in "server:$tag" "worker:$tag" "worker:$tag-cuda"; do "${buildah[@]}" rmi "localhost/longwave-$image" >/dev/null 2>&1 || true; done
  rm -rf "$work" "$elsewhere"
}
touch "$work/containers"
trap clean_up EXIT

root_of() {
  local container
  container=$("${buildah[@]}" from "localhost/longwave-$1:${2:-$tag}")
  echo "$container" >>"$work/containers"  # in a subshell of the script that cleans up
  "${buildah[@]}" mount "$container"
}

helm/images/build.sh --programs "$programs" --tag "$tag" | tee "$work/sizes"
server=$(root_of server)
worker=$(root_of worker)

config=/var/lib/longwave/config.yaml
is_user() { "${buildah[@]}" inspect --type image --format '{{.OCIv1.Config.User}}' "localhost/longwave-$1:$tag" | grep -qx 65532:65532; }
is_licensed() { "${buildah[@]}" inspect --type image --format '{{index .OCIv1.Config.Labels "org.opencontainers.image.licenses"}}' "localhost/longwave-$1:$tag" | grep -qx Apache-2.0; }
has_only() { [ -z "$(find "$1" -xdev -type f ! -path '*/usr/bin/longwave*' ! -path '*/lib*' ! -path '*/etc/*')" ]; }
owns_nothing() { [ -z "$(find "$1" -xdev ! -path '*/var/lib/longwave*' \( -user 65532 -o -perm -o+w -type f \) -print -quit)" ]; }
# Both compare a size, and fail for an image without a name.
megabytes() { awk -v part="longwave-$1:" 'index($1, part) && ($3 == "MB" || $3 == "GB") { size = $2 * ($3 == "GB" ? 1000 : 1); found = 1 } END { print size; exit !found }' "$work/sizes"; }
at_most_mb() { local size; size=$(megabytes "$1") && awk "BEGIN { exit !($size <= $2) }"; }
is_larger() { local size; size=$(megabytes "$1") && awk "BEGIN { exit !($size > $2) }"; }
# run_for SECONDS ROOT STATE COMMAND…: run_in with a time limit.
run_for() { timeout "$1" bash -c "$(declare -f run_in); run_in \"\$@\"" - "${@:2}"; }
refuses_to_write() {
  local said status=0
  said=$(run_for 120 "$server" "$(state_folder try)" /usr/bin/longwave-server --role=coordinator --config "$config" \
    --listen 127.0.0.1:0 --state-dir "$1" 2>&1) || status=$?
  echo "$said, status $status"
  [ "$status" = 1 ] && grep -q "$1.*Read-only file system" <<<"$said"
}

for part in server worker; do
  check "the $part's image runs as 65532" is_user $part
  check "the $part's image names its license" is_licensed $part
  check "the $part's image has programs and libraries alone" has_only "${!part}"
  check "the $part's image has no file that its user could change" owns_nothing "${!part}"
  check "the $part's programs find their libraries" run_in "${!part}" "$(state_folder try)" /usr/bin/longwave-$part --help
  check "the $part's image has the command" run_in "${!part}" "$(state_folder try)" /usr/bin/longwave --version
done
check 'the server takes at most 60 MB' at_most_mb server 60
check 'the worker takes at most 800 MB' at_most_mb worker 800
check 'one that is larger would be noticed' is_larger server 9
check 'nothing can be written but the state' refuses_to_write /state
check 'nor its own configuration' refuses_to_write /etc/longwave

# A run of the three, from their images.
mkfifo "$work/said"
run_in "$server" "$(state_folder coordinator)" /usr/bin/longwave-server --role=coordinator --config "$config" \
  --listen 127.0.0.1:0 --state-dir /var/lib/longwave/state --exit-when-done >"$work/said" 2>"$work/coordinator.log" &
coordinator=$!
read -r _ address <"$work/said" || true
run_in "$server" "$(state_folder shard)" /usr/bin/longwave-server --role=shard --shard=0 --config "$config" \
  --coordinator "$address" --state-dir /var/lib/longwave/state >"$work/shard.log" 2>&1 &
shard=$!
check 'a worker trains to the end' run_for 300 "$worker" \
  "$(state_folder worker)" /usr/bin/longwave-worker --config "$config" --coordinator "$address" --name w \
  --run-dir /var/lib/longwave --state-dir /var/lib/longwave/state
ends() { timeout 120 tail --pid "$1" -f /dev/null && wait "$1"; }
check 'the shard ends with the run' ends $shard
check 'the coordinator ends with the run' ends $coordinator
check 'the weights are there' test -s "$work/worker/model.safetensors"

# The worker for GPUs, of these programs if they were built with a LibTorch with CUDA. Another test in any case uses
# small stand-ins, placed and linked like pip's LibTorch and NVIDIA packages.
stand_ins() {
  local site=$elsewhere/lib/python3/site-packages
  mkdir -p "$site/torch/lib" "$site/nvidia/cu13/lib" "$work/cuda"
  cd "$work/cuda"
  # shellcheck disable=SC2016
  {
    echo 'int runtime(void) { return 13; }' | cc -shared -fPIC -x c - -o "$site/nvidia/cu13/lib/libcudart.so.13"
    echo 'int runtime(void); int cuda(void) { return runtime(); }' | cc -shared -fPIC -x c - -o "$site/torch/lib/libtorch_cuda.so" \
      -L"$site/nvidia/cu13/lib" -l:libcudart.so.13 -Wl,--no-as-needed -l:libutil.so.1 -Wl,-rpath,'$ORIGIN/../../nvidia/cu13/lib'
    echo 'int core(void) { return 10; }' | cc -shared -fPIC -x c - -o "$site/torch/lib/libc10.so"
    # shellcheck disable=SC2028
    printf '%s\n' '#include <dlfcn.h>' '#include <stdio.h>' 'int core(void);' 'int main(void) {' \
      "  void* cuda = dlopen(\"$site/torch/lib/libtorch_cuda.so\", RTLD_NOW);" \
      '  if (cuda == NULL) return puts(dlerror()), 1;' \
      '  return printf("%d %d\n", core(), ((int (*)(void))dlsym(cuda, "cuda"))()) < 0;' '}' |
      cc -x c - -o longwave-worker -L"$site/torch/lib" -l:libc10.so -Wl,-rpath,"$site/torch/lib"
    cp longwave-worker longwave
  }
  cd - >/dev/null
}
images_for_gpus() { helm/images/build.sh --programs "$1" --cuda --tag "$tag-cuda" worker && cuda=$(root_of worker "$tag-cuda"); }
computes_there() { [ "$(run_in "$cuda" "$(state_folder try)" /usr/bin/longwave-worker)" = '10 13' ]; }
loads_whole() { # of LibTorch's part for CUDA, by the image's own loader
  run_in "$1" "$(state_folder try)" /lib64/ld-linux-x86-64.so.2 --list "$2" >"$work/loaded"
  cat "$work/loaded"
  ! grep 'not found' "$work/loaded"
}
torch_of() { ldd "$1" | sed -n 's|.* => \(/.*\)/libc10\.so.*|\1|p'; }
refuses_cpu_programs() {
  local said status=0
  said=$(helm/images/build.sh --programs "$1" --cuda --tag "$tag-cuda" worker 2>&1) || status=$?
  echo "$said"
  [ "$status" != 0 ] && grep -q 'wanted one with libtorch_cuda.so' <<<"$said"
}
if command -v cc >/dev/null; then
  stand_ins
  check 'an image for GPUs is made of built programs' images_for_gpus "$work/cuda"
  check "it has LibTorch, NVIDIA's packages beside it and what they need" computes_there
else
  echo 'not tried: an image for GPUs of stand-ins: there is no cc'
fi
if [ -e "$(torch_of "$programs/longwave-worker")/libtorch_cuda.so" ]; then
  check "an image for GPUs is made of this build's programs" images_for_gpus "$programs"
  check "its LibTorch's part for CUDA finds all that it needs" loads_whole "$cuda" "$(realpath "$(torch_of "$programs/longwave-worker")")/libtorch_cuda.so"
  check 'its worker starts' run_in "$cuda" "$(state_folder try)" /usr/bin/longwave-worker --check-device cpu
else
  check "programs for the CPU make no image for GPUs" refuses_cpu_programs "$programs"
  echo "not tried: an image for GPUs of this build's programs: their LibTorch has no CUDA"
fi

sum_up
