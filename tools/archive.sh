#!/usr/bin/env bash
# Makes a relocatable archive of a worker: longwave, longwave-worker and the libraries that they need, but for the C library and
# NVIDIA's driver, which are the machine's.
#
#   tools/archive.sh PROGRAMS OUT [WHEEL]
#
# PROGRAMS is the folder that has them, and this the machine that they were built on (preset release-torch: the distribution's
# LibTorch wants libraries that may not be given on, which is refused). WHEEL, of tools/wheel.sh, goes along under python/. OUT gets
# longwave-worker-VERSION-ARCH.tar.gz. The same programs give the same bytes: times are those of SOURCE_DATE_EPOCH [the last
# commit's], owners and order are fixed.
set -euo pipefail
cd "$(dirname "$0")/.."
programs=$1 out=$2 wheel=${3:-}
names=(longwave longwave-worker)

fail() { echo "archive: $1" >&2; exit 1; }
for tool in patchelf ldd readelf strip tar gzip python3; do
  command -v "$tool" >/dev/null || fail "$tool is not installed; tools/setup.sh installs it"
done
for program in "${names[@]}"; do
  [ -x "$programs/$program" ] || fail "no $program in $programs"
done
[ -z "$wheel" ] || [ -e "$wheel" ] || fail "no wheel $wheel; tools/wheel.sh makes one"
version=$("$programs/longwave" --version | awk '{ print $2 }')
name=longwave-worker-$version-$(uname -m)
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}

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
for program in "${names[@]}"; do
  ldd "$programs/$program" >"$work/needed"
  ! grep 'not found' "$work/needed" >&2 || fail "$programs/$program was not built here: it lacks what stands above"
  awk '$2 == "=>" && $3 ~ /^\// { print $1, $3 }' "$work/needed" | while read -r soname path; do
    if is_the_machines "$soname" || [ -e "$root/lib/$soname" ]; then continue; fi
    cp -L "$path" "$root/lib/$soname"
    printf '%s\t%s\n' "$soname" "$path" >>"$work/taken"
    [[ $path != */libtorch_cpu.so* ]] || readlink -f "$path" >"$work/torch"
  done
  cp "$programs/$program" "$root/bin/$program"
done
# Everything finds everything by its place in the archive; a LibTorch that was brought along goes before ours.
chmod -R u+w "$root"
for file in "$root"/bin/*; do
  strip "$file"
  patchelf --set-rpath "\$ORIGIN/../torch/lib:\$ORIGIN/../lib" "$file"
done
for file in "$root"/lib/*; do
  # NVIDIA's license wants its libraries as they are; they look nowhere but in the C library.
  case $file in */libcudart.so.* | */libcupti.so.*) continue ;; esac
  strip "$file"
  patchelf --set-rpath "\$ORIGIN" "$file"
done
chmod 755 "$root"/bin/* && chmod 644 "$root"/lib/*

# The list of what is packed, with owners, licenses and the notices that these ask for; refuses what may not be given on.
echo 'compiled in' >>"$work/taken"
tools/sbom.py "$name" "$version" "$work/taken" "$root" "$root/share"
cp configs/cloud/longwave-worker.service configs/cloud/longwave-worker.sbatch configs/cloud/cloud-init.yaml "$root/share/"
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
# $name for Linux

A worker of a Longwave run, and the command \`longwave\`. Unpack it anywhere; nothing has to be installed:

    tar xzf $name.tar.gz
    $name/bin/longwave join COORDINATOR:7070 --token-file TOKEN --data /path/to/text

\`join\` redeems the token for a certificate and the run's configuration, checks the machine and trains.
\`$name/bin/longwave doctor\` checks the machine alone. Where the run allows it, \`--device cpu\` does without a GPU.

Wanted of the machine: a kernel of 5.3 or later and the GNU C library ${glibc#GLIBC_} or later, and NVIDIA's driver if
it is to compute on a GPU. The other libraries are in \`lib/\`, their licenses in
\`share/licenses/\`, a list of them in \`share/sbom.spdx.json\`. \`share/\` has a systemd unit, a
cloud-init example and a Slurm script, whose first lines say how they are used.
MARKDOWN
  if [ -n "$wheel" ]; then
    cat <<MARKDOWN

## A training loop of your own, in PyTorch

\`python/\` has the package and examples of its use. It wants Python 3.9 or later and a torch of yours, 2.1 or later:

    pip install $name/python/$(basename "$wheel")
    python $name/python/examples/nanogpt.py --data /path/to/text --address COORDINATOR:7070 --token TOKEN
MARKDOWN
  fi
  if readelf --sections --wide "$root/bin/longwave-worker" | grep -q nv_fatbin; then
    torch=$(sed -n "s/^__version__ = '\([^+]*\).*/\1/p" "$(dirname "$(cat "$work/torch")")/../version.py")
    cat <<MARKDOWN

## LibTorch

This longwave-worker computes on GPUs, too, with LibTorch's part for that, which is gigabytes and not in here. Bring that of the
same version, $torch, and put its folder, or a link to it, beside \`bin\` under the name \`torch\`:

    python3 -m venv torch-$version
    torch-$version/bin/pip install torch==$torch
    ln -s "\$(echo "\$PWD"/torch-$version/lib/python3*/site-packages/torch)" $name/torch

\`longwave doctor\` says whether it is found.
MARKDOWN
  fi
} >"$root/README.md"

mkdir -p "$out"
find "$root" -type d -exec chmod 755 {} +
find "$root" -type f ! -path '*/bin/*' -exec chmod 644 {} +
tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --format=posix \
  --pax-option=exthdr.name=%d/PaxHeaders/%f,delete=atime,delete=ctime \
  -C "$work" -cf - "$name" | gzip -n "-${LONGWAVE_ARCHIVE_LEVEL:-6}" >"$out/$name.tar.gz.part"
mv "$out/$name.tar.gz.part" "$out/$name.tar.gz"
echo "archive: $out/$name.tar.gz, $(du -h "$out/$name.tar.gz" | cut -f1), unpacked $(du -sm --apparent-size "$root" | cut -f1) MB"
