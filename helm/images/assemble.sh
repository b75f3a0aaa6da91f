#!/bin/sh
# The root of an image: the programs of one part, the libraries that they need and nothing else.
#
#   assemble.sh server|worker PROGRAMS ROOT
#
# PROGRAMS is a folder with longwave, longwave-server and longwave-worker; it runs where they were built, since
# their libraries are copied from there, with CUDA=ON the whole of the LibTorch that the worker was built with, and
# NVIDIA's packages beside it. With PROGRAMS "-" they are compiled first, from the sources around this script: for the
# CPU, or with CUDA=ON for GPUs too.
# With BILL, a file that gets the bill of materials, that and the licenses go into the image, and what may not be given on
# is refused (tools/sbom.py).
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
  options=-DLONGWAVE_CUDA=OFF
  if [ "${CUDA:-OFF}" = ON ] && [ "$part" = worker ]; then
    tools/setup.sh --cuda --torch-all
    options=-DLONGWAVE_CUDA=ON
  else
    tools/setup.sh --torch
  fi
  cmake --preset release-torch -DLONGWAVE_TESTS=OFF $options
  # shellcheck disable=SC2086
  cmake --build --preset release-torch --target $names
  programs=$sources/build/release-torch/bin
fi

libraries=$root/usr/lib/x86_64-linux-gnu
[ "$(uname -m)" = x86_64 ] || libraries=$root/usr/lib/$(uname -m)-linux-gnu
mkdir -p "$root/usr/bin" "$libraries" "$root/usr/lib64" "$root/etc/longwave" "$root/tmp" \
  "$root/var/lib/longwave"
for link in bin lib lib64; do ln -sfn "usr/$link" "$root/$link"; done

# The programs of the preset release-torch look for LibTorch in .torch, three folders above their own; here that is /.torch.
placed() {
  case $1 in
    */.torch/*) echo "/.torch/${1##*/.torch/}" ;;
    *) echo "$1" ;;
  esac
}

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
      *) target=$root$(placed "$library") ;;
    esac
    [ -e "$target" ] && continue
    mkdir -p "$(dirname "$target")"
    cp -L "$library" "$target"
    # A fifth of it are its symbols.
    case $library in */libtorch_cpu.so) strip "$target" ;; esac
    printf '%s\t%s\n' "$(basename "$library")" "$library" >>"$root/taken"
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
  # NVIDIA's packages lie beside site-packages/torch, and beside .torch/torch.
  for folder in "$torch" "$(cd "$torch/../.." && pwd -P)/nvidia"; do
    [ -d "$folder" ] || continue
    mkdir -p "$root$(placed "$folder")"
    cp -a "$folder/." "$root$(placed "$folder")"
  done
  # Of the system it may need more than the worker does.
  take_libraries_of "$torch/libtorch_cuda.so"
fi

if [ -n "${BILL:-}" ]; then
  echo 'compiled in' >>"$root/taken"
  mkdir -p "$root/usr/share/longwave"
  version=$(sed -n 's/^project(longwave VERSION \([0-9.]*\).*/\1/p' "$sources/CMakeLists.txt")
  (cd "$sources" && tools/sbom.py "longwave-$part-image" "$version" "$root/taken" "$root" "$root/usr/share/longwave")
  cp "$sources/LICENSE" "$sources/NOTICE" "$root/usr/share/longwave/"
  cp "$root/usr/share/longwave/sbom.spdx.json" "$BILL"
fi
rm "$root/taken"

printf 'root:x:0:0:root:/:/nologin\nlongwave:x:65532:65532:Longwave:/var/lib/longwave:/nologin\n' >"$root/etc/passwd"
printf 'root:x:0:\nlongwave:x:65532:\n' >"$root/etc/group"
echo 'hosts: files dns' >"$root/etc/nsswitch.conf"
chmod 1777 "$root/tmp"
chown -R 0:0 "$root"
chown 65532:65532 "$root/var/lib/longwave"
