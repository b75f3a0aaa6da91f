#!/usr/bin/env python3
"""Prints the last line of a test run, from its report in JUnit's form: `N passed, N failed, N skipped`, below the names
of skipped tests and the last words of failed ones, which a long run has scrolled away."""

import sys
import xml.etree.ElementTree as tree

LAST_LINES = 60


def main():
    cases = list(tree.parse(sys.argv[1]).getroot().iter("testcase"))
    skipped = [c for c in cases if c.get("status") in ("notrun", "disabled") or c.find("skipped") is not None]
    failed = [c for c in cases if c.get("status") == "fail" or c.find("failure") is not None
              or c.find("error") is not None]
    for case in skipped:
        reason = case.find("skipped")
        why = reason.get("message") if reason is not None else None
        print(f"skipped: {case.get('name')}" + (f": {why}" if why else ""))
    for case in failed:
        lines = (case.findtext("system-out") or "").splitlines()
        print(f"failed: {case.get('name')}", *lines[-LAST_LINES:], sep="\n    ")
    print(f"{len(cases) - len(skipped) - len(failed)} passed, {len(failed)} failed, {len(skipped)} skipped")


if __name__ == "__main__":
    main()
