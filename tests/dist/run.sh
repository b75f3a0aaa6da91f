#!/usr/bin/env bash
# The worker's archive that tools/archive.sh makes of a build folder's programs, unpacked elsewhere and run where nothing is but the
# C library: in a root that has only that, or, without the right to make one, with an empty environment. And what may not be
# packed is refused.
#
#   tests/dist/run.sh [build/bin]
#
# It is of the preset release-torch, since the distribution's LibTorch may not be given on: where neither the folder nor
# build/release-torch/bin was built with it, only what is refused is tried.
# Ends with `N passed, N failed`; status 77 and a reason where it cannot be tried.
# shellcheck disable=SC2016
set -euo pipefail
cd "$(dirname "$0")/../.."
programs=$(realpath "${1:-build/bin}")

. tests/support/checks.sh
. tests/support/roots.sh
for tool in patchelf readelf ldd strip cc; do command -v "$tool" >/dev/null || skip "$tool is not installed"; done
for program in longwave longwave-server longwave-worker; do
  [ -x "$programs/$program" ] || skip "$programs has no $program"
done
from=
for folder in "$programs" build/release-torch/bin; do
  if ldd "$folder/longwave-worker" 2>/dev/null | grep -q '/\.torch/torch/lib/libtorch_cpu'; then
    from=$(realpath "$folder")
    break
  fi
done

work=$(mktemp -d)
servers=()
clean_up() {
  for server in "${servers[@]}"; do kill "$server" 2>/dev/null || true; done
  rm -rf "$work"
}
trap clean_up EXIT
root=$work/root
place=$root/some/where/else
mkdir -p "$place" "$work/unlisted"

export SOURCE_DATE_EPOCH=1750000000 LONGWAVE_ARCHIVE_LEVEL=1
version=$(sed -n 's/^project(longwave VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
has_one_version() {
  [ "$(grep -xhc "version: $version\|appVersion: $version" helm/*/Chart.yaml | sort -u)" = 2 ] &&
    grep -q "CMakeLists.txt" python/pyproject.toml && ! grep -q "^version" python/pyproject.toml
}
check 'all that is published has one version' has_one_version

name=longwave-worker-$version-$(uname -m)
# Planted: a library that is not on the list, and one of the GPL's that is.
echo 'int encode(void) { return 0; }' | cc -shared -fPIC -x c - -Wl,-soname,libx264.so.164 -o "$work/unlisted/libx264.so.164"
echo 'int encode(void); int main(void) { return encode(); }' |
  cc -x c - -o "$work/unlisted/longwave-worker" -L"$work/unlisted" -l:libx264.so.164 -Wl,-rpath,"$work/unlisted"
cp "$programs/longwave" "$work/unlisted/"
refuses() { # WANTED COMMAND…
  local said status=0 wanted=$1
  shift
  said=$("$@" 2>&1) || status=$?
  echo "$said"
  [ $status != 0 ] && grep -qF "$wanted" <<<"$said"
}
refuses_unlisted() { refuses 'is not on the list' tools/archive.sh "$work/unlisted" "$work/first" && [ ! -e "$work/first/$name.tar.gz" ]; }
refuses_gpl() {
  printf 'libx264.so.164\t%s\n' "$work/unlisted/libx264.so.164" >"$work/taken"
  echo "libx264.so.* $1" >"$work/list"
  refuses "is under $1" tools/sbom.py planted 0 "$work/taken" "$work/unlisted" "$work" "$work/list"
}
refuses_nobodys() {
  printf 'libzmq.so.5\t%s\n' "$work/unlisted/libx264.so.164" >"$work/taken"
  refuses "is no package's" tools/sbom.py planted 0 "$work/taken" "$work/unlisted" "$work"
}
check 'a planted library that is not on the list is refused' refuses_unlisted
check 'a planted library under the GPL is refused, whatever the list says' refuses_gpl GPL-2.0-or-later
check 'and by choice of the GPL, too' refuses_gpl 'MIT OR GPL-2.0-only'
check 'a planted library under a name of the list, of no package, is refused' refuses_nobodys

if [ -z "$from" ]; then
  echo 'not tried: the archive: no build here is of the preset release-torch'
  sum_up
  exit
fi

is_the_same_again() {
  # From another folder, at another time.
  mkdir "$work/copies" && cp -L "$from"/longwave{,-worker} "$work/copies/"
  # A program of the preset release-torch finds LibTorch by a path relative to itself.
  LD_LIBRARY_PATH=$PWD/.torch/torch/lib tools/archive.sh "$work/copies" "$work/second" && cmp "$archive" "$work/second/$name.tar.gz"
}
runpaths_are_relative() {
  local file paths
  for file in "$home"/bin/* "$home"/lib/*; do
    paths=$(readelf -d "$file" | sed -n 's/.*(R\(UN\)\?PATH).*\[\(.*\)\]/\2/p')
    case $file:$paths in
      */bin/*:'$ORIGIN/../torch/lib:$ORIGIN/../lib' | */lib/*:'$ORIGIN') ;;
      */lib/libcudart.so.*: | */lib/libcupti.so.*:) ;;
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
mentions_no_build() { ! grep -rlF -e "$from" -e "$PWD" "$home/README.md" "$home/share"; }
# Every library stands in the bill of materials, with its sum, a license and the texts of it, and none is the GPL's own.
bill_holds() {
  python3 - "$home" <<'PYTHON'
import hashlib, json, pathlib, sys
home = pathlib.Path(sys.argv[1])
bill = json.loads((home / "share/sbom.spdx.json").read_text())
packages = {package["SPDXID"]: package for package in bill["packages"]}
owner = {one["spdxElementId"]: packages[one["relatedSpdxElement"]] for one in bill["relationships"] if one["relationshipType"] == "GENERATED_FROM"}
files = {file["fileName"].removeprefix("./lib/"): file for file in bill["files"]}
assert sorted(files) == sorted(path.name for path in (home / "lib").iterdir()), "other libraries than those in lib/"
for name, file in files.items():
    package = owner[file["SPDXID"]]
    sums = {one["algorithm"]: one["checksumValue"] for one in file["checksums"]}
    assert sums["SHA256"] == hashlib.sha256((home / "lib" / name).read_bytes()).hexdigest(), name
    license_name = package["licenseDeclared"]
    assert not license_name.startswith(("GPL", "AGPL")) or "WITH GCC-exception" in license_name, (name, license_name)
    assert any((home / "share/licenses" / package["name"]).iterdir()), package["name"]
    print(name, package["name"], package["versionInfo"], license_name)
PYTHON
}
megabytes() { du -sm --apparent-size "$@" | awk '{ sum += $1 } END { print sum }'; }
# Of LibTorch 2.11 libtorch_cpu.so alone has 342 MB, without its symbols; the rest is ours to keep small.
is_small() {
  local torch
  torch=$(megabytes "$home/lib/libtorch_cpu.so")
  echo "$(megabytes "$home") MB, of them libtorch_cpu.so $torch MB"
  ((torch <= 360 && $(megabytes "$home") - torch <= 120))
}
home=$place/$name archive=$work/first/$name.tar.gz
tools/archive.sh "$from" "$work/first"
check 'the same programs give the same bytes' is_the_same_again
rm -rf "$work/second" "$work/copies"
tar -xzf "$archive" -C "$place"
rm "$archive"
check 'every program and library looks beside itself alone' runpaths_are_relative
check 'nothing is needed but the C library' needs_the_c_library_alone
check 'its bill of materials has each library, and none under the GPL' bill_holds
check 'it has at most 120 MB beside libtorch_cpu.so' is_small
check 'it has our own license' cmp LICENSE "$home/LICENSE"
check 'it has our notice' cmp NOTICE "$home/NOTICE"
check 'no text of it names the build' mentions_no_build
check 'it has a README, a unit, an example and a script' ls "$home/README.md" "$home/share/longwave-worker.service" \
  "$home/share/cloud-init.yaml" "$home/share/longwave-worker.sbatch"
a_wheel_goes_along() {
  echo wheel >"$work/longwave-0-py3-none-any.whl"
  tools/archive.sh "$from" "$work/third" "$work/longwave-0-py3-none-any.whl" &&
    tar -tzf "$work/third/$name.tar.gz" >"$work/listed" &&
    grep -qx "$name/python/longwave-0-py3-none-any.whl" "$work/listed" &&
    grep -qx "$name/python/examples/gpt2_hf.py" "$work/listed" &&
    tar -xOzf "$work/third/$name.tar.gz" "$name/README.md" >"$work/read" &&
    grep -q "pip install $name/python/longwave-0-py3-none-any.whl" "$work/read" &&
    ! tools/archive.sh "$from" "$work/third" "$work/nowhere.whl"
}
check 'a wheel goes along, with its examples' a_wheel_goes_along
rm -rf "$work/third"
nvidia_is_untouched() { local file; for file in libcudart.so.13 libcupti.so.13; do cmp "$home/lib/$file" ".torch/nvidia/cu13/lib/$file" || return 1; done; }
check "NVIDIA's libraries are as they were" nvidia_is_untouched

# A root with the C library, and nothing else.
if [ "$(id -u)" = 0 ] && unshare --mount true 2>/dev/null; then
  c_library_root "$root" "$programs/longwave-worker"
  mkdir -p "$root/home/run"
  ln -sfn ../lib "$root/usr/lib" 2>/dev/null || true
  at=${place#"$root"} shared=$root/home/run seen=/home/run
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
  at=$place shared=$work/shared seen=$work/shared
  mkdir "$shared"
  run() { env -i HOME="$shared" "$@"; }
  echo 'with an empty environment (no right to make a root)'
fi

inside=$at/$name
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
check 'its longwave says its version' says_its_version
check 'the doctor has nothing against the machine' doctor_is_content
check 'LibTorch loads' doctor_finds_libraries
check 'a library that is missing is named, with a remedy' misses_a_library

# A tiny run, with the build's servers.
tiny_run "$shared" "$seen"
mkdir "$work/build" && tiny_run "$work/build"
mkfifo "$work/said"
"$programs/longwave-server" --role=coordinator --config "$work/build/config.yaml" --listen 127.0.0.1:0 --exit-when-done \
  >"$work/said" 2>"$work/coordinator.log" &
coordinator=$!
servers+=("$coordinator")
read -r _ address <"$work/said" || true
"$programs/longwave-server" --role=shard --shard=0 --config "$work/build/config.yaml" --coordinator "$address" >"$work/shard.log" 2>&1 &
servers+=($!)
check 'the worker trains to the end of a run' run "$inside/bin/longwave-worker" --config "$seen/config.yaml" --coordinator "$address" \
  --name w --run-dir "$seen" --state-dir "$seen/state"
check 'the coordinator ends with the run' wait "$coordinator"
check 'the weights are there' test -s "$shared/model.safetensors"

sum_up
