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
  clang-14 clang-format-14 libclang-rt-14-dev
  libabsl-dev libgrpc++-dev protobuf-compiler protobuf-compiler-grpc libprotobuf-dev
  libzmq3-dev cppzmq-dev prometheus-cpp-dev
  libgtest-dev libgmock-dev libbenchmark-dev
  libtorch-dev libopenblas0-pthread
  libyaml-cpp-dev nlohmann-json3-dev libcli11-dev libsqlite3-dev libxxhash-dev libzstd-dev libspdlog-dev
  python3 python3-venv
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
