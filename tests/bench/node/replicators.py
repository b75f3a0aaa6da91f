#!/usr/bin/env python3
"""The cost of what a node sends: FlexDeMo's replicators (arXiv 2502.06728) at several rates, of a GPT.

    tests/bench/node/replicators.py BUILD --text FILE [--rates 4,32] [--mbit 10]

Two nodes. A rate of 1/32 is a 32nd of the coefficients at each step, and of DiLoCo a sync at each 32nd. A line of the
table has the validation loss after 320 steps and the payload bytes a parameter and step, up and down, by `bench_loss`:
a node has the bits of a single device, whatever its ranks. Of the learning rates tried, the best one's loss stands
there. With --mbit the table has the seconds of a step instead, of nodes of one process on links of that rate, by
`bench_link`, which needs root; all processes share this machine's cores.
"""

import argparse
import json
import pathlib
import re
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from runs import run, words  # noqa: E402

STEPS, TIMED_STEPS, TILE = 320, 16, 4096
RUN = {"run.workers": 2, "run.steps": STEPS, "train.warmup_steps": 50, "run.validation_batches": 32}
GPT = {"model.kind": "gpt", "model.d_model": 96, "model.layers": 3, "model.heads": 4, "model.context": 64, "train.batch": 8}


def rows(rates):
    """(replicator, rate, settings, learning rates to try)"""
    for rate in rates:
        k = {"sync.up.k": TILE // rate}
        yield "demo", rate, {"run.preset": "demo", **k}, (1e-3, 3e-3)
        yield "random", rate, {"run.preset": "flexdemo", **k}, (3e-3, 1e-2)
        yield "stride", rate, {"run.preset": "flexdemo", "sync.up.selection": "stride", **k}, (3e-3, 1e-2)
        yield "diloco", rate, {"run.preset": "diloco", "sync.inner_steps": rate}, (3e-4, 1e-3, 3e-3)
    yield "full", 1, {"run.preset": "flexdemo", "sync.up.selection": "all"}, (3e-4, 1e-3)
    yield "`ddp` (AdamW)", 1, {"run.preset": "ddp"}, (1e-3, 3e-3)
    yield "`longwave`, H 16", 16, {"run.preset": "longwave", "sync.inner_steps": 16}, (6e-3, 1e-2)


def best(options, row, learning_rates, empty):
    """(validation loss, bytes up, down, learning rate) of the rate that ends lowest; bytes a parameter and step."""
    inner_steps, outcomes = row.get("sync.inner_steps", 1), []
    for rate in learning_rates:
        line = run(options.build / "bin/bench_loss", empty, "--data", options.text,
                   *words(RUN, GPT, row, {"train.learning_rate": rate}))
        loss, up, down = map(float, re.match(r"loss (\S+)  up (\S+)  down (\S+)", line).groups())
        outcomes.append((loss, up / inner_steps, down / inner_steps, rate))
    return min(outcomes)


def seconds_a_step(options, row, folder):
    inner_steps = row.get("sync.inner_steps", 1)
    rounds = max(1, TIMED_STEPS // inner_steps)
    figures = folder / "figures.json"
    run(options.build / "bin/bench_link", "--quick", "--rates", options.mbit, "--rounds", rounds, "--baselines", "none",
        "--data", options.text, "--runs-dir", folder, "--json", figures,
        *words({"sync.inner_steps": 1}, GPT, row, {"run.workers": 2, "train.threads": 1, "train.warmup_steps": 0}))
    shaped, _ = json.loads(figures.read_text(encoding="utf-8"))["runs"]
    return shaped["seconds_to_target"] / (rounds * inner_steps)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--text", required=True)
    parser.add_argument("--rates", default="4,8,16,32,64")
    parser.add_argument("--only", default="", help="the rows whose names contain this")
    parser.add_argument("--mbit", type=float, default=0, help="of the nodes' links; 0: losses")
    options = parser.parse_args()
    measures = f"s a step at {options.mbit:g} Mbit/s" if options.mbit else "loss (learning rate), bytes up, down"
    print(f"| replicator | rate | {measures} |\n|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        empty = pathlib.Path(folder) / "empty.yaml"
        empty.write_text("{}\n", encoding="utf-8")
        for name, rate, row, learning_rates in rows([int(rate) for rate in options.rates.split(",")]):
            if options.only not in name:
                continue
            if options.mbit:
                cell = f"{seconds_a_step(options, row, pathlib.Path(folder)):.2f}"
            else:
                loss, up, down, learning_rate = best(options, row, learning_rates, empty)
                cell = f"{loss:.3f} ({learning_rate:g}), {up:.4f}, {down:.4f}"
            print(f"| {name} | 1/{rate} | {cell} |", flush=True)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
