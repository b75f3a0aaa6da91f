#!/usr/bin/env bash
# The Python package and its adapters: makes the wheel (tools/wheel.sh), installs it into its own environment and runs
# this folder's tests that need no GPU.
#
#   tests/python/run.sh [BIN [pytest options]]     BIN: the folder of longwave, longwave-server and longwave-worker
#                                                  [build/bin]
#
# The packages of requirements.txt are fetched once (2.3 GB, 5 GB on the disk, two to three minutes) and kept in
# LONGWAVE_PYTHON_CACHE [~/.cache/longwave-python], for all checkouts. The package itself goes to build/python of this
# one. Ends with `N passed, N failed, N skipped`.
set -euo pipefail
cd "$(dirname "$0")/../.."
programs=$(realpath "${1:-build/bin}")
shift || true
for program in longwave longwave-server longwave-worker; do
  [ -x "$programs/$program" ] || { echo "run.sh: no $program in $programs; build it first (make programs)" >&2; exit 1; }
done

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
  echo "python: fetching the packages of $requirements into $packages"
  rm -rf "$packages"
  find "$cache" -mindepth 1 -maxdepth 1 -type d -mtime +30 -exec rm -rf {} +  # environments of earlier requirements
  python3 -m venv "$packages"
  "$packages/bin/pip" install --quiet --disable-pip-version-check --no-cache-dir --requirement "$requirements"
  touch "$packages/complete"
  echo "python: $(du -sh "$packages" | cut -f 1) in $((SECONDS - begin)) s"
fi
flock --unlock "$lock"

# An environment of this checkout, in front of those packages.
environment=$PWD/build/python/env
if [ "$(cat "$environment/packages" 2>/dev/null)" != "$packages" ]; then
  rm -rf "$environment"
  python3 -m venv "$environment"
  site=$("$environment/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  (cd "$packages"/lib/python3*/site-packages && pwd) >"$site/packages.pth"
  echo "$packages" >"$environment/packages"
fi
# Tests the wheel that would be published; test_docs.py installs from the checkout, like users do.
. tests/support/wheel.sh
make_wheel
"$environment/bin/pip" install --quiet --disable-pip-version-check --no-deps --force-reinstall \
  build/python/wheel/longwave-*.whl

report=build/python/report.xml
rm -f "$report"
status=0
env PATH="$environment/bin:$PATH" LONGWAVE_BIN="$programs" PYTHONDONTWRITEBYTECODE=1 \
  "$environment/bin/python" -m pytest -p no:cacheprovider -q --durations=10 --junitxml="$report" \
  tests/python "$@" || status=$?
tests/support/count_tests.py "$report"
exit "$status"
