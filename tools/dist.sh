#!/usr/bin/env bash
# One relocatable archive of a worker: longwave, longwave-worker and the libraries that they need, but for the C
# library and NVIDIA's driver, which are the machine's, and LibTorch where it was built for CUDA (README.md in the
# archive says where to get it).
#
#   tools/dist.sh PROGRAMS OUT [WHEEL]
#
# WHEEL, of tools/wheel.sh, goes along under python/, for machines whose workers are scripts (docs/python.md).
# PROGRAMS is a folder with longwave and longwave-worker, and this the machine that they were built on. OUT gets
# longwave-worker-VERSION-ARCH.tar.gz, and SHA256SUMS of all archives in it. The same programs give the same bytes:
# times are those of SOURCE_DATE_EPOCH [the last commit's], owners and order are fixed.
set -euo pipefail
cd "$(dirname "$0")/.."
programs=$1 out=$2 wheel=${3:-}

fail() { echo "dist: $1" >&2; exit 1; }
for tool in patchelf ldd readelf strip tar gzip sha256sum; do
  command -v "$tool" >/dev/null || fail "$tool is not installed; tools/setup.sh installs it"
done
for program in longwave longwave-worker; do
  [ -x "$programs/$program" ] || fail "no $program in $programs"
done
[ -z "$wheel" ] || [ -e "$wheel" ] || fail "no wheel $wheel; tools/wheel.sh makes one"
version=$("$programs/longwave" --version | awk '{ print $2 }')
name=longwave-worker-$version-$(uname -m)
epoch=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/$name
mkdir -p "$root/bin" "$root/lib" "$root/share"

# Of the C library itself: they fit the machine's kernel and configuration, and each other.
is_the_machines() {
  case $1 in
    ld-linux*|libc.so.*|libm.so.*|libmvec.so.*|libpthread.so.*|libdl.so.*|librt.so.*|libutil.so.*|libresolv.so.*) ;;
    libnsl.so.1|libanl.so.*|libBrokenLocale.so.*|libthread_db.so.*|libnss_*|libc_malloc_debug.so.*|libmemusage.so) ;;
    libcuda.so.*|libnvidia-*|linux-vdso.so.*|linux-gate.so.*) ;;
    *) return 1 ;;
  esac
}
# LibTorch for CUDA is left out, with all that lies beside it or that it brings along.
torch=$(ldd "$programs/longwave-worker" | awk '$1 == "libtorch_cpu.so" { print $3 }')
torch_for_cuda=
if [ -n "$torch" ] && [ -e "$(dirname "$torch")/libtorch_cuda.so" ]; then
  torch_for_cuda=$(dirname "$(readlink -f "$torch")")
fi
is_left_out() {
  [ -n "$torch_for_cuda" ] || return 1
  case $(readlink -f "$1") in
    "$torch_for_cuda"/*|*/site-packages/*) ;;
    *) return 1 ;;
  esac
}

for program in longwave longwave-worker; do
  ldd "$programs/$program" >"$work/needed"
  ! grep 'not found' "$work/needed" >&2 || fail "$programs/$program was not built here: it lacks what stands above"
  awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 }' "$work/needed" | while read -r soname path; do
    if is_the_machines "$soname" || is_left_out "$path" || [ -e "$root/lib/$soname" ]; then continue; fi
    cp -L "$path" "$root/lib/$soname"
    echo "$path" >>"$work/taken"
  done
  cp "$programs/$program" "$root/bin/$program"
done

# Everything finds everything by its place in the archive. A LibTorch that was brought along is found beside lib.
elsewhere=
[ -z "$torch_for_cuda" ] || elsewhere=:\$ORIGIN/../torch/lib
chmod -R u+w "$root"
for file in "$root"/bin/*; do
  strip "$file"
  patchelf --set-rpath "\$ORIGIN/../lib$elsewhere" "$file"
done
for file in "$root"/lib/*; do
  patchelf --set-rpath "\$ORIGIN${elsewhere:+:\$ORIGIN/../torch/lib}" "$file"
done
chmod 755 "$root"/bin/* && chmod 644 "$root"/lib/*

# What each library's authors ask to be told along with it.
if command -v dpkg-query >/dev/null; then
  sort -u "$work/taken" | while read -r path; do
    printf '%s\n' "$path" "$(readlink -f "$path")" "/usr$path" "${path#/usr}"
  done | sort -u | xargs -d '\n' dpkg-query -S 2>/dev/null | grep -v '^diversion' | cut -d: -f1 | cut -d, -f1 |
    sort -u >"$work/packages" || true  # some of these names are nobody's
  while read -r package; do
    [ -e "/usr/share/doc/$package/copyright" ] || continue
    mkdir -p "$root/share/licenses/$package"
    cp -L "/usr/share/doc/$package/copyright" "$root/share/licenses/$package/copyright"
  done <"$work/packages"
fi
cp -r configs/cloud/. "$root/share/"
cp LICENSE NOTICE "$root/"
if [ -n "$wheel" ]; then
  mkdir -p "$root/python"
  cp "$wheel" "$root/python/"
  cp -r python/examples "$root/python/"
  find "$root/python" -name '__pycache__' -prune -exec rm -rf {} +
fi

# The newest version of the C library that anything in here asks for.
glibc=$(readelf -V --wide "$root"/bin/* "$root"/lib/* 2>/dev/null | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
{
  cat <<MARKDOWN
# longwave-worker $version for Linux, $(uname -m)

A worker of a Longwave run, and the command \`longwave\`. Unpack it anywhere; nothing has to be installed:

    tar xzf $name.tar.gz
    $name/bin/longwave join COORDINATOR:7070 --token-file TOKEN --data /path/to/text

\`join\` redeems the token for a certificate and the run's configuration, checks the machine and trains.
\`$name/bin/longwave doctor\` checks the machine alone. Where the run allows it, \`--device cpu\` does without a GPU.

Wanted of the machine: a kernel of 5.3 or later, the GNU C library ${glibc#GLIBC_} or later, and NVIDIA's driver if it
is to compute on a GPU. The other libraries are in \`lib/\`, their licenses in \`share/licenses/\`. \`share/\` has a
systemd unit, a cloud-init example and a Slurm script, whose first lines say how they are used.
MARKDOWN
  if [ -n "$wheel" ]; then
    cat <<MARKDOWN

## A training loop of your own, in PyTorch

\`python/\` has the package and examples of its use. It wants Python 3.9 or later and a torch 2.x of yours:

    pip install $name/python/$(basename "$wheel")
    python $name/python/examples/nanogpt.py --data /path/to/text --address COORDINATOR:7070 --token TOKEN
MARKDOWN
  fi
  if [ -n "$torch_for_cuda" ]; then
    torch_version=$(sed -n "s/^__version__ = '\(.*\)'/\1/p" "$torch_for_cuda/../version.py" 2>/dev/null || true)
    cat <<MARKDOWN

## LibTorch

This longwave-worker was built for CUDA, and LibTorch with CUDA is gigabytes: it is not in here. Bring the one that it
was built with, ${torch_version:-the same version}, and put its folder, or a link to it, beside \`bin\` under the name \`torch\`:

    python3 -m venv torch-$version
    torch-$version/bin/pip install torch==${torch_version%%+*}
    ln -s "\$(echo "\$PWD"/torch-$version/lib/python3*/site-packages/torch)" $name/torch

\`longwave doctor\` says whether it is found.
MARKDOWN
  fi
} >"$root/README.md"

mkdir -p "$out"
find "$root" -type d -exec chmod 755 {} +
find "$root" -type f ! -path '*/bin/*' -exec chmod 644 {} +
tar --sort=name --mtime="@$epoch" --owner=0 --group=0 --numeric-owner --format=posix \
  --pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime \
  -C "$work" -cf - "$name" | gzip -n "-${LONGWAVE_DIST_LEVEL:-6}" >"$out/$name.tar.gz.part"
mv "$out/$name.tar.gz.part" "$out/$name.tar.gz"
(cd "$out" && sha256sum -- *.tar.gz >SHA256SUMS)
echo "dist: $out/$name.tar.gz, $(du -h "$out/$name.tar.gz" | cut -f1)"
