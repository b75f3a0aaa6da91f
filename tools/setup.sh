#!/usr/bin/env bash
# Installs what Longwave is built with, on Debian 12 and Ubuntu 24.04. Every other path (make, CI, the
# README) calls this script. A second run finds everything in place and takes a second.
#
#   tools/setup.sh              the distribution's packages
#   tools/setup.sh --torch      and the CPU's part of PyPI's LibTorch (tools/torch.txt), unpacked into .torch/, for
#                               the preset release-torch
#   tools/setup.sh --torch-all  the whole of it instead, with NVIDIA's packages (several gigabytes), to compute on GPUs here
#   tools/setup.sh --cuda       and a CUDA compiler: the machine's toolkit, or NVIDIA's packages from PyPI,
#                               unpacked into .cuda/ (enough to compile and link; no driver)
#   tools/setup.sh --kube       and what a Kubernetes of one node runs on, for tests/kube/run.sh
#   tools/setup.sh --browser    and a browser, for tests/browser/run.sh
set -euo pipefail
cd "$(dirname "$0")/.."
for option in "$@"; do
  case $option in
    --torch | --torch-all | --cuda | --kube | --browser) ;;
    *) echo "setup: got $option, wanted --torch, --torch-all, --cuda, --kube or --browser" >&2; exit 1 ;;
  esac
done

packages=(
  build-essential cmake ninja-build ccache git pkg-config
  clang-14 clang-format-14 clang-tidy-14 libclang-rt-14-dev
  libabsl-dev libgrpc++-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev
  libzmq3-dev cppzmq-dev libssl-dev openssl prometheus-cpp-dev
  libgtest-dev libgmock-dev libbenchmark-dev
  libboost-context-dev  # it brings the headers of all of Boost, too: Beast serves the live page
  libtorch-dev libopenblas0-pthread
  libyaml-cpp-dev nlohmann-json3-dev libcli11-dev libxxhash-dev libzstd-dev zlib1g-dev libspdlog-dev
  python3 python3-venv python3-jsonschema python3-yaml patchelf shellcheck
  prometheus prometheus-alertmanager  # and promtool, for tests of metrics, dashboards and alerts
  rclone  # for the test of the chart's object store
  buildah busybox-static  # for the images and their test
  iproute2  # network namespaces, for benchmarks over shaped links
  iptables psmisc  # a firewall and fuser, for the tests of docs/tutorials
)
case " $* " in *' --browser '*) packages+=(chromium chromium-driver) ;; esac
case " $* " in *' --kube '*) packages+=(containerd runc etcd-server containernetworking-plugins conntrack ethtool socat) ;; esac

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

# bring_torch PART: cpu or all. What is in .torch/ lies as pip lays it, so that LibTorch finds NVIDIA's libraries.
bring_torch() {
  local part=$1 wanted=.torch/new pip=(.torch/pip/bin/pip --quiet --disable-pip-version-check)
  if [ "$(cat .torch/installed 2>/dev/null)" = "$part $(cksum <tools/torch.txt)" ]; then return; fi
  rm -rf .torch
  mkdir -p .torch
  python3 -m venv .torch/pip
  if [ "$part" = all ]; then
    "${pip[@]}" install --no-cache-dir --target "$wanted" "$(grep -o '^torch==[^ ]*' tools/torch.txt)"
  else
    # Of one Python and one platform, whatever the machine has: the sums are of these files.
    "${pip[@]}" install --no-cache-dir --target "$wanted" --no-deps --require-hashes --only-binary=:all: --python-version 3.11 \
      --platform "manylinux_2_28_$(uname -m)" --platform "manylinux_2_25_$(uname -m)" --platform "manylinux2014_$(uname -m)" \
      --requirement tools/torch.txt
    find "$wanted/torch/lib" -type f ! -name 'libtorch_cpu.so' ! -name 'libc10.so' ! -name 'libgomp*' -delete
    find "$wanted"/nvidia/*/lib -type f ! -name 'libcudart.so*' ! -name 'libcupti.so*' -delete
  fi
  # Headers of another protobuf than the distribution's, which gRPC is built with, would come first.
  rm -rf "$wanted/torch/include/google"
  mkdir .torch/torch
  mv "$wanted"/torch/{include,lib,share,version.py} .torch/torch/
  mv "$wanted/nvidia" "$wanted"/*.dist-info .torch/
  rm -rf "$wanted" .torch/pip
  echo "$part $(cksum <tools/torch.txt)" >.torch/installed
}

# A CUDA compiler.
bring_cuda() {
  if nvcc=$(command -v nvcc || ls /usr/local/cuda/bin/nvcc 2>/dev/null); then
    echo "setup: using the machine's CUDA compiler, $nvcc"
    return
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
}

for option in "$@"; do
  case $option in
    --torch) bring_torch cpu ;;
    --torch-all) bring_torch all ;;
    --cuda) bring_cuda ;;
  esac
done
