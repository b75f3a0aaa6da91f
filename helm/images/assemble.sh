#!/bin/sh
# The root of an image: the programs of one part, the libraries that they need and nothing else.
#
#   assemble.sh server|worker PROGRAMS ROOT
#
# PROGRAMS is a folder with longwave, longwave-server and longwave-worker; it runs where they were built, since
# their libraries are copied from there, with CUDA=ON the whole of the LibTorch that the worker was built with, and
# NVIDIA's packages beside it. With PROGRAMS "-" they are compiled first, from the sources around this script: for the
# CPU, or with CUDA=ON for GPUs too.
set -eu
part=$1 programs=$2 root=$3
sources=$(cd "$(dirname "$0")/../.." && pwd)

case $part in
  server) names='longwave longwave-server' ;;
  worker) names='longwave longwave-worker' ;;
  *) echo "assemble: got part '$part', wanted server or worker" >&2; exit 1 ;;
esac

if [ "$programs" = - ]; then
  cd "$sources"
  tools/setup.sh
  options='-DLONGWAVE_CUDA=OFF'
  if [ "${CUDA:-OFF}" = ON ] && [ "$part" = worker ]; then
    tools/setup.sh --cuda
    python3 -m venv .torch
    .torch/bin/pip install --quiet --no-cache-dir torch==2.11.0
    options="-DLONGWAVE_CUDA=ON -DTorch_DIR=$(echo "$sources"/.torch/lib/python3*/site-packages/torch/share/cmake/Torch)"
  fi
  cmake --preset release -B build/image $options
  # shellcheck disable=SC2086
  cmake --build build/image --target $names
  programs=$sources/build/image/bin
fi

libraries=$root/usr/lib/x86_64-linux-gnu
[ "$(uname -m)" = x86_64 ] || libraries=$root/usr/lib/$(uname -m)-linux-gnu
mkdir -p "$root/usr/bin" "$libraries" "$root/usr/lib64" "$root/etc/longwave" "$root/tmp" \
  "$root/var/lib/longwave"
for link in bin lib lib64; do ln -sfn "usr/$link" "$root/$link"; done

# By the name that the programs ask for, wherever the system keeps the file; a library of somewhere else, which is
# found by a path in the program, stays at its path. The loader has its own place.
take_libraries_of() {
  if ldd "$1" | grep 'not found' >&2; then
    echo "assemble: $1 was not built here: the libraries above are missing" >&2
    exit 1
  fi
  ldd "$1" | awk '$2 == "=>" { print $3 } $1 ~ /^\// { print $1 }' | while read -r library; do
    case $library in
      */ld-linux*) target=$root$(echo "$library" | sed 's|^/lib|/usr/lib|') ;;
      /lib/* | /usr/lib/*) target=$libraries/$(basename "$library") ;;
      *) target=$root$library ;;
    esac
    [ -e "$target" ] && continue
    mkdir -p "$(dirname "$target")"
    cp -L "$library" "$target"
  done
}

for name in $names; do
  [ -x "$programs/$name" ] || { echo "assemble: no $name in $programs" >&2; exit 1; }
  cp "$programs/$name" "$root/usr/bin/$name"
  strip "$root/usr/bin/$name"
  take_libraries_of "$programs/$name"
done
if [ "${CUDA:-OFF}" = ON ] && [ "$part" = worker ]; then
  # libtorch_cuda.so is loaded, not linked, and finds NVIDIA's libraries by paths relative to itself: as pip lays them.
  torch=$(ldd "$programs/longwave-worker" | sed -n 's|.* => \(/.*\)/libc10\.so.*|\1|p')
  if [ ! -e "$torch/libtorch_cuda.so" ]; then
    echo "assemble: $programs/longwave-worker: got LibTorch in $torch, wanted one with libtorch_cuda.so" >&2
    exit 1
  fi
  torch=$(cd "$torch" && pwd -P)
  nvidia=$(cd "$torch/../.." && pwd -P)/nvidia
  (cd / && cp -a --parents ".$torch" "$root")
  [ ! -d "$nvidia" ] || (cd / && cp -a --parents ".$nvidia" "$root")
  # Of the system it may need more than the worker does.
  take_libraries_of "$torch/libtorch_cuda.so"
fi

printf 'root:x:0:0:root:/:/nologin\nlongwave:x:65532:65532:Longwave:/var/lib/longwave:/nologin\n' >"$root/etc/passwd"
printf 'root:x:0:\nlongwave:x:65532:\n' >"$root/etc/group"
echo 'hosts: files dns' >"$root/etc/nsswitch.conf"
chmod 1777 "$root/tmp"
chown -R 0:0 "$root"
chown 65532:65532 "$root/var/lib/longwave"
