#!/usr/bin/env bash
# Installs what Longwave is built with, on Debian 12 and Ubuntu 24.04. Every other path (make, CI, the
# README) calls this script. A second run finds everything in place and takes a second.
#
#   tools/setup.sh          the distribution's packages
#   tools/setup.sh --cuda   and a CUDA compiler: the machine's toolkit, or NVIDIA's packages from PyPI,
#                           unpacked into .cuda/ (enough to compile and link; no driver)
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(
  build-essential cmake ninja-build ccache git pkg-config
  clang-14 clang-format-14 clang-tidy-14 libclang-rt-14-dev
  libabsl-dev libgrpc++-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev
  libzmq3-dev cppzmq-dev libssl-dev openssl prometheus-cpp-dev
  libgtest-dev libgmock-dev libbenchmark-dev libboost-context-dev
  libtorch-dev libopenblas0-pthread
  libyaml-cpp-dev nlohmann-json3-dev libcli11-dev libxxhash-dev libzstd-dev libspdlog-dev
  python3 python3-venv patchelf shellcheck
  prometheus  # and promtool, for tests of metrics, dashboards and alerts
  buildah busybox-static  # for the images and their test
  iproute2  # network namespaces, for benchmarks over shaped links
)

missing=()
for package in "${packages[@]}"; do
  dpkg-query -W -f='${Status}' "$package" 2>/dev/null | grep -q 'install ok installed' || missing+=("$package")
done
if ((${#missing[@]})); then
  sudo=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || { echo "setup: root or sudo is needed to install: ${missing[*]}" >&2; exit 1; }
    sudo=(sudo)
  fi
  echo "setup: installing ${#missing[@]} packages: ${missing[*]}"
  "${sudo[@]}" apt-get update -qq
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi
echo "setup: the distribution's packages are in place"

[ "${1:-}" = --cuda ] || exit 0

if nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null); then
  echo "setup: using the machine's CUDA compiler, $nvcc"
  exit 0
fi

# NVIDIA's packages: compiler, headers and libraries of one release of the toolkit. They must fit each
# other, so all are pinned; 13.0 asks the least of a driver among the 13.x.
cuda_packages=(
  nvidia-cuda-nvcc==13.0.88 nvidia-cuda-crt==13.0.88 nvidia-nvvm==13.0.88
  nvidia-cuda-runtime==13.0.96 nvidia-cuda-cccl==13.0.85
  nvidia-cufft==12.0.0.61 nvidia-nvjitlink==13.0.88
)
toolkit=.cuda/toolkit
stamp=.cuda/installed
if [ "$(cat "$stamp" 2>/dev/null)" != "${cuda_packages[*]}" ] || [ ! -x "$toolkit/bin/nvcc" ]; then
  echo "setup: no CUDA toolkit on this machine; bringing NVIDIA's packages into .cuda/"
  rm -rf .cuda
  mkdir -p .cuda
  python3 -m venv .cuda/venv
  .cuda/venv/bin/pip install --quiet --disable-pip-version-check "${cuda_packages[@]}"
  unpacked=$(cd .cuda/venv/lib/python3*/site-packages/nvidia/cu13 && pwd -P)
  # The packages lack what a toolkit has beside them: lib64, and the names that a linker asks for.
  ln -sfn lib "$unpacked/lib64"
  for library in "$unpacked"/lib/lib*.so.*; do
    plain="${library%%.so.*}.so"
    [ -e "$plain" ] || ln -s "$(basename "$library")" "$plain"
  done
  ln -sfn "${unpacked#"$PWD"/.cuda/}" "$toolkit"
  echo "${cuda_packages[*]}" > "$stamp"
fi
echo "setup: CUDA compiler in $toolkit: $("$toolkit/bin/nvcc" --version | sed -n 's/.*release .*, //p')"
