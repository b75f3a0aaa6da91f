#!/usr/bin/env python3
"""Loss and bytes of methods that tune a pretrained model: python/examples/lora_hf.py under `longwave up`.

    tests/bench/lora.py BUILD --model FOLDER --rows rows.jsonl [--workers 2] [--seeds 1] [--steps 150] [--inner-steps 30]
        [--batch 1] [--context 128] [--rank 16] [--rate 1e-3] [--only longwave]

Run by a Python that has the package, transformers and peft, whose workers it starts. The row `alone` is one process whose batch
is that of all workers, so that it sees as many tokens; the other rows' losses are compared with it. Bytes are payload bytes a
worker, parameter and --inner-steps steps, without what the start sends once (the adapter's first weights), and `÷` is how many
times more 4-bit DiLoCo sends, both ways together. longwave_lora has its preset's own H. A round waits for all workers, so that a
row has the same figures however busy the machine is.
"""

import argparse
import json
import os
import pathlib
import re
import shlex
import sys
import tempfile

import runs

EXAMPLE = pathlib.Path(__file__).parents[2] / "python/examples/lora_hf.py"
PATIENT = {"train.warmup_steps": 10, "sync.quorum": 1, "cluster.heartbeat_timeout_s": 300, "cluster.start_timeout_s": 1200}
FOUR_BITS = 2 * (4096 * 4 / 8 + 2) / 4096  # of 4-bit DiLoCo: the values and a scale for each 4096 of them, up and down
ARMS = {
    "diloco in 4 bit": {"run.preset": "muloco_int4", "train.optimizer": "adamw"},
    "diloco": {"run.preset": "diloco"},
    "longwave_adamw": {"run.preset": "longwave_adamw"},
    "longwave": {"run.preset": "longwave"},
    "longwave_lora": {"run.preset": "longwave_lora", "sync.inner_steps": 15},
}


def held_out(log):
    said = re.search(r"^held-out loss after: ([\d.]+)$", log, re.MULTILINE)
    if not said:
        raise SystemExit(f"error: no process has looked at the held-out rows:\n{log[-2000:]}")
    return float(said[1])


def command(options, seed, batch):
    return [sys.executable, EXAMPLE, "--model", options.model.resolve(), "--data", options.rows.resolve(), "--batch", batch,
            "--context", options.context, "--rank", options.rank, "--learning-rate", options.rate, "--steps", options.steps,
            "--seed", seed]


def alone(options, seed, environment):
    return held_out(runs.run(*command(options, seed, options.batch * options.workers), env=environment))


def synced(options, seed, settings, environment):
    """(held-out loss, payload bytes up and down a worker, parameter and --inner-steps steps, seconds a step)"""
    settings = {"run.workers": options.workers, "run.shards": 1, "run.steps": options.steps, "run.seed": seed,
                "sync.inner_steps": options.inner_steps, **PATIENT, **settings}
    with tempfile.TemporaryDirectory() as place:
        runs.run(options.build.resolve() / "bin/longwave", "up", "--plain", "--name", "run", "--worker-command",
                 shlex.join(map(str, command(options, seed, options.batch))), *runs.words(settings), cwd=place, env=environment)
        folder = pathlib.Path(place, "runs/run")
        summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
        if not summary["replicas_equal"]:
            raise SystemExit(f"error: {settings['run.preset']}, seed {seed}: the replicas differ")
        loss = held_out((folder / "logs/worker-0.log").read_text(encoding="utf-8"))
        rounds = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
    # A line counts from the run's beginning. The first round also has the weights that the run begins with.
    each = (len(rounds) - 1) * options.workers * summary["params"] * settings["sync.inner_steps"] / options.inner_steps
    up, down = ((rounds[-1][name] - rounds[0][name]) / each for name in ("payload_bytes_pushed", "payload_bytes_pulled"))
    return loss, up, down, summary["wall_seconds"] / options.steps


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--model", type=pathlib.Path, required=True, help="a folder or a GGUF file")
    parser.add_argument("--rows", type=pathlib.Path, required=True)
    for name, default in {"workers": 2, "seeds": 1, "steps": 150, "inner-steps": 30, "batch": 1, "context": 128, "rank": 16,
                          "rate": 1e-3}.items():
        parser.add_argument(f"--{name}", type=type(default), default=default, help=f"[{default}]")
    parser.add_argument("--only", default="", help="the arms whose names contain this")
    options = parser.parse_args()
    chosen = {name: settings for name, settings in ARMS.items() if options.only in name}
    if options.steps < 2 * options.inner_steps:
        parser.error(f"--steps: got {options.steps}, wanted two rounds, {2 * options.inner_steps}")
    if not chosen:
        parser.error(f"--only: got {options.only}, wanted a part of {', '.join(ARMS)}")
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}  # the workers share the machine's cores
    environment.pop("LONGWAVE_COORDINATOR", None)  # of a run that `alone` would join
    print("| run | seed | held-out loss | above alone | up | down | ÷ | s a step |\n|---|---|---|---|---|---|---|---|", flush=True)
    for seed in range(1, options.seeds + 1):
        reference = alone(options, seed, environment)
        print(f"| alone | {seed} | {reference:.4f} | | | | | |", flush=True)
        for name, settings in chosen.items():
            loss, up, down, seconds = synced(options, seed, settings, environment)
            print(f"| {name} | {seed} | {loss:.4f} | {100 * (loss / reference - 1):+.2f} % | {up:.4f} | {down:.4f} | "
                  f"{FOUR_BITS / (up + down):.1f} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
