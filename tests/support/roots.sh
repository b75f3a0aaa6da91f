# For test scripts, which are root's: roots in which programs run as on a machine that has nothing of this one.
# shellcheck shell=bash

# c_library_root ROOT PROGRAM: the C library that PROGRAM needs, whose parts fit each other and the kernel.
c_library_root() {
  local root=$1 library found
  ldd "$2" | grep -o '/[^ ]*/\(ld-linux[^ ]*\|libc\.so\.6\|libm\.so\.6\|libmvec\.so\.1\|libpthread\.so\.0\|libdl\.so\.2\|librt\.so\.1\|libutil\.so\.1\|libresolv\.so\.2\)' | sort -u |
    while read -r library; do
      mkdir -p "$root$(dirname "$library")"
      cp -L "$library" "$root$library"
    done
  # Loaded by name where hosts are looked up; and what old names lead to.
  for library in libpthread.so.0 libdl.so.2 librt.so.1 libutil.so.1 libresolv.so.2 libm.so.6 libmvec.so.1; do
    found=$(ldconfig -p | awk -v name="$library" '$1 == name && !found { found = $NF } END { print found }')
    [ -z "$found" ] || [ -e "$root$found" ] || { mkdir -p "$root$(dirname "$found")"; cp -L "$found" "$root$found"; }
  done
  mkdir -p "$root"/{proc,sys,dev,tmp} "$root/var/lib/longwave"
}

# python_root ROOT WHEEL: the C library and Python, this machine's at its place, with the wheel. Its interpreter is $interpreter, and
# what the wheel brings for PATH is in $commands; packages that are mounted at /packages are found.
# shellcheck disable=SC2034
python_root() {
  local root=$1 python library_folder site library
  read -r interpreter python library_folder site < <(python3 -c 'import os, sys, sysconfig
print(sys.executable, os.path.realpath(sys.executable), sysconfig.get_path("stdlib"), sysconfig.get_path("purelib"))')
  mkdir -p "$root"/{lib,lib64,packages,etc} "$root$(dirname "$interpreter")" "$root$(dirname "$python")" "$root$library_folder"
  c_library_root "$root" "$python"
  cp -L "$python" "$root$python"
  [ "$interpreter" = "$python" ] || ln -sf "$python" "$root$interpreter"
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
  python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --no-deps --no-index --target "$root$site" "$2"
  echo /packages >"$root$site/packages.pth"
  echo 'longwave:x:65532:65532::/var/lib/longwave:/bin/false' >"$root/etc/passwd"  # PyTorch asks for the user's name
  commands=$site/bin
}

# run_in ROOT STATE COMMAND…: as an image's user, 65532, without capabilities, its root read-only; STATE is what may be written,
# as /var/lib/longwave, beside /tmp.
run_in() {
  # shellcheck disable=SC2016
  unshare --mount bash -euc '
    root=$1 state=$2; shift 2
    mkdir -p "$root/proc"
    mount --rbind "$root" "$root"
    mount -o remount,bind,ro "$root"
    mount --rbind /proc "$root/proc"
    mount -t tmpfs -o mode=1777 none "$root/tmp"
    mount --bind "$state" "$root/var/lib/longwave"
    exec env -i PATH=/usr/bin HOME=/var/lib/longwave \
      /usr/bin/setpriv --no-new-privs /usr/sbin/chroot --userspec=65532:65532 --groups= "$root" "$@"' - "$@"
}

# tiny_run FOLDER [SEEN]: the text, this machine's own headers, and the configuration of a run that takes seconds, for the user
# of run_in; where it runs, FOLDER is SEEN [/var/lib/longwave].
tiny_run() {
  find /usr/include -name '*.h' -size -64k 2>/dev/null | sort | xargs cat 2>/dev/null | head -c 100000 >"$1/text" || true
  cat >"$1/config.yaml" <<YAML
run: {preset: longwave, steps: 12, workers: 1, shards: 1, validation_batches: 2}
model: {d_model: 32, layers: 1, heads: 2, context: 32}
data: {path: ${2:-/var/lib/longwave}/text}
train: {batch: 4, warmup_steps: 4, threads: 1, device: cpu}
sync: {inner_steps: 4}
YAML
  [ "$(id -u)" != 0 ] || chown -R 65532:65532 "$1"
}

state=/var/lib/longwave
# shellcheck disable=SC2154
state_folder() { mkdir -p "$work/$1" && tiny_run "$work/$1" && echo "$work/$1"; }

# serve WHAT ROOT FOLDER WORKER…: tiny_run with coordinator and shard from the programs in FOLDER of the root, and with the worker's
# command, whose ADDRESS is the coordinator's. Their folders are $work/WHAT/coordinator and $work/WHAT/shard; the processes go to $servers.
# shellcheck disable=SC2154
serve() {
  local what=$1 root=$2 serve=$3/longwave-server coordinator address
  shift 3
  rm -f "$work/said" && mkfifo "$work/said"
  run_in "$root" "$(state_folder "$what/coordinator")" "$serve" --role=coordinator --config $state/config.yaml --listen 127.0.0.1:0 \
    --run-dir $state --state-dir $state/state --exit-when-done >"$work/said" 2>"$work/$what/coordinator.log" &
  coordinator=$!
  servers+=("$coordinator")
  read -r _ address <"$work/said" || true
  run_in "$root" "$(state_folder "$what/shard")" "$serve" --role=shard --shard=0 --config $state/config.yaml \
    --state-dir $state/state --coordinator "$address" >"$work/$what/shard.log" 2>&1 &
  servers+=($!)
  check "$what: a worker trains to the end" "${@//ADDRESS/$address}"
  # A worker that could not start leaves the coordinator waiting.
  check "$what: the coordinator ends with the run" timeout 60 tail --pid "$coordinator" -f /dev/null
  check "$what: all rounds were merged" grep -q '"round":2,.*"replicas_equal":true' "$work/$what/coordinator/metrics.jsonl"
}
# release_image DIST PART TAG: the image of a release's folder, in buildah's store as localhost/longwave-PART:TAG.
release_image() {
  local archive name image
  archive=$(ls "$1/longwave-$2-image-"*.tar)
  name=$(basename "$archive" .tar)
  # shellcheck disable=SC2154
  tar -xf "$archive" -C "$work"
  # In its folder, since buildah names an image after the path, in which capitals are refused.
  image=$(cd "$work" && buildah --storage-driver "${STORAGE_DRIVER:-vfs}" pull -q "oci:$name")
  buildah --storage-driver "${STORAGE_DRIVER:-vfs}" tag "$image" "localhost/longwave-$2:$3"
  buildah --storage-driver "${STORAGE_DRIVER:-vfs}" rmi "localhost/$name" >/dev/null
  rm -rf "${work:?}/$name"
}
