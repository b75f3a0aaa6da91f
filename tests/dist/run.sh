#!/usr/bin/env bash
# The archive of `make dist`, made of a build folder's programs, unpacked elsewhere and run where nothing is but the C
# library: in a root that has only that, or, without the right to make one, with an empty environment.
#
#   tests/dist/run.sh [build/bin]
#
# Ends with `N passed, N failed`; status 77 and a reason where it cannot be tried.
# shellcheck disable=SC2016
set -euo pipefail
cd "$(dirname "$0")/../.."
programs=$(realpath "${1:-build/bin}")

. tests/support/checks.sh
for tool in patchelf readelf ldd strip; do command -v "$tool" >/dev/null || skip "$tool is not installed"; done
for program in longwave longwave-server longwave-worker; do
  [ -x "$programs/$program" ] || skip "$programs has no $program"
done

work=$(mktemp -d)
servers=()
clean_up() {
  for server in "${servers[@]}"; do kill "$server" 2>/dev/null || true; done
  rm -rf "$work"
}
trap clean_up EXIT

export SOURCE_DATE_EPOCH=1750000000 LONGWAVE_DIST_LEVEL=1
tools/dist.sh "$programs" "$work/first"
archive=$(ls "$work"/first/*.tar.gz)
name=$(basename "$archive" .tar.gz)
sums_hold() { (cd "$work/first" && sha256sum --check SHA256SUMS); }
is_the_same_again() {
  # From another folder, at another time.
  mkdir "$work/copies" && cp "$programs/longwave" "$programs/longwave-worker" "$work/copies/"
  tools/dist.sh "$work/copies" "$work/second" && cmp "$archive" "$work/second/$name.tar.gz"
}
check 'SHA256SUMS holds' sums_hold
check 'the same programs give the same bytes' is_the_same_again
rm -rf "$work/second" "$work/copies"
a_wheel_goes_along() {
  echo wheel >"$work/longwave-0-py3-none-any.whl"
  tools/dist.sh "$programs" "$work/third" "$work/longwave-0-py3-none-any.whl" &&
    tar -tzf "$work/third/$name.tar.gz" >"$work/listed" &&
    grep -qx "$name/python/longwave-0-py3-none-any.whl" "$work/listed" &&
    grep -qx "$name/python/examples/gpt2_hf.py" "$work/listed" &&
    tar -xOzf "$work/third/$name.tar.gz" "$name/README.md" >"$work/read" &&
    grep -q "pip install $name/python/longwave-0-py3-none-any.whl" "$work/read" &&
    ! tools/dist.sh "$programs" "$work/third" "$work/nowhere.whl"
}
check 'a wheel goes along, with its examples' a_wheel_goes_along
rm -rf "$work/third"

root=$work/root
place=$root/some/where/else
mkdir -p "$place"
tar -xzf "$archive" -C "$place"
rm "$archive"
home=$place/$name
runpaths_are_relative() {
  local file paths
  for file in "$home"/bin/* "$home"/lib/*; do
    paths=$(readelf -d "$file" | sed -n 's/.*(R\(UN\)\?PATH).*\[\(.*\)\]/\2/p')
    case $file:$paths in
      */bin/*:'$ORIGIN/../lib' | */bin/*:'$ORIGIN/../lib:$ORIGIN/../torch/lib') ;;
      */lib/*:'$ORIGIN' | */lib/*:'$ORIGIN:$ORIGIN/../torch/lib') ;;
      *) echo "$file: $paths"; return 1 ;;
    esac
  done
}
# Whatever is named as needed is in here, or of the C library.
needs_the_c_library_alone() {
  local needed
  for needed in $(for file in "$home"/bin/* "$home"/lib/*; do readelf -d "$file"; done | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | sort -u); do
    [ -e "$home/lib/$needed" ] && continue
    case $needed in
      ld-linux* | libc.so.6 | libm.so.6 | libmvec.so.1 | libpthread.so.0 | libdl.so.2 | librt.so.1 | libutil.so.1 | libresolv.so.2) ;;
      *) echo "$needed"; return 1 ;;
    esac
  done
}
has_one_version() {
  local version
  version=$(sed -n 's/^project(longwave VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
  [ "longwave-worker-$version-$(uname -m)" = "$name" ] &&
    grep -qx "version: $version" helm/longwave/Chart.yaml &&
    grep -qx "appVersion: $version" helm/longwave/Chart.yaml &&
    grep -qx "version = \"$version\"" python/pyproject.toml
}
mentions_no_build() { ! grep -rlF -e "$programs" -e "$PWD" "$home/README.md" "$home/share"; }
check 'every program and library looks beside itself alone' runpaths_are_relative
check 'nothing is needed but the C library' needs_the_c_library_alone
check 'it has a README, a unit, an example and a script' ls "$home/README.md" "$home/share/longwave-worker.service" \
  "$home/share/cloud-init.yaml" "$home/share/longwave-worker.sbatch"
check 'it has the licenses of what it carries' test -n "$(ls "$home/share/licenses")"
check 'it has our own license' cmp LICENSE "$home/LICENSE"
check 'all that is published has one version' has_one_version
check 'no text of it names the build' mentions_no_build

# A root with the C library, and nothing else.
if [ "$(id -u)" = 0 ] && unshare --mount true 2>/dev/null; then
  ldd "$programs/longwave-worker" | grep -o '/[^ ]*/\(ld-linux[^ ]*\|libc\.so\.6\|libm\.so\.6\|libmvec\.so\.1\|libpthread\.so\.0\|libdl\.so\.2\|librt\.so\.1\|libutil\.so\.1\|libresolv\.so\.2\)' | sort -u |
    while read -r library; do
      mkdir -p "$root$(dirname "$library")"
      cp -L "$library" "$root$library"
    done
  # Of the C library too, loaded by name where hosts are looked up; and what old names lead to.
  for library in libpthread.so.0 libdl.so.2 librt.so.1 libutil.so.1 libresolv.so.2 libm.so.6 libmvec.so.1; do
    found=$(ldconfig -p | awk -v name="$library" '$1 == name && !found { found = $NF } END { print found }')
    [ -z "$found" ] || [ -e "$root$found" ] || { mkdir -p "$root$(dirname "$found")"; cp -L "$found" "$root$found"; }
  done
  mkdir -p "$root/proc" "$root/sys" "$root/dev" "$root/tmp" "$root/home/run"
  ln -sfn ../lib "$root/usr/lib" 2>/dev/null || true
  inside=/some/where/else/$name shared=$root/home/run seen=/home/run
  # shellcheck disable=SC2016
  run() {
    unshare --mount bash -euc '
      root=$1; shift
      mount --rbind /proc "$root/proc"
      mount --rbind /sys "$root/sys"
      mount --rbind /dev "$root/dev"
      exec env -i HOME=/home/run /usr/sbin/chroot "$root" "$@"' - "$root" "$@"
  }
  echo 'in a root of the C library alone'
else
  inside=$home shared=$work/shared seen=$work/shared
  mkdir "$shared"
  run() { env -i HOME="$shared" "$@"; }
  echo 'with an empty environment (no right to make a root)'
fi

says_its_version() { [ "$(run "$inside/bin/longwave" --version)" = "$("$programs/longwave" --version)" ]; }
doctor_is_content() { run "$inside/bin/longwave" doctor --device cpu --state-dir "$seen"; }
doctor_finds_libraries() { run "$inside/bin/longwave" doctor --device cpu --state-dir "$seen" --json | grep -q 'LibTorch with it'; }
# By the name under which the program asks for it, which is another with each build of LibTorch.
misses_a_library() {
  local said status=0 library
  library=$(readelf -d "$home/bin/longwave-worker" | sed -n 's/.*(NEEDED).*\[\(libc10\.so.*\)\]/\1/p')
  [ -n "$library" ] && mv "$home/lib/$library" "$work/" || return 1
  said=$(run "$inside/bin/longwave" doctor --device cpu --state-dir "$seen") || status=$?
  mv "$work/$library" "$home/lib/"
  echo "$said"
  [ $status = 1 ] && grep '^failed *libraries .*remedy: ' <<<"$said" | grep -qF "$library"
}
check 'longwave says its version' says_its_version
check 'the doctor has nothing against the machine' doctor_is_content
check 'LibTorch loads' doctor_finds_libraries
check 'a library that is missing is named, with a remedy' misses_a_library

# A tiny run: its servers from the build, its worker from the archive.
find /usr/include -name '*.h' -size -64k 2>/dev/null | sort | xargs cat 2>/dev/null | head -c 100000 >"$shared/text" || true
config_of() {
  cat <<YAML
run: {preset: longwave, steps: 12, workers: 1, shards: 1, validation_batches: 2}
model: {d_model: 32, layers: 1, heads: 2, context: 32}
data: {path: $1/text}
train: {batch: 4, warmup_steps: 4, threads: 1, device: cpu}
sync: {inner_steps: 4}
YAML
}
config_of "$seen" >"$shared/config.yaml"
config_of "$shared" >"$work/config.yaml"
mkfifo "$work/said"
"$programs/longwave-server" --role=coordinator --config "$work/config.yaml" --listen 127.0.0.1:0 --exit-when-done \
  >"$work/said" 2>"$work/coordinator.log" &
coordinator=$!
servers+=("$coordinator")
read -r _ address <"$work/said" || true
"$programs/longwave-server" --role=shard --shard=0 --config "$work/config.yaml" --coordinator "$address" \
  >"$work/shard.log" 2>&1 &
servers+=($!)
trains() {
  run "$inside/bin/longwave-worker" --config "$seen/config.yaml" --coordinator "$address" --name w --run-dir "$seen" \
    --state-dir "$seen/state"
}
check 'the worker trains to the end of a run' trains
check 'the coordinator ends with the run' wait "$coordinator"
check 'the weights are there' test -s "$shared/model.safetensors"

sum_up
