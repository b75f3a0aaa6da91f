#!/usr/bin/env bash
# Checks the C++ files that differ from a commit: every header compiles alone, and clang-tidy finds nothing in a
# source. No CUDA and no source with LibTorch's headers: clang 14 cannot read the first, nor the second as C++20
# (libstdc++ 12 destroys a vector of an incomplete c10::IValue).
#   tools/tidy.sh [COMMIT]     [the last commit that main and HEAD share; on main, the one before HEAD]
# It checks at most LONGWAVE_TIDY_FILES [12], those with the most new lines: a file takes some 20 seconds of a core.
# Needs a configured build (cmake --preset dev) with the protocol's generated sources.
set -euo pipefail
cd "$(dirname "$0")/.."
base=${1:-$(git merge-base HEAD main 2>/dev/null || git rev-parse HEAD)}
[ "$(git rev-parse "$base")" != "$(git rev-parse HEAD)" ] || [ -n "${1:-}" ] || base=HEAD~1
if ! git rev-parse --verify --quiet "$base^{commit}" >/dev/null; then
  [ -n "${1:-}" ] || { echo "skipped: tidy: the clone has no commit before HEAD"; exit 77; }
  echo "tidy: got $1, wanted a commit" >&2
  exit 1
fi
build=build
cmake -B "$build" -DCMAKE_EXPORT_COMPILE_COMMANDS=ON >/dev/null
# Without the precompiled headers, which clang-tidy cannot read where g++ wrote them; warnings that g++ alone
# knows may be switched off.
commands=$(mktemp -d)
trap 'rm -rf "$commands"' EXIT
sed 's/-Winvalid-pch *-include [^ ]*cmake_pch.hxx//' "$build/compile_commands.json" >"$commands/compile_commands.json"
git diff --numstat --no-renames --diff-filter=d "$base" -- '*.h' '*.cc' >"$commands/changed"
mapfile -t changed < <(sort -rn "$commands/changed" | cut -f 3 | { grep -Ev '^kernels/cuda/|^tests/emulation/' || true; })

# Compiles a header with the include paths beside the system's; g++ warns of the pragma of a file given to it.
alone=(g++ -std=c++20 -w -I. "-I$build/proto/generated" -x c++)
reads_torch() { "${alone[@]}" -M "$1" 2>/dev/null | grep '/ATen/' >/dev/null; }

headers=() sources=()
most=${LONGWAVE_TIDY_FILES:-12}
for file in "${changed[@]:0:most}"; do
  case $file in
    *.h) headers+=("$file") ;;
    *) if grep -q "\"file\": \"$PWD/$file\"" "$build/compile_commands.json" && ! reads_torch "$file"; then sources+=("$file"); fi ;;
  esac
done

failed=0
if ((${#headers[@]})); then
  printf '%s\0' "${headers[@]}" | xargs -0 -P "$(nproc)" -I{} sh -c '"$@" || { echo "tidy: {} does not compile alone" >&2; exit 1; }' \
    sh "${alone[@]}" -fsyntax-only {} || failed=1
fi
if ((${#sources[@]})); then
  printf '%s\0' "${sources[@]}" | xargs -0 -P "$(nproc)" -n 4 clang-tidy-14 -p "$commands" --quiet --extra-arg=-Wno-unknown-warning-option 2>/dev/null || failed=1
fi
echo "tidy: ${#headers[@]} headers and ${#sources[@]} sources of ${#changed[@]} files that differ from $base"
exit "$failed"
