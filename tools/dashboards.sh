#!/usr/bin/env bash
# Makes, checks and draws the dashboards with Python packages of their own, in .tools/dashboards (brought once).
#
#   tools/dashboards.sh generate [--check]   writes helm/longwave-monitoring/dashboards/ (or prints the differences)
#   tools/dashboards.sh draw                 trains a demonstration, and draws docs/pictures/ from its metrics
#   tools/dashboards.sh --there ARGUMENTS…   runs Python with these packages; status 77 if they are missing
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
packages=$root/.tools/dashboards
wanted=$root/tools/dashboards/requirements.txt

if ! cmp -s "$wanted" "$packages/installed"; then
  if [ "${1:-}" = --there ]; then
    echo 'skipped: the packages of the dashboards are not in .tools/; tools/dashboards.sh generate brings them'
    exit 77
  fi
  python3 -m venv --clear "$packages"
  "$packages/bin/pip" install --quiet --disable-pip-version-check -r "$wanted"
  cp "$wanted" "$packages/installed"
fi
case ${1:-} in
  --there) shift; exec "$packages/bin/python" -B "$@" ;;
  generate) shift; exec "$packages/bin/python" -B "$root/tools/dashboards/generate.py" "$@" ;;
  draw) shift; exec "$packages/bin/python" -B "$root/docs/pictures/draw.py" "$@" ;;
  *) sed -n '2,/^set/{s/^# \{0,1\}//p}' "$0"; exit 2 ;;
esac
