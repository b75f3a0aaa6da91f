#!/usr/bin/env python3
"""`longwave plan` against real runs over shaped links: bytes at the sockets and seconds of a sync.

    sudo tests/bench/link/plan_against_runs.py BUILD --text TEXT [--cells longwave:10,diloco:100] [--shards 1]

Each cell is a run of `bench_link` (PRESET:MBIT). The plan takes inner steps, encoding and decoding from the run without
shaped links that `bench_link` makes beside it, measures merge and disk itself, and is given the links. The bars: bytes within
1 %, seconds of syncs within 10 %. A worker counts as syncing while it waits for a slower one's inner steps, so the run's
seconds are those of the worker that waited least; on a busy machine even they have some of it. The exit status is 0
whatever the figures.
"""

import argparse
import json
import pathlib
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from runs import run, words  # noqa: E402

# Inner steps of little work: a round is its sync. A model with 39 million parameters, or 10 where all of them are sent.
SETTINGS = {"train.optimizer": "adamw", "model.context": 16, "train.batch": 1, "train.warmup_steps": 1, "train.threads": 1,
            "sync.inner_steps": 2, "run.validation_batches": 1, "model.layers": 8, "model.heads": 8}
WIDTHS = {"longwave": 640, "longwave_thin": 640, "longwave_adamw": 640}  # others: 320
BYTES_OFF_MAX, SECONDS_OFF_MAX = 0.01, 0.10


def measure(args, preset, mbit, folder):
    """The figures of the shaped run, and the folder of the unshaped one."""
    own = {"preset": preset, "model.d_model": WIDTHS.get(preset, 320), "run.workers": args.workers, "run.shards": args.shards}
    run(args.build / "bin/bench_link", "--data", args.text, "--rates", mbit, "--rounds", args.rounds, "--baselines", "none",
        "--runs-dir", folder, "--json", folder / "link.json", *words(SETTINGS, own))
    figures = json.loads((folder / "link.json").read_text(encoding="utf-8"))
    shaped, = (one for one in figures["runs"] if one["mbit"] == mbit)
    unshaped, = (path.parent for path in folder.glob("**/config.yaml") if path.parent.name == f"{preset}-0")
    return shaped, unshaped


def plan(args, preset, mbit, unshaped):
    link = f"{mbit:g}Mbit"
    links = [word for option in ("--up", "--down", "--shard-up", "--shard-down") for word in (option, link)]
    report = json.loads(run(args.build / "bin/longwave", "plan", "--from", unshaped, "--methods", preset, "--no-state", "--json",
                            *links))
    method, = report["methods"]
    return method


def off(planned, measured):
    return planned / measured - 1


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--text", type=pathlib.Path, required=True)
    parser.add_argument("--cells", default="longwave:100,longwave:10,diloco:100,diloco:10")
    parser.add_argument("--workers", type=int, default=4)
    parser.add_argument("--shards", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=4)
    args = parser.parse_args()
    for cell in args.cells.split(","):
        preset, rate = cell.split(":")
        with tempfile.TemporaryDirectory() as folder:
            shaped, unshaped = measure(args, preset, float(rate), pathlib.Path(folder))
            planned = plan(args, preset, float(rate), unshaped)
        workers = shaped["workers"]
        seconds = min(one["seconds_syncing"] for one in workers) / shaped["rounds"]
        rows = [(f"bytes {way}", planned["bytes_run"][way], sum(one[f"socket_bytes_{way}"] for one in workers), BYTES_OFF_MAX)
                for way in ("up", "down")]
        rows.append(("seconds of a sync", planned["sync_seconds"], seconds, SECONDS_OFF_MAX))
        for name, ours, theirs, bar in rows:
            print(f"{preset}, {rate} Mbit/s, {args.workers} workers, {args.shards} shards: {name}: plan {ours:.6g}, run {theirs:.6g}, "
                  f"{off(ours, theirs):+.2%}: {'met' if abs(off(ours, theirs)) <= bar else 'not met'}", flush=True)
        print("  " + ", ".join(f"{part['part']} {part['seconds']:.2f}" for part in planned["sync_parts"]) +
              f"; binds: {planned['binds']}", flush=True)


if __name__ == "__main__":
    main()
