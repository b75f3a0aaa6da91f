#!/usr/bin/env bash
# Fails, naming the files, if a source is not as clang-format 14 writes it.
set -euo pipefail
cd "$(dirname "$0")/.."
git ls-files -z '*.h' '*.cc' '*.cu' '*.cuh' | xargs -0 clang-format-14 --dry-run --Werror
echo 'format: clean'
