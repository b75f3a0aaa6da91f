#!/usr/bin/env python3
"""The cost of security in the demonstration: runs it with security.mode on and off in turns, and compares them in pairs.

    demo_cost.py [LONGWAVE] [--pairs 10] [--steps 120] [--set KEY=VALUE]…

Prints the time from start to end (credentials made, connections opened, trained, ended) and the processor time of all
processes, each with the median over the pairs of on/off and of on − off, and 95 % intervals of these medians, by
resampling the pairs. Which of a pair goes first alternates. A result that differs fails the command: the state hash has
to be the same in all runs. Few steps overstate the share of what is paid once at the start.

The standard library is enough.
"""

import argparse
import json
import pathlib
import random
import resource
import statistics
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))
import runs  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]
WANTED = 0.01
RESAMPLES = 10_000
PAIRS_MIN = 6  # fewer decide nothing: 95 % of six pairs' medians may be all of them


def processor_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(longwave, settings, mode, folder):
    """Seconds, processor seconds and state hash of one run."""
    overrides = [part for setting in (*settings, f"security.mode={mode}") for part in ("--set", setting)]
    begin, used = time.monotonic(), processor_seconds()
    runs.run(longwave, "up", ROOT / "configs/demo.yaml", "--plain", "--runs-dir", folder, "--name", mode, *overrides,
             cwd=ROOT)
    seconds, used = time.monotonic() - begin, processor_seconds() - used
    summary = json.loads((pathlib.Path(folder) / mode / "summary.json").read_text(encoding="utf-8"))
    return seconds, used, summary["state_hash"]


def interval(values):
    """Of the median, 95 %, by drawing as many again and again."""
    draw = random.Random(1)
    medians = sorted(statistics.median(draw.choices(values, k=len(values))) for _ in range(RESAMPLES))
    return medians[RESAMPLES * 25 // 1000], medians[RESAMPLES * 975 // 1000]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("longwave", nargs="?", type=pathlib.Path, default=ROOT / "build/bin/longwave")
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--steps", type=int, default=120)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a setting of the runs")
    options = parser.parse_args()
    if options.pairs < 1:
        parser.error(f"--pairs: got {options.pairs}, wanted at least 1")
    settings = [f"run.steps={options.steps}", *options.set]
    modes, pairs, hashes = ("off", "on"), [], set()
    for number in range(options.pairs):
        found = {}
        for mode in modes if number % 2 == 0 else reversed(modes):
            with tempfile.TemporaryDirectory() as folder:
                *found[mode], state_hash = run(options.longwave, settings, mode, folder)
            hashes.add(state_hash)
        pairs.append(found)
        print(f"pair {number + 1}: " + ", ".join(
            f"{mode} {found[mode][0]:.2f} s ({found[mode][1]:.2f} s of processor)" for mode in modes), flush=True)
    if len(hashes) != 1:
        sys.exit(f"the runs end in different states: {', '.join(sorted(hashes))}")
    for index, what in enumerate(("wall time", "processor time")):
        ratios = [found["on"][index] / found["off"][index] for found in pairs]
        low, high = interval(ratios)
        more = [found["on"][index] - found["off"][index] for found in pairs]
        verdict = "met" if high < 1 + WANTED else "not met" if low > 1 + WANTED else "not decided"
        if len(pairs) < PAIRS_MIN:
            verdict = "not decided"
        print(f"{verdict}: {what} with security over without: {statistics.median(ratios) - 1:+.2%} "
              f"(95 %: {low - 1:+.2%} to {high - 1:+.2%}), wanted less than {WANTED:+.0%}; in seconds "
              "{:+.2f} (95 %: {:+.2f} to {:+.2f})".format(statistics.median(more), *interval(more)))


if __name__ == "__main__":
    main()
