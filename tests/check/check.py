#!/usr/bin/env python3
"""The checks that a change must pass, on a machine that tools/setup.sh has prepared.

    tests/check/check.py change [--base REV] [--minutes 35]   what every change must pass, then the parts that the change can
                                                              affect, as far as the minutes reach; the rest is owed, and named
    tests/check/check.py all [--minutes N]                    everything (hours), the part whose last pass is the oldest first,
                                                              as far as the minutes reach
    tests/check/check.py part NAME…                           parts by their names
    tests/check/check.py list                                 the parts, their minutes and what each depends on

`all` and `part` write each part's figures into its row of docs/reference/checked.md, with the commit. What a part has not seen is what
differs from REV, or from the commit at which it last passed. The last line is `N passed, N failed, N skipped`, added up over
all steps.
"""

import argparse
import dataclasses
import datetime
import functools
import math
import os
import re
import subprocess
import sys
import time

from affected import ROOT, affected, changed, git, has, texts_of_tree
from parts import ALL_ONLY, BY_CHANGE, EVERY_CHANGE, SKIPPED, Part

CHECKED = ROOT / "docs/reference/checked.md"
COLUMNS = ("part", "last passed at", "date", "passed", "skipped", "minutes")
COMMIT = re.compile(r"[0-9a-f]{40}")
PARTS = EVERY_CHANGE + BY_CHANGE + ALL_ONLY
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


def run(part, begun, base=None):
    """Runs a part's commands one after the other and shows what they print; the first that fails ends the part.

    CHECK_BASE is `base` for the commands, or the commit at which the part last passed; empty if the clone does not have it.
    """
    since = base or checked().get(part.name, [None, None])[1]
    environment = dict(os.environ, CHECK_BASE=since if has(since) else "")
    print(f"\n== {part.name} ({int(time.monotonic() - begun)} s)", flush=True)
    result, start = Result(part, 0), time.monotonic()
    for command in part.commands:
        last = ""
        with subprocess.Popen(["bash", "-euo", "pipefail", "-c", command], cwd=ROOT, env=environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace") as process:
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


def checked():
    """The rows of docs/reference/checked.md, the cells of each by its part's name; the part's last pass is at cells[1]."""
    text = CHECKED.read_text(encoding="utf-8") if CHECKED.exists() else ""
    rows = (line.strip("| ").split(" | ") for line in text.splitlines())
    return {cells[0]: cells for cells in rows if len(cells) == len(COLUMNS) and COMMIT.fullmatch(cells[1])}


def record(result, commit):
    """Writes a part's figures into its row. A part that failed or could not run keeps the row of its last pass."""
    if not result.ended_well or result.failed or result.why_skipped:
        return
    rows = checked()
    rows[result.part.name] = [str(cell) for cell in (
        result.part.name, commit, datetime.date.today(), result.passed, result.skipped, round(result.seconds / 60))]
    lines = [" | ".join(rows[part.name]) for part in PARTS if part.name in rows]
    head = CHECKED.read_text(encoding="utf-8").split("\n|")[0].rstrip("\n")
    CHECKED.write_text("\n".join([head, "", f"| {' | '.join(COLUMNS)} |", "|---" * len(COLUMNS) + "|", *(f"| {line} |" for line in lines), ""]),
                       encoding="utf-8")


def wanted_by(base):
    """The parts of BY_CHANGE that what they have not seen can affect, each with its base and the first file that says so."""
    texts, rows = texts_of_tree(), checked()

    @functools.cache
    def reached_since(commit):
        changes = changed(commit)
        return None if changes is None else affected(changes, texts)

    wanted = []
    for part in BY_CHANGE:
        since = base or (rows[part.name][1] if part.name in rows else None)
        reached = reached_since(since)
        if reached is None:
            wanted.append((part, since, "a file that every build reads" if since else "it has not passed yet"))
        elif name := next((name for name in sorted(reached) if name.startswith(part.depends_on)), None):
            wanted.append((part, since, name))
    return wanted


def check_change(arguments):
    begun = time.monotonic()
    results = []
    for part in EVERY_CHANGE:
        results.append(run(part, begun))
        if not results[-1].ended_well:
            return finish(results, begun)
    owed = []
    for part, base, name in wanted_by(arguments.base):
        minutes = (time.monotonic() - begun) / 60
        if minutes + part.minutes > arguments.minutes:
            owed.append(f"owed: {part.name} ({part.minutes} min): {name}")
            continue
        results.append(run(part, begun, base))
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


def check_and_record(parts, minutes):
    clean = all(line.endswith(f" {CHECKED.relative_to(ROOT)}") for line in git("status", "--porcelain").splitlines())
    if not clean:
        print("check: the working tree has changes: docs/reference/checked.md, which names a commit, stays as it is")
    begun, commit, results = time.monotonic(), git("rev-parse", "HEAD").strip(), []
    for part in parts:
        if (time.monotonic() - begun) / 60 + part.minutes <= minutes:
            results.append(run(part, begun))
            if clean:
                record(results[-1], commit)
        else:
            print(f"\ncheck: not begun, since {minutes:.0f} minutes do not reach: {part.name} ({part.minutes} min)")
    return finish(results, begun)


def check_all(arguments):
    rows = checked()

    def last_pass(part):  # how many commits ago; a part that never passed, or on another history, comes first
        commit = rows[part.name][1] if part.name in rows else ""
        there = subprocess.run(["git", "rev-list", "--count", f"{commit}..HEAD"], cwd=ROOT, capture_output=True, text=True)
        return -int(there.stdout) if commit and there.returncode == 0 else -sys.maxsize
    return check_and_record(sorted(PARTS, key=last_pass), arguments.minutes)


def check_parts(arguments):
    parts = {part.name: part for part in PARTS}
    for name in arguments.names:
        if name not in parts:
            sys.exit(f"check: got part {name!r}, wanted one of: {', '.join(parts)}")
    return check_and_record([parts[name] for name in arguments.names], math.inf)


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
    every = commands.add_parser("all")
    every.add_argument("--minutes", type=float, default=math.inf)
    every.set_defaults(do=check_all)
    part = commands.add_parser("part")
    part.add_argument("names", nargs="+")
    part.set_defaults(do=check_parts)
    commands.add_parser("list").set_defaults(do=list_parts)
    arguments = parser.parse_args()
    sys.exit(arguments.do(arguments))


if __name__ == "__main__":
    main()
