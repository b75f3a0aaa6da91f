#!/usr/bin/env bash
# Fails, naming the files, if a source differs from clang-format 14's output.
set -euo pipefail
cd "$(dirname "$0")/.."
git ls-files -z '*.h' '*.cc' '*.cu' '*.cuh' | xargs -0 clang-format-14 --dry-run --Werror
echo 'format: clean'
