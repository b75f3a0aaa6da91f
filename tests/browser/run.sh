#!/usr/bin/env bash
# The report's page, as a file and live, in a real browser: Debian's chromium, without a window, driven by selenium. `tools/setup.sh --browser`
# brings it.
#
#   tests/browser/run.sh [LONGWAVE]    the program [build/bin/longwave], beside longwave-server and longwave-worker
#
# Screenshots of three widths are left in build/browser. Ends with `N passed, N failed, N skipped`.
set -euo pipefail
cd "$(dirname "$0")/../.."
program=$(realpath "${1:-build/bin/longwave}")
[ -x "$program" ] || { echo "run.sh: no $program; build it first (make programs)" >&2; exit 1; }
for needed in chromium chromedriver; do
  command -v "$needed" >/dev/null || { echo "no $needed (tools/setup.sh --browser)"; exit 77; }
done
environment=$PWD/build/browser/env
if [ "$(cat "$environment/complete" 2>/dev/null)" != "$(cksum <tests/browser/requirements.txt)" ]; then
  rm -rf "$environment"
  python3 -m venv "$environment"
  "$environment/bin/pip" install --quiet --disable-pip-version-check --requirement tests/browser/requirements.txt
  cksum <tests/browser/requirements.txt >"$environment/complete"
fi
report=build/browser/report.xml status=0
rm -f "$report"
env LONGWAVE="$program" SCREENSHOTS="$PWD/build/browser" PYTHONDONTWRITEBYTECODE=1 \
  "$environment/bin/python" -m pytest -p no:cacheprovider -q --junitxml="$report" tests/browser || status=$?
tests/support/count_tests.py "$report"
exit "$status"
