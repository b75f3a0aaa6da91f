#!/usr/bin/env bash
# The Python package on this machine's GPU: builds it with CUDA, tests longwave.Sync on CUDA tensors with the tests of
# tests/python, and measures its share of a loop of 124 M parameters (bench_cost.py; the bar is 1 %).
# Wants the programs in build/bin (make programs) and the CUDA toolkit; a Python with torch for CUDA in front of PATH. In
# pack.sh's folder it takes the library there, and wants pytest in that Python.
#
#   tests/gpu/python.sh [BIN]     BIN: the folder of longwave, longwave-server and longwave-worker [build/bin]
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/gpu/environment.sh
LONGWAVE_BIN=$(realpath "${1:-${bin:-build/bin}}")
export LONGWAVE_BIN

fail() {
  echo "gpu python: $1" >&2
  exit 1
}

gpu=$(python3 -c 'import torch; print(torch.cuda.get_device_name())') || fail "no torch, or no GPU that it sees; nothing was run"
python=python3
if [ -z "$packed" ]; then
  environment=build/python/env-cuda
  [ -d "$environment" ] || python3 -m venv --system-site-packages "$environment"
  "$environment/bin/pip" install --quiet --disable-pip-version-check pytest transformers
  "$environment/bin/pip" install --quiet --disable-pip-version-check --no-deps --force-reinstall ./python \
    --config-settings=cmake.define.LONGWAVE_CUDA=ON || fail "the package was not built"
  python=$environment/bin/python
fi
"$python" -c 'from longwave import _library; import sys; sys.exit(_library.library().lw_can_use(_library.CUDA))' ||
  fail "the library cannot use the GPU: was it built with CUDA?"
LONGWAVE_TEST_DEVICE=cuda "$python" -m pytest -p no:cacheprovider -q tests/python/test_sync.py || fail "the tests failed"
"$python" tests/python/bench_cost.py --device cuda --layers 12 --width 768 --rounds 10 || fail "the cost is above its bar"
echo "gpu python: the tests passed and the cost is within its bar, on $gpu"
