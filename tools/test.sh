#!/usr/bin/env bash
# Runs the tests of a build folder and ends with a plain line of what passed.
#   tools/test.sh BUILD [ctest options, e.g. -L unit]
set -uo pipefail
cd "$(dirname "$0")/.."
build=$1
shift
report=$(mktemp)
trap 'rm -f "$report"' EXIT
ctest --test-dir "$build" --output-on-failure --no-tests=error --parallel "$(nproc)" \
  --output-junit "$report" "$@"
status=$?
python3 - "$report" <<'PY'
import sys
import xml.etree.ElementTree as tree

cases = list(tree.parse(sys.argv[1]).getroot().iter('testcase'))
skipped = [c for c in cases if c.get('status') in ('notrun', 'disabled') or c.find('skipped') is not None]
failed = [c for c in cases if c.get('status') == 'fail' or c.find('failure') is not None]
for case in skipped:
    print(f'skipped: {case.get("name")}')
print(f'{len(cases) - len(skipped) - len(failed)} passed, {len(failed)} failed, {len(skipped)} skipped')
PY
exit $status
