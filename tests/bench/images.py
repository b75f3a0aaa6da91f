#!/usr/bin/env python3
"""Loss and bytes of methods on images, by workers in PyTorch: python/examples/images.py under `longwave up`.

    tests/bench/images.py BUILD --data FOLDER [--table replicators] [--rates 8,32] [--only vit] [--seed 1]

FOLDER has MNIST's IDX files. Run by a Python that has the package, whose workers it starts. `presets`, the default: a ResNet
and a ViT with four workers, 600 steps, H 15. `replicators`: the ViT with two workers, 320 steps, and FlexDeMo's replicators
(arXiv 2502.06728) at several rates: 1/32 is a 32nd of the coefficients at each step, and of DiLoCo a sync at each 32nd step.
Bytes are payload bytes a worker, parameter and step. A round waits for all workers, so that a row has the same figures however
busy the machine is.
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

EXAMPLE = pathlib.Path(__file__).parents[2] / "python/examples/images.py"
WARMUP, TILE = 50, 4096
PATIENT = {"sync.quorum": 1, "cluster.heartbeat_timeout_s": 300, "cluster.start_timeout_s": 1200}
WIDTHS = {"resnet": 32, "vit": 96}


def preset_rows():
    """(model, preset, further settings of the run, optimizer, its learning rate)"""
    run = {"run.workers": 4, "run.steps": 600}
    synced, merged = {**run, "sync.inner_steps": 15}, {**run, "run.start": "seed"}
    for model in ("resnet", "vit"):
        if model == "vit":  # PyTorch's Muon takes matrices, which filters are not
            yield model, "longwave", synced, "muon", 1.5e-2
            yield model, "longwave_thin", synced, "muon", 1.5e-2
        yield model, "longwave_adamw", synced, "adamw", 3e-3
        yield model, "diloco", synced, "adamw", 3e-3
        yield model, "ddp", merged, "merged_adamw", 3e-3


def replicator_rows(rates):
    """Likewise. Replicators have the learning rates that were the best of those tried, at most rates."""
    run = {"run.workers": 2, "run.steps": 320}
    for rate in rates:
        k = {**run, "sync.up.k": TILE // rate}
        yield "vit", "demo", k, "none", 3e-3
        yield "vit", "flexdemo", k, "none", 1e-2
        yield "vit", "flexdemo", {**k, "sync.up.selection": "stride"}, "none", 1e-2
        yield "vit", "diloco", {**run, "sync.inner_steps": rate}, "adamw", 3e-4 if rate < 16 else 1e-3
    yield "vit", "flexdemo", {**run, "sync.up.selection": "all"}, "none", 1e-3
    yield "vit", "ddp", {**run, "run.start": "seed"}, "merged_adamw", 3e-3
    yield "vit", "longwave", {**run, "sync.inner_steps": 16}, "muon", 1e-2


def name_of(model, preset, settings):
    """The row's: what distinguishes it beside its model and preset."""
    different = [f"{key.rpartition('.')[2]} {value}" for key, value in settings.items() if key.startswith("sync.")]
    return ", ".join([model, preset, *different])


def trained(options, folder, model, preset, settings, optimizer, rate):
    """(share of the held-out images that is right, their loss, the run's summary)"""
    worker = [sys.executable, EXAMPLE, "--data", pathlib.Path(options.data).resolve(), "--model", model, "--width", WIDTHS[model],
              "--optimizer", optimizer, "--learning-rate", rate, "--batch", 16, "--held-out", 2000,
              "--steps", settings["run.steps"], "--warmup", WARMUP, "--seed", options.seed]
    # Where the method syncs gradients, the run's learning rate scales them.
    settings = {"run.preset": preset, "run.seed": options.seed, "train.learning_rate": rate, "train.warmup_steps": WARMUP,
                **PATIENT, **settings}
    # The workers share the machine's cores.
    runs.run(options.build.resolve() / "bin/longwave", "up", "--plain", "--name", "run", "--worker-command",
             shlex.join(map(str, worker)), *runs.words(settings), cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1"})
    logs = "".join(path.read_text(encoding="utf-8") for path in sorted(folder.glob("runs/run/logs/worker-*.log")))
    said = re.search(r"([\d.]+) % of \d+ held-out images are right, their loss is ([\d.]+)", logs)
    if not said:
        raise SystemExit(f"error: no worker has looked at the held-out images:\n{logs[-2000:]}")
    return said[1], said[2], json.loads((folder / "runs/run/summary.json").read_text(encoding="utf-8"))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--data", required=True)
    parser.add_argument("--table", choices=["presets", "replicators"], default="presets")
    parser.add_argument("--rates", default="4,8,16,32,64", help="of replicators")
    parser.add_argument("--only", default="", help="the rows whose names contain this")
    parser.add_argument("--seed", type=int, default=1, help="of the weights and of random selections")
    options = parser.parse_args()
    rows = preset_rows() if options.table == "presets" else replicator_rows([int(rate) for rate in options.rates.split(",")])
    print("| run | optimizer, learning rate | held-out loss | right | up | down |\n|---|---|---|---|---|---|", flush=True)
    for row in rows:
        model, preset, settings, optimizer, rate = row
        name = name_of(model, preset, settings)
        if options.only not in name:
            continue
        with tempfile.TemporaryDirectory() as folder:
            right, loss, summary = trained(options, pathlib.Path(folder), *row)
        if not summary["replicas_equal"]:
            raise SystemExit(f"error: {name}: the replicas differ")
        each = settings["run.workers"] * summary["params"] * settings["run.steps"]
        up, down = (summary[f"payload_bytes_{way}"] / each for way in ("pushed", "pulled"))
        print(f"| {name} | {optimizer} {rate:g} | {loss} | {right} % | {up:.4f} | {down:.4f} |", flush=True)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
