#!/usr/bin/env bash
# Nodes of several processes, as one worker each: the Python package under torchrun, with DistributedDataParallel and
# fully_shard; ranks are killed and frozen.
#
#   tests/node/run.sh [BUILD]     BUILD: a build folder with its programs in bin/ [build]
#
# Needs what tests/python/run.sh needs, and fetches it. Ends with its counts.
set -euo pipefail
cd "$(dirname "$0")/../.."
exec tests/python/run.sh "${1:-build}/bin" -k test_node
