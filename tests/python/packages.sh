#!/usr/bin/env bash
# Fetches the packages of requirements.txt once (2.3 GB, 5 GB on the disk, two to three minutes) into LONGWAVE_PYTHON_CACHE
# [~/.cache/longwave-python], for all checkouts, and prints the folder of the environment that has them.
set -euo pipefail
cd "$(dirname "$0")/../.."
cache=${LONGWAVE_PYTHON_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/longwave-python}
requirements=tests/python/requirements.txt
key=$(cat "$requirements" <(python3 --version) | sha256sum | cut -c 1-12)
packages=$cache/$key
mkdir -p "$cache"
# A lock, since several checkouts share one cache.
exec {lock}>"$cache/lock"
flock "$lock"
if [ ! -e "$packages/complete" ]; then
  begin=$SECONDS
  echo "python: fetching the packages of $requirements into $packages" >&2
  rm -rf "$packages"
  find "$cache" -mindepth 1 -maxdepth 1 -type d -mtime +30 -exec rm -rf {} +  # environments of earlier requirements
  python3 -m venv "$packages"
  "$packages/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir --requirement "$requirements"
  touch "$packages/complete"
  echo "python: $(du -sh "$packages" | cut -f 1) in $((SECONDS - begin)) s" >&2
fi
echo "$packages"
