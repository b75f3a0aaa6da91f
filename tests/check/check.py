#!/usr/bin/env python3
"""The checks that a change must pass, on a machine that tools/setup.sh has prepared.

    tests/check/check.py change [--base REV] [--minutes 35]   what every change must pass, then the parts that the change can
                                                              affect, as far as the minutes reach; the rest is owed, and named
    tests/check/check.py all                                  everything (hours), and its figures in docs/checked.md
    tests/check/check.py part NAME…                           parts by their names
    tests/check/check.py list                                 the parts, their minutes and what each depends on

The change is what differs from REV: CI_BASE, or the commit that HEAD and origin/main share if it is another one than HEAD, or
the commit of the last `all` (docs/checked.md). The last line is `N passed, N failed, N skipped`, added up over all steps.
"""

import argparse
import dataclasses
import datetime
import os
import pathlib
import re
import subprocess
import sys
import time

from affected import ROOT, affected, changed, git, texts_of_tree, tracked
from parts import ALL_ONLY, BY_CHANGE, EVERY_CHANGE, SKIPPED, Part

CHECKED = ROOT / "docs/checked.md"
COUNTS = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$")


@dataclasses.dataclass
class Result:
    part: Part
    seconds: int
    passed: int = 0
    failed: int = 0
    skipped: int = 0
    why_skipped: str = ""
    ended_well: bool = True


def run(part, begun):
    """Runs a part's commands one after the other and shows what they print; the first that fails ends the part."""
    print(f"\n== {part.name} ({int(time.monotonic() - begun)} s)", flush=True)
    result, start = Result(part, 0), time.monotonic()
    for command in part.commands:
        last = ""
        with subprocess.Popen(["bash", "-euo", "pipefail", "-c", command], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace") as process:
            for line in process.stdout:
                sys.stdout.write(line)
                sys.stdout.flush()
                last = line.strip() or last
                if counts := COUNTS.match(line.strip()):
                    result.passed += int(counts[1])
                    result.failed += int(counts[2])
                    result.skipped += int(counts[3] or 0)
        if process.returncode == SKIPPED:
            result.why_skipped = last
        elif process.returncode != 0:
            print(f"check: {part.name}: status {process.returncode} of: {command}", flush=True)
            result.ended_well = False
            break
    result.seconds = int(time.monotonic() - start)
    return result


def base_of_change():
    if os.environ.get("CI_BASE"):
        return os.environ["CI_BASE"]
    shared = subprocess.run(["git", "merge-base", "HEAD", "origin/main"], cwd=ROOT, capture_output=True, text=True).stdout.strip()
    if shared and shared != git("rev-parse", "HEAD").strip():
        return shared
    checked = re.search(r"\b[0-9a-f]{40}\b", CHECKED.read_text(encoding="utf-8")) if CHECKED.exists() else None
    return checked[0] if checked else None


def wanted_by(changes):
    """The parts of BY_CHANGE that the change can affect, each with the first file that says so."""
    reached = None if changes is None else affected(changes, texts_of_tree())
    if reached is None:
        return [(part, "a file that every build reads") for part in BY_CHANGE]
    named = [(part, next((name for name in sorted(reached) if name.startswith(part.depends_on)), None)) for part in BY_CHANGE]
    return [(part, name) for part, name in named if name]


def check_change(arguments):
    begun = time.monotonic()
    base = arguments.base or base_of_change()
    changes = changed(base)
    print(f"check: the change is {len(changes)} files that differ from {base[:12]}" if changes is not None
          else f"check: no commit {base or ''} to compare with: every part is affected")
    if changes is not None:
        os.environ["CHECK_BASE"] = base  # for the parts
    results = []
    for part in EVERY_CHANGE:
        results.append(run(part, begun))
        if not results[-1].ended_well:
            return finish(results, begun)
    owed = []
    for part, name in wanted_by(changes):
        minutes = (time.monotonic() - begun) / 60
        if minutes + part.minutes > arguments.minutes:
            owed.append(f"owed: {part.name} ({part.minutes} min): {name}")
            continue
        results.append(run(part, begun))
    if owed:
        print("\n== what this change owes: tests/check/check.py part NAME, or all")
        print(*owed, sep="\n")
    return finish(results, begun)


def finish(results, begun):
    """Prints each part's figures and the sum; gives the exit status."""
    print(f"\n== {int(time.monotonic() - begun)} s in all")
    for result in results:
        words = f"{result.passed} passed, {result.failed} failed, {result.skipped} skipped"
        print(f"{result.seconds:6} s  {result.part.name}: "
              f"{'FAILED, ' if not result.ended_well else ''}{result.why_skipped or words}")
    failed = sum(result.failed for result in results) + sum(not r.ended_well and not r.failed for r in results)
    print(f"{sum(r.passed for r in results)} passed, {failed} failed, {sum(r.skipped for r in results)} skipped")
    return 1 if failed else 0


def check_all(_):
    if git("status", "--porcelain"):
        sys.exit("check: the working tree has changes; what is checked is a commit")
    begun, commit = time.monotonic(), git("rev-parse", "HEAD").strip()
    results = [run(part, begun) for part in EVERY_CHANGE + BY_CHANGE + ALL_ONLY]
    rows = [f"| {r.part.name} | {'passed' if r.ended_well else '**failed**'}{': ' + r.why_skipped if r.why_skipped else ''} "
            f"| {r.passed} | {r.failed} | {r.skipped} | {r.seconds // 60} |" for r in results]
    head = CHECKED.read_text(encoding="utf-8").split("\n## ")[0]
    CHECKED.write_text("\n".join([
        head, f"## {datetime.date.today()}, commit {commit}", "",
        f"`make check-all`, {os.cpu_count()} cores, {int(time.monotonic() - begun) // 60} minutes.", "",
        "| part | | passed | failed | skipped | minutes |", "|---|---|---|---|---|---|", *rows, ""]), encoding="utf-8")
    return finish(results, begun)


def check_parts(arguments):
    parts = {part.name: part for part in EVERY_CHANGE + BY_CHANGE + ALL_ONLY}
    for name in arguments.names:
        if name not in parts:
            sys.exit(f"check: got part {name!r}, wanted one of: {', '.join(parts)}")
    begun = time.monotonic()
    return finish([run(parts[name], begun) for name in arguments.names], begun)


def list_parts(_):
    for title, parts in (("every change", EVERY_CHANGE), ("by change", BY_CHANGE), ("all", ALL_ONLY)):
        for part in parts:
            print(f"{title:12}  {part.minutes:3} min  {part.name}" + (f": {' '.join(part.depends_on)}" if part.depends_on else ""))
    return 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    change = commands.add_parser("change")
    change.add_argument("--base")
    change.add_argument("--minutes", type=float, default=35)
    change.set_defaults(do=check_change)
    commands.add_parser("all").set_defaults(do=check_all)
    part = commands.add_parser("part")
    part.add_argument("names", nargs="+")
    part.set_defaults(do=check_parts)
    commands.add_parser("list").set_defaults(do=list_parts)
    arguments = parser.parse_args()
    sys.exit(arguments.do(arguments))


if __name__ == "__main__":
    main()
