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
