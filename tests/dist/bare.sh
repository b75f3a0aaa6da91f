#!/usr/bin/env bash
# Holds what a whole tools/release.sh has made: its sums, and that each artefact trains where nothing of the build is: the archives in
# roots of the C library alone, the images in their own, the wheel in a root of the C library, Python and PyTorch.
#
#   tests/dist/bare.sh [build/dist]
#
# PyTorch is that of tests/python/run.sh, which fetches it; without it the wheel is not tried. The charts and the images on a
# Kubernetes: LONGWAVE_DIST=build/dist tests/kube/run.sh. Ends with `N passed, N failed`; status 77 and a reason where it cannot be tried.
set -euo pipefail
cd "$(dirname "$0")/../.."
dist=$(realpath "${1:-build/dist}")

. tests/support/checks.sh
. tests/support/roots.sh
[ "$(id -u)" = 0 ] || skip 'a root of its own needs root'
[ -e "$dist/SHA256SUMS" ] || skip "$dist has no SHA256SUMS; tools/release.sh makes it"
for tool in buildah unshare setpriv; do command -v "$tool" >/dev/null || skip "$tool is not installed"; done

work=$(mktemp -d) tag=bare-$$ containers=() servers=()
buildah=(buildah --storage-driver "${STORAGE_DRIVER:-vfs}")
clean_up() {
  for one in "${servers[@]}"; do kill "$one" 2>/dev/null || true; done
  for one in "${containers[@]}"; do "${buildah[@]}" rm "$one" >/dev/null 2>&1 || true; done
  for one in server worker; do "${buildah[@]}" rmi "localhost/longwave-$one:$tag" >/dev/null 2>&1 || true; done
  rm -rf "$work"
}
trap clean_up EXIT
chmod 755 "$work"
version=$(sed -n 's/^project(longwave VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
state=/var/lib/longwave
folder() { mkdir -p "$work/$1" && tiny_run "$work/$1" && echo "$work/$1"; }

sums_hold() { (cd "$dist" && sha256sum --check --strict SHA256SUMS); }
check 'the sums hold' sums_hold

# train WHAT ROOT PREFIX ROOT WORKER…: coordinator and shard from PREFIX/bin of the first root, with the worker's command in the other.
train() {
  local what=$1 servers_root=$2 serve=$3/bin/longwave-server root=$4 coordinator address
  shift 4
  rm -f "$work/said" && mkfifo "$work/said"
  run_in "$servers_root" "$(folder "$what/coordinator")" "$serve" --role=coordinator --config $state/config.yaml --listen 127.0.0.1:0 \
    --run-dir $state --state-dir $state/state "${settings[@]}" --exit-when-done >"$work/said" 2>"$work/$what/coordinator.log" &
  coordinator=$!
  servers+=("$coordinator")
  read -r _ address <"$work/said" || true
  run_in "$servers_root" "$(folder "$what/shard")" "$serve" --role=shard --shard=0 --config $state/config.yaml "${settings[@]}" \
    --state-dir $state/state --coordinator "$address" >"$work/$what/shard.log" 2>&1 &
  servers+=($!)
  check "$what: a worker trains to the end" run_in "$root" "$(folder "$what/worker")" "${@//ADDRESS/$address}"
  # A worker that could not start leaves the coordinator waiting.
  check "$what: the coordinator ends with the run" timeout 60 tail --pid "$coordinator" -f /dev/null
  check "$what: all rounds were merged" grep -q '"round":2,.*"replicas_equal":true' "$work/$what/coordinator/metrics.jsonl"
}

settings=()
unpack() { mkdir -p "$work/$1-root/opt" && tar -xzf "$dist/longwave-$1-$version-$(uname -m).tar.gz" -C "$work/$1-root/opt"; }
for part in server worker; do
  unpack $part
  c_library_root "$work/$part-root" "$(echo "$work/$part-root"/opt/*/bin/longwave)"
done
here() { echo "/opt/longwave-$1-$version-$(uname -m)"; }
# The folder that the release was made in, which the same commit does not have elsewhere.
names_no_folder_of_the_build() { ! grep -rlF "${dist%/build/dist}" "$work"/*-root/opt; }
check 'archives: no file names a folder of the build' names_no_folder_of_the_build
train archives "$work/server-root" "$(here server)" "$work/worker-root" "$(here worker)/bin/longwave-worker" \
  --config $state/config.yaml --coordinator ADDRESS --name w --run-dir $state --state-dir $state/state
check 'archives: the weights are there' test -s "$work/archives/worker/model.safetensors"

roots=()
for part in server worker; do
  release_image "$dist" $part "$tag"
  containers+=("$("${buildah[@]}" from "localhost/longwave-$part:$tag")")
  roots+=("$("${buildah[@]}" mount "${containers[-1]}")")
done
train images "${roots[0]}" /usr "${roots[1]}" /usr/bin/longwave-worker \
  --config $state/config.yaml --coordinator ADDRESS --name w --run-dir $state --state-dir $state/state
check 'images: the weights are there' test -s "$work/images/worker/model.safetensors"

# The interpreter is this machine's, at its place.
python_root() {
  local root=$1 python library_folder site
  read -r python library_folder site < <(python3 -c 'import os, sys, sysconfig
print(os.path.realpath(sys.executable), sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"))')
  c_library_root "$root" "$python"
  mkdir -p "$root$(dirname "$python")" "$root$library_folder" "$root/packages"
  cp -L "$python" "$root$python"
  tar -C "$library_folder" --exclude site-packages --exclude test -cf - . | tar -xf - -C "$root$library_folder"
  { ldd "$python"; find "$library_folder/lib-dynload" -name '*.so' -exec ldd {} \;; } | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
    while read -r library; do
      mkdir -p "$root$(dirname "$library")"
      [ -e "$root$library" ] || cp -L "$library" "$root$library"
    done
  # Of C++, which every wheel may count on.
  for library in libstdc++.so.6 libgcc_s.so.1; do
    cp -L "$(ldconfig -p | awk -v name="$library" '$1 == name && !found { found = $NF } END { print found }')" "$root/lib/"
  done
  python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --no-deps --no-index --target "$root$site" "$dist"/longwave-*.whl
  echo /packages >"$root$site/packages.pth"
  mkdir "$root/etc"
  echo 'longwave:x:65532:65532::/var/lib/longwave:/bin/false' >"$root/etc/passwd"  # PyTorch asks for the user's name
  interpreter=$python
}
cache=${LONGWAVE_PYTHON_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/longwave-python}
complete=$(find "$cache" -mindepth 2 -maxdepth 2 -name complete 2>/dev/null | tail -n 1)
packages=$(find "${complete%/complete}" -mindepth 3 -maxdepth 3 -path '*/lib/python3*/site-packages' 2>/dev/null || true)
if [ -z "$complete" ]; then
  echo 'not tried: the wheel: no PyTorch was fetched yet (tests/python/run.sh)'
else
  mkdir -p "$work/python-root/lib64" "$work/python-root/lib"
  python_root "$work/python-root"
  mount --bind "$packages" "$work/python-root/packages"
  trap 'umount "$work"/python-root/{packages,dev/urandom}; clean_up' EXIT
  touch "$work/python-root/dev/urandom"  # as in every container
  mount --bind /dev/urandom "$work/python-root/dev/urandom"
  folder wheel/worker >"$work/output"
  cp "$work/worker-root/opt"/*/python/examples/*.py "$work/wheel/worker/"
  settings=(--set model.kind=external --set run.start=member)
  train wheel "$work/server-root" "$(here server)" "$work/python-root" "$interpreter" $state/nanogpt.py --data $state/text \
    --address ADDRESS --name w --state-dir $state/state --layers 1 --width 32 --context 32
fi
sum_up
