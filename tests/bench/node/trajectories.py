#!/usr/bin/env python3
"""Whether a node of ranks learns what a single process does: one training by a process a node, by two ranks under
DistributedDataParallel, and by two ranks under FSDP2, with three seeds.

    tests/bench/node/trajectories.py BUILD --text FILE [--steps 300] [--seeds 3]

Runs by a Python that has torch and longwave. Two nodes with AdamW under the preset longwave_adamw, H 15. A node's ranks
take the halves of its batch, so that all trainings see the same data; gradients differ by the order of their sums alone.
Prints the validation loss of each, and whether the means of the seeds differ by less than the seeds do.
"""

import argparse
import os
import pathlib
import re
import statistics
import sys
import tempfile
import zlib

BENCH = pathlib.Path(__file__).resolve().parents[1]
sys.path += [str(BENCH), str(BENCH / "link")]
from runs import run, words  # noqa: E402

KINDS = {"one process": 1, "ddp": 2, "fsdp": 2}
BATCH, CONTEXT, VALIDATION_BATCHES = 8, 64, 32


def train(kind, text_file, seed):
    import longwave
    import torch
    import torch.distributed as dist
    from ddp_baseline import Gpt, read_text, validation_loss, windows
    from torch.distributed.fsdp import fully_shard

    rank, ranks = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    torch.set_num_threads(1)
    if ranks > 1:
        dist.init_process_group("gloo")
    torch.manual_seed(seed)
    gpt = Gpt(96, 3, 4, CONTEXT)
    if kind == "fsdp":
        for block in gpt.blocks:
            fully_shard(block)
        fully_shard(gpt)
    model = torch.nn.parallel.DistributedDataParallel(gpt) if kind == "ddp" else gpt
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1)
    text = read_text(text_file)
    cut = len(text) * 9 // 10
    draw = torch.Generator().manual_seed(zlib.crc32(f"{seed} {os.environ['LONGWAVE_NAME']}".encode()))
    own = slice(rank * BATCH // ranks, (rank + 1) * BATCH // ranks)
    longwave.set_log_level("warning")
    with longwave.Sync(model, optimizer, os.environ["LONGWAVE_COORDINATOR"], name=os.environ["LONGWAVE_NAME"]) as sync:
        while not sync.done:
            starts = torch.randint(cut - CONTEXT, (BATCH,), generator=draw).tolist()
            loss = model(*windows(text[:cut], starts[own], CONTEXT))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
            sync.note(loss)
    measured = validation_loss(gpt, text[cut:], argparse.Namespace(
        context=CONTEXT, batch=BATCH, validation_batches=VALIDATION_BATCHES))
    if rank == 0:
        print(f"validation loss {measured:.6f}", flush=True)
    if ranks > 1:
        dist.destroy_process_group()


def loss_of(options, kind, seed, folder):
    me = [sys.executable, "-B", pathlib.Path(__file__).resolve()]
    if KINDS[kind] > 1:
        me[1:2] = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", KINDS[kind]]
    program = " ".join(map(str, [*me, options.build, "--text", options.text, "--train", kind.split()[-1], "--seeds", seed]))
    settings = {"run.workers": 2, "run.shards": 1, "run.steps": options.steps, "run.preset": "longwave_adamw",
                "run.name": f"{kind.split()[0]}-{seed}", "sync.inner_steps": 15, "run.start": "member"}
    command = [options.build / "bin/longwave", "up", "--runs-dir", folder, "--worker-command", program]
    run(*command, *words(settings))
    logs = "".join(log.read_text(encoding="utf-8") for log in pathlib.Path(folder).rglob("worker-*.log")
                   if settings["run.name"] in str(log))
    losses = set(re.findall(r"(?m)^validation loss (\d\S+)$", logs))
    if len(losses) != 1:  # both nodes have one model
        raise SystemExit(f"error: {command}\nlosses {losses}\n{logs[-3000:]}")
    return float(losses.pop())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--text", type=pathlib.Path, required=True)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--train", choices=["process", "ddp", "fsdp"], help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.build, options.text = options.build.resolve(), options.text.resolve()
    if options.train:
        train(options.train, options.text, options.seeds)
        return 0
    losses = {}
    with tempfile.TemporaryDirectory() as folder:
        for kind, ranks in KINDS.items():
            losses[kind] = [loss_of(options, kind, seed, folder) for seed in range(1, options.seeds + 1)]
            print(f"{kind}, {ranks} rank{'s' * (ranks > 1)} a node: " + ", ".join(f"{loss:.4f}" for loss in losses[kind]),
                  flush=True)
    reference = losses.pop("one process")
    noise, worst = statistics.stdev(reference), 0.0
    for kind, own in losses.items():
        apart = abs(statistics.mean(own) - statistics.mean(reference))
        worst = max(worst, apart)
        print(f"{kind}: means {apart:.4f} apart, the seeds' standard deviation {noise:.4f}")
    print("within the seeds' noise" if worst < noise else "not within the seeds' noise")
    return 0 if worst < noise else 1


if __name__ == "__main__":
    sys.exit(main())
