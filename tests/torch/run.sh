#!/usr/bin/env bash
# Two builds in one run: a worker with the distribution's LibTorch and one with PyPI's (preset release-torch), against one
# coordinator and shard, under ddp (the optimizer takes the merged gradient) and longwave (pseudo-gradients). Their
# replicas must be equal after every round. And PyPI's LibTorch, which has a protobuf of its own inside, must not give
# any name to the distribution's gRPC.
#
#   tests/torch/run.sh [BIN [TORCH_BIN]]     default build/bin build/release-torch/bin
#
# Exit status 77 and a reason where one of the two is not there.
set -euo pipefail
cd "$(dirname "$0")/../.."
servers=${1:-build/bin} other=${2:-build/release-torch/bin} name='two LibTorches'
skip() { echo "skipped: $1"; exit 77; }
[ -e .torch/installed ] || skip "there is no .torch; tools/setup.sh --torch brings it"
[ -x "$servers/longwave-worker" ] || skip "$servers has no longwave-worker"
[ -x "$other/longwave-worker" ] || skip "$other has no longwave-worker (cmake --preset release-torch, then cmake --build --preset release-torch)"
servers=$(realpath "$servers") other=$(realpath "$other")
. tests/support/two_workers.sh

torch_of() { ldd "$1/longwave-worker" | awk '/libtorch_cpu\.so/ { print $3 }'; }
torch=$(torch_of "$other")
[ "$(torch_of "$servers")" != "$torch" ] || fail "both builds have the LibTorch $torch"
echo "$name: $(realpath "$(torch_of "$servers")") and $torch"

# Of the C++ library's templates everybody has copies, which are the same.
names_of() { nm --dynamic --defined-only --format=just-symbols "$@" 2>/dev/null | sed 's/@.*//' | grep -Ev '^_Z([NTVZ]|TI|TS|TV)*K?(St|Ss|S[ai])' | sort -u; }
ldd "$other/longwave-worker" | awk '/libprotobuf|libgrpc|libgpr|libabsl|libzmq|libspdlog|libyaml/ { print $3 }' >"$root/libraries"
mapfile -t libraries <"$root/libraries"
comm -12 <(names_of "$torch") <(names_of "${libraries[@]}") >"$root/both"
[ ! -s "$root/both" ] || fail "LibTorch and the distribution's libraries have names in common: $(head -n 3 "$root/both")"
echo "$name: none of ${#libraries[@]} libraries of gRPC and others has a name that LibTorch exports"

run() { two_workers "$1" "$2" "distribution=$servers/longwave-worker --device cpu" "pypi=$other/longwave-worker --device cpu"; }
run ddp 20
run longwave 90
echo "$name: a worker of each kept equal replicas under ddp and longwave"
