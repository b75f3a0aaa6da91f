"""Holds the chart's unit tests to its values: every value that a user may set is set to something else in one.

    switches.py HELM CHART

Those that stay what they are are in the other tests. HELM reads the YAML.
"""

import pathlib
import sys

from schemas import yaml_to_json

# A whole file of values, whose keys are the processes' own.
FREE = {'config'}
# Visible in a certificate, which only tests/helm/check_chart.sh reads; refused otherwise.
ELSEWHERE = {'security.chart.authorityDays'}


def leaves(value, path=()):
    """(path, value) of everything in it that is no non-empty map."""
    if isinstance(value, dict) and value and '.'.join(path) not in FREE:
        for key, inner in value.items():
            yield from leaves(inner, path + (key,))
    else:
        yield '.'.join(path), value


def main():
    helm, chart = sys.argv[1], pathlib.Path(sys.argv[2])
    suites = [path.read_text() for path in sorted((chart / 'tests').glob('*_test.yaml'))]
    values, *suites = yaml_to_json(helm, [(chart / 'values.yaml').read_text(), *suites])
    changed = {}
    for suite in suites:
        for test in suite['tests']:
            if any('failedTemplate' in claim for claim in test['asserts']):
                continue
            for key, value in test.get('set', {}).items():
                for path, leaf in leaves(value, tuple(key.split('.'))):
                    changed.setdefault(path, []).append(leaf)

    def is_tried(path, default):
        return any((tried == path and any(leaf != default for leaf in found)) or tried.startswith(path + '.')
                   for tried, found in changed.items())

    missing = [path for path, default in leaves(values) if path not in ELSEWHERE and not is_tried(path, default)]
    for path in missing:
        print(f'chart: no unit test sets {path}', file=sys.stderr)
    if not changed:
        print('chart: no unit tests found', file=sys.stderr)
    return 1 if missing or not changed else 0


if __name__ == '__main__':
    sys.exit(main())
