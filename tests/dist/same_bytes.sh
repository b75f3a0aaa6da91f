#!/usr/bin/env bash
# Holds that a release's programs do not depend on the folder that they are built in: compiles some of HEAD's libraries, with the preset
# of a release and without a cache, in two folders, and compares the objects.
#
# Ends with `N passed, N failed`; status 77 and a reason where it cannot be tried.
set -euo pipefail
cd "$(dirname "$0")/../.."
. tests/support/checks.sh
git rev-parse --verify --quiet HEAD >/dev/null || skip 'this is no checkout of git'

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export CCACHE_DISABLE=1
compiles_in() (
  mkdir -p "$1" && git archive HEAD | tar -xC "$1" && cd "$1" &&
    cmake --preset release-torch -DLONGWAVE_TORCH=OFF -DLONGWAVE_CUDA=OFF -DLONGWAVE_TESTS=OFF &&
    cmake --build --preset release-torch --target longwave_base longwave_layout
)
check 'it compiles in a folder' compiles_in "$work/one"
check 'and in another' compiles_in "$work/another/deeper/folder"
# The objects alone, since some of the generated files name their folder.
objects() { (cd "$1/build/release-torch" && find . -name '*.o' -exec sha256sum {} + | sort -k 2); }
same_objects() { objects "$work/one" >"$work/sums" && [ "$(wc -l <"$work/sums")" -gt 10 ] && diff "$work/sums" <(objects "$work/another/deeper/folder"); }
check 'with the same bytes' same_objects
names_no_folder() { ! find "$work/one" -name '*.o' -exec grep -lF "$work" {} + | grep .; }
check 'and no object names a folder' names_no_folder
sum_up
