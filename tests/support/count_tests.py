#!/usr/bin/env python3
"""Prints the last line of a test run, `N passed, N failed, N skipped`, below the names of skipped tests and the last words of
failed ones, which a long run has scrolled away.

    count_tests.py REPORT [RESULTS]     REPORT: of ctest or pytest, in JUnit's form; RESULTS: a folder with a report of each
                                        GoogleTest program that ctest ran, TEST.xml, whose TESTs count in the program's place
"""

import pathlib
import sys
import xml.etree.ElementTree as tree

LAST_LINES = 60


def reason_of_skip(case):
    """Why a test was skipped; None where it was not."""
    skipped = case.find("skipped")
    if skipped is not None:
        return skipped.get("message") or ""
    return "" if case.get("status") in ("notrun", "disabled") else None


def has_failed(case):
    return case.get("status") == "fail" or case.find("failure") is not None or case.find("error") is not None


def of_program(case, results):
    """The TESTs of a GoogleTest program by name; the program itself where it has no report, since it ended before its last TEST."""
    report = results / f"{case.get('name')}.xml" if results else None
    try:
        inner = list(tree.parse(report).getroot().iter("testcase")) if report else []
    except (OSError, tree.ParseError):
        inner = []
    named = {f"{test.get('classname')}.{test.get('name')}": test for test in inner}
    # A failure that no TEST has: a leak that the sanitizer finds at the process's end.
    if not named or (has_failed(case) and not any(has_failed(test) for test in inner)):
        named[case.get("name")] = case
    return named


def main():
    results = pathlib.Path(sys.argv[2]) if len(sys.argv) > 2 else None
    counts = {"passed": 0, "failed": 0, "skipped": 0}
    for case in tree.parse(sys.argv[1]).getroot().iter("testcase"):
        for name, test in of_program(case, results).items():
            why = reason_of_skip(test)
            if has_failed(test):
                counts["failed"] += 1
                print(f"failed: {name}")
            elif why is not None:
                counts["skipped"] += 1
                print(f"skipped: {name}" + (f": {why}" if why else ""))
            else:
                counts["passed"] += 1
        if has_failed(case):
            print(f"{case.get('name')}:", *(case.findtext("system-out") or "").splitlines()[-LAST_LINES:], sep="\n    ")
    print(", ".join(f"{count} {outcome}" for outcome, count in counts.items()))


if __name__ == "__main__":
    main()
