#!/usr/bin/env bash
# Holds what a whole tools/release.sh has made: its sums, and that each artefact trains where nothing of the build is: the images in
# their own roots, the archive in one of the C library alone, the wheel as tests/dist/wheel.sh has it.
#
#   tests/dist/bare.sh [build/dist [build/bin]]
#
# The charts and the images on a Kubernetes: LONGWAVE_DIST=build/dist tests/kube/run.sh. Ends with `N passed, N failed`; status 77 and
# a reason where it cannot be tried.
set -euo pipefail
cd "$(dirname "$0")/../.."
dist=$(realpath "${1:-build/dist}")

. tests/support/checks.sh
. tests/support/roots.sh
[ "$(id -u)" = 0 ] || skip 'a root of its own needs root'
[ -e "$dist/SHA256SUMS" ] || skip "$dist has no SHA256SUMS; tools/release.sh makes it"
for tool in buildah unshare setpriv; do command -v "$tool" >/dev/null || skip "$tool is not installed"; done

work=$(mktemp -d) tag=bare-$$ containers=() servers=()
buildah=(buildah --storage-driver "${STORAGE_DRIVER:-vfs}")
clean_up() {
  for one in "${servers[@]}"; do kill "$one" 2>/dev/null || true; done
  for one in "${containers[@]}"; do "${buildah[@]}" rm "$one" >/dev/null 2>&1 || true; done
  for one in server worker; do "${buildah[@]}" rmi "localhost/longwave-$one:$tag" >/dev/null 2>&1 || true; done
  rm -rf "$work"
}
trap clean_up EXIT
chmod 755 "$work"
version=$(sed -n 's/^project(longwave VERSION \([0-9.]*\).*/\1/p' CMakeLists.txt)
sums_hold() { (cd "$dist" && sha256sum --check --strict SHA256SUMS); }
check 'the sums hold' sums_hold

roots=()
for part in server worker; do
  release_image "$dist" $part "$tag"
  containers+=("$("${buildah[@]}" from "localhost/longwave-$part:$tag")")
  roots+=("$("${buildah[@]}" mount "${containers[-1]}")")
done
trains=(--config "$state/config.yaml" --coordinator ADDRESS --name w --run-dir "$state" --state-dir "$state/state")
serve images "${roots[0]}" /usr/bin run_in "${roots[1]}" "$(state_folder images/worker)" /usr/bin/longwave-worker "${trains[@]}"
check 'images: the weights are there' test -s "$work/images/worker/model.safetensors"

mkdir -p "$work/worker-root/opt" "$work/unpacked"
tar -xzf "$dist/longwave-worker-$version-$(uname -m).tar.gz" -C "$work/worker-root/opt"
python3 -m zipfile -e "$(ls "$dist"/longwave-*.whl)" "$work/unpacked"
c_library_root "$work/worker-root" "$(echo "$work"/worker-root/opt/*/bin/longwave)"
# The folder that the release was made in, which the same commit does not have elsewhere.
names_no_folder_of_the_build() { ! grep -rlF "${dist%/build/dist}" "$work/worker-root/opt" "$work/unpacked"; }
check 'no file of archive and wheel names a folder of the build' names_no_folder_of_the_build
serve archive "${roots[0]}" /usr/bin run_in "$work/worker-root" "$(state_folder archive/worker)" \
  "/opt/longwave-worker-$version-$(uname -m)/bin/longwave-worker" "${trains[@]}"
check 'archive: the weights are there' test -s "$work/archive/worker/model.safetensors"

check 'wheel: what tests/dist/wheel.sh holds' tests/dist/wheel.sh "${2:-build/bin}" "$(ls "$dist"/longwave-*.whl)"
sum_up
