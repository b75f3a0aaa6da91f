#!/usr/bin/env python3
"""Trains the same small GPT with every preset and compares what they learn and what they send.

    tests/bench/compare.py                                all presets, one seed
    tests/bench/compare.py --seeds 3 --data text.txt
    tests/bench/compare.py --presets longwave,diloco --extra sync.up.k=32
    tests/bench/compare.py --device cuda --binary build/release-torch/bin/longwave

Writes build/compare.csv (a line a run), prints a table in Markdown and the checks that the method is
held to, and exits with 1 if one of them fails. The standard library is enough.
"""

import argparse
import csv
import json
import pathlib
import re
import shutil
import statistics
import sys

from runs import run, words

ROOT = pathlib.Path(__file__).resolve().parents[2]
PRESETS = sorted(file.stem for file in (ROOT / "configs/presets").glob("*.yaml"))
INNER_STEPS = 15  # at most, of methods that send pseudo-gradients; the others sync at each step
COLUMNS = ["preset", "seed", "val_loss", "payload_bytes_pushed", "payload_bytes_pulled",
           "wall_seconds"]

# The bounds that the methods must keep: validation loss of a preset less that of another one,
MARGIN_MAX = {("longwave", "diloco"): -0.1, ("longwave_thin", "diloco"): -0.05, ("longwave_adamw", "diloco"): 0.0}
# and diloco's payload bytes up over theirs, and down.
RATIOS_MIN = {"longwave": (120.0, 34.0), "longwave_thin": (200.0, 60.0), "longwave_adamw": (120.0, 34.0)}


def value(config, name):
    """Of a whole configuration; `name` is that of one key alone."""
    return re.search(rf"^  {name}: (\S+)$", config, re.MULTILINE).group(1)


def run_once(options, preset, seed):
    """Runs one preset with one seed; returns its summary, with seed and inner optimizer."""
    name = f"{preset}-seed{seed}"
    folder = options.runs_dir / name
    shutil.rmtree(folder, ignore_errors=True)  # of an earlier comparison
    settings = {"run.preset": preset, "run.seed": seed}
    data = ["--data", options.data] if options.data else []
    config = run(options.binary, "config", "print", "--set", f"preset={preset}")
    if int(value(config, "inner_steps")) > INNER_STEPS:
        settings["sync.inner_steps"] = INNER_STEPS
    if options.device:
        settings["train.device"] = options.device
    settings |= dict(setting.split("=", 1) for setting in options.extra)
    run(options.binary, "up", options.config, "--plain", "--no-state", "--name", name,
        "--runs-dir", options.runs_dir, *data, *words(settings))
    summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    summary["seed"] = seed
    summary["optimizer"] = value((folder / "config.yaml").read_text(encoding="utf-8"), "optimizer")
    return summary


def mean(runs, field):
    return statistics.fmean(run[field] for run in runs)


def per_parameter_and_round(runs, field):
    return statistics.fmean(run[field] / (run["params"] * run["rounds"] * run["workers"])
                            for run in runs)


def table(results):
    """Markdown: a line a preset, means over its seeds."""
    def over(preset, field, smaller):
        if preset not in results or not smaller:
            return "-"
        times = mean(results[preset], field) / smaller
        return f"{times:.1f}" if times < 100 else f"{times:.0f}"

    lines = ["| preset | seeds | rounds | validation loss | payload up, MB | B/param/round | diloco ÷ "
             "| ddp ÷ | payload down, MB | B/param/round | diloco ÷ | ddp ÷ | seconds |",
             "|---|---|---|---|---|---|---|---|---|---|---|---|---|"]
    for preset, runs in results.items():
        losses = [run["val_loss"] for run in runs]
        spread = f" ± {statistics.stdev(losses):.3f}" if len(losses) > 1 else ""
        line = f"| {preset} | {len(runs)} | {runs[0]['rounds']} | {statistics.fmean(losses):.3f}{spread} "
        for field in ("payload_bytes_pushed", "payload_bytes_pulled"):
            sent = mean(runs, field)
            line += (f"| {sent / 1e6:.3f} | {per_parameter_and_round(runs, field):.4f} "
                     f"| {over('diloco', field, sent)} | {over('ddp', field, sent)} ")
        lines.append(f"{line}| {mean(runs, 'wall_seconds'):.0f} |")
    return "\n".join(lines)


def checks(results):
    """(passed, sentence) for each check that the given presets permit."""
    loss = {preset: mean(runs, "val_loss") for preset, runs in results.items()}
    found = []
    optimizer = results["ddp"][0]["optimizer"] if "ddp" in loss else None
    others = {preset: each for preset, each in loss.items()
              if preset != "ddp" and results[preset][0]["optimizer"] == optimizer}
    if others:
        other = min(others, key=others.get)
        found.append((loss["ddp"] < others[other],
                      f"ddp ends lowest with {optimizer}: {loss['ddp']:.3f}, next {other} {others[other]:.3f}"))
    for (preset, other), most in MARGIN_MAX.items():
        if preset not in loss or other not in loss:
            continue
        margin = loss[preset] - loss[other]
        found.append((margin <= most, f"{preset} less {other}, wanted at most {most}: {loss[preset]:.3f} less "
                                      f"{loss[other]:.3f} is {margin:+.3f}"))
    for preset, (pushed_min, pulled_min) in RATIOS_MIN.items():
        if preset not in loss or "diloco" not in loss:
            continue
        for field, way, least in (("payload_bytes_pushed", "up", pushed_min),
                                  ("payload_bytes_pulled", "down", pulled_min)):
            times = mean(results["diloco"], field) / mean(results[preset], field)
            found.append((times >= least,
                          f"{preset} sends at least {least:.0f} times fewer payload bytes {way} "
                          f"than diloco: {times:.1f} times"))
    return found


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--presets", default=",".join(PRESETS), help="comma-separated")
    parser.add_argument("--seeds", type=int, default=1, help="runs of each preset, seeds 1, 2, ...")
    parser.add_argument("--data", default="", help="text to train on [the headers of this machine's compiler]")
    parser.add_argument("--extra", action="append", default=[], metavar="KEY=VALUE",
                        help="a setting for every run; may be repeated")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), help="train.device [the configuration's]")
    parser.add_argument("--config", type=pathlib.Path, default=ROOT / "configs" / "compare.yaml")
    parser.add_argument("--binary", type=pathlib.Path, default=ROOT / "build" / "bin" / "longwave")
    parser.add_argument("--runs-dir", type=pathlib.Path, default=ROOT / "build" / "compare")
    options = parser.parse_args()
    options.presets = [preset for preset in options.presets.split(",") if preset]
    unknown = [preset for preset in options.presets if preset not in PRESETS]
    if unknown or not options.presets:
        parser.error(f"--presets: got {','.join(unknown) or 'none'}, wanted some of "
                     f"{','.join(PRESETS)}")
    if options.seeds < 1:
        parser.error(f"--seeds: got {options.seeds}, wanted at least 1")
    return options


def compare(options):
    if options.data and not pathlib.Path(options.data).exists():
        raise SystemExit(f"compare: failed: --data: got {options.data}, which does not exist")
    if not options.binary.exists():
        raise SystemExit(f"compare: failed: {options.binary} is not there: build it first (make build)")
    (ROOT / "build").mkdir(exist_ok=True)
    results = {preset: [] for preset in options.presets}
    with (ROOT / "build/compare.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, COLUMNS, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        for seed in range(1, options.seeds + 1):
            for preset in options.presets:
                summary = run_once(options, preset, seed)
                results[preset].append(summary)
                writer.writerow(summary)
                file.flush()
                print(f"compare: {preset}, seed {seed}: validation loss {summary['val_loss']:.3f}, "
                      f"{summary['wall_seconds']:.0f} s", file=sys.stderr, flush=True)
    print(table(results))
    print()
    found = checks(results)
    for passed, sentence in found:
        print(f"{'pass' if passed else 'FAIL'}  {sentence}")
    return all(passed for passed, _ in found)


def main():
    try:
        passed = compare(parse_arguments())
    except KeyboardInterrupt:
        return 130
    print("compare: all checks passed" if passed else "compare: failed: a check did not pass")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
