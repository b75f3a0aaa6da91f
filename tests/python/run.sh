#!/usr/bin/env bash
# The Python package and its adapters: makes the wheel (tools/wheel.sh), installs it into its own environment and runs
# this folder's tests that need no GPU.
#
#   tests/python/run.sh [BIN [pytest options]]     BIN: the folder of longwave, longwave-server and longwave-worker
#                                                  [build/bin]
#
# packages.sh fetches what they need. The package itself goes to build/python of this checkout. Ends with
# `N passed, N failed, N skipped`.
set -euo pipefail
cd "$(dirname "$0")/../.."
programs=$(realpath "${1:-build/bin}")
shift || true
for program in longwave longwave-server longwave-worker; do
  [ -x "$programs/$program" ] || { echo "run.sh: no $program in $programs; build it first (make programs)" >&2; exit 1; }
done

packages=$(tests/python/packages.sh)

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
