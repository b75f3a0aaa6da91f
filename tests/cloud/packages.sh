#!/usr/bin/env bash
# Unpacks packages from the system's sources, with dependencies that are not installed, into a folder. The programs are
# for tests and must not be installed: cloud-init would run at the machine's start, and Slurm's services as well.
#
#   tests/cloud/packages.sh FOLDER PACKAGE…
#
# Existing packages are not fetched again. Ends with status 77 and a reason if packages are unavailable.
set -euo pipefail
folder=$1
shift
[ ! -e "$folder/complete" ] || exit 0
for tool in apt-get dpkg-deb flock; do
  command -v "$tool" >/dev/null || { echo "skipped: $tool is not installed"; exit 77; }
done
# A lock, since several build folders share one cache and may want the same packages.
mkdir -p "$(dirname "$folder")"
exec {lock}>"$folder.lock"
flock --timeout 300 "$lock" || { echo "skipped: somebody else has been unpacking $folder for 300 s"; exit 77; }
[ ! -e "$folder/complete" ] || exit 0
if ! plan=$(timeout 60 apt-get --simulate --no-install-recommends install "$@" 2>&1); then
  echo "skipped: no package $*: $(tail -n 1 <<<"$plan")"
  exit 77
fi
mkdir -p "$folder"
work=$(mktemp -d "$folder/fetched-XXXX")
trap 'rm -rf "$work"' EXIT
chmod 755 "$work"
mapfile -t packages < <({ printf '%s\n' "$@"; awk '/^Inst/ { print $2 }' <<<"$plan"; } | sort -u)
if ! said=$(cd "$work" && timeout 200 apt-get download "${packages[@]}" 2>&1); then
  echo "skipped: $* cannot be fetched: $(tail -n 1 <<<"$said")"
  exit 77
fi
for package in "$work"/*.deb; do dpkg-deb --extract "$package" "$folder/root"; done
touch "$folder/complete"
