#!/usr/bin/env bash
# Checks the C++ files that differ from a commit: every header compiles alone, and clang-tidy finds nothing in a
# source. No CUDA: clang-tidy 14 cannot read its headers.
#   tools/tidy.sh [COMMIT]     [the last commit that main and HEAD share; on main, the one before HEAD]
# Needs a configured build (cmake --preset dev) with the protocol's generated sources.
set -euo pipefail
cd "$(dirname "$0")/.."
base=${1:-$(git merge-base HEAD main 2>/dev/null || git rev-parse HEAD)}
[ "$(git rev-parse "$base")" != "$(git rev-parse HEAD)" ] || [ -n "${1:-}" ] || base=HEAD~1
build=build
cmake -B "$build" -DCMAKE_EXPORT_COMPILE_COMMANDS=ON >/dev/null
mapfile -t changed < <(git diff --name-only --diff-filter=d "$base" -- '*.h' '*.cc' | grep -Ev '^kernels/cuda/|^tests/emulation/' || true)

headers=() sources=()
for file in "${changed[@]}"; do
  case $file in
    *.h) headers+=("$file") ;;
    *) if grep -q "\"file\": \"$PWD/$file\"" "$build/compile_commands.json"; then sources+=("$file"); fi ;;
  esac
done

# The include paths of a header beside the system's.
flags=(-std=c++20 -fsyntax-only -I. "-I$build/proto/generated" -x c++)
failed=0
if ((${#headers[@]})); then
  printf '%s\0' "${headers[@]}" | xargs -0 -P "$(nproc)" -I{} sh -c '"$@" || { echo "tidy: {} does not compile alone" >&2; exit 1; }' \
    sh clang++-14 "${flags[@]}" -Wno-pragma-once-outside-header {} || failed=1
fi
if ((${#sources[@]})); then
  printf '%s\0' "${sources[@]}" | xargs -0 -P "$(nproc)" -n 4 clang-tidy-14 -p "$build" --quiet 2>/dev/null || failed=1
fi
echo "tidy: ${#headers[@]} headers and ${#sources[@]} sources that differ from $base"
exit "$failed"
