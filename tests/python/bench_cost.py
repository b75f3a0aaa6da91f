#!/usr/bin/env python3
"""Longwave's cost for a training loop: the share of its time that is spent in Sync.step, which is all that Longwave does on
the loop's thread: counting, encoding, waiting for the shards, decoding, applying. Prints a line of JSON; the bar is 1 %.

    build/python/env/bin/python tests/python/bench_cost.py [--layers 6] [--width 368] [--batch 8] [--rounds 3] [--bar 1]

starts a coordinator, a shard and itself as the worker (`longwave up`), with H = 30 and a GPT-2 of 10 M parameters unless
said otherwise. One worker, so that nobody else's time is in it.
"""

import argparse
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).parents[2]
BIN = pathlib.Path(os.environ.get("LONGWAVE_BIN", ROOT / "build/bin"))
INNER_STEPS = 30
CONTEXT = 128


def work(args):
    import longwave
    import torch
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.set_num_threads(args.threads)
    model = GPT2LMHeadModel(GPT2Config(vocab_size=256, n_positions=CONTEXT, n_embd=args.width, n_layer=args.layers,
                                       n_head=4, bos_token_id=0, eos_token_id=0)).to(args.device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    sync = longwave.Sync(model, optimizer, hook=False)
    inside, begin = [], time.perf_counter()
    while not sync.done:
        tokens = torch.randint(256, (args.batch, CONTEXT), device=args.device)
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if args.device != "cpu":
            torch.cuda.synchronize()
        before = time.perf_counter()
        sync.step(loss=loss.item())
        if args.device != "cpu":
            torch.cuda.synchronize()
        inside.append(time.perf_counter() - before)
        if len(inside) == 1:  # the first step's memory and threads are not counted
            inside, begin = [0.0], time.perf_counter()
    seconds, steps, total = time.perf_counter() - begin, len(inside), sum(inside)
    print("cost " + json.dumps({
        "parameters": sum(parameter.numel() for parameter in model.parameters()), "device": args.device,
        "inner_steps": INNER_STEPS, "steps": steps, "seconds": round(seconds, 3),
        "milliseconds_a_step": round(1000 * (seconds - total) / steps, 1),
        "microseconds_in_longwave_of_a_step_without_a_sync": round(1e6 * statistics.median(inside)),
        "milliseconds_a_round_in_longwave": round(1000 * total / (steps / INNER_STEPS), 2),
        "percent_in_longwave": round(100 * total / seconds, 3)}))
    sync.finish()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in {"layers": 6, "width": 368, "batch": 8, "rounds": 3, "threads": os.cpu_count() or 1}.items():
        parser.add_argument("--" + name, type=int, default=default, help=f"[{default}]")
    parser.add_argument("--device", default="cpu", help="cpu or cuda [cpu]")
    parser.add_argument("--bar", type=float, default=1, help="percent of the loop's time, at most [1]")
    args = parser.parse_args()
    if "LONGWAVE_COORDINATOR" in os.environ:
        work(args)
        return 0
    with tempfile.TemporaryDirectory() as runs:
        done = subprocess.run(
            [BIN / "longwave", "up", "--worker-command", shlex.join([sys.executable, *sys.argv]), "--runs-dir", runs,
             "--name", "cost", "--set", "run.workers=1", "--set", "run.shards=1", "--set",
             f"sync.inner_steps={INNER_STEPS}", "--set", f"run.steps={INNER_STEPS * args.rounds}"],
            capture_output=True, text=True, check=False)
        log = pathlib.Path(runs, "cost/logs/worker-0.log").read_text(encoding="utf-8")
    lines = [line.removeprefix("cost ") for line in log.splitlines() if line.startswith("cost ")]
    if done.returncode != 0 or not lines:
        print(done.stdout + done.stderr + log, file=sys.stderr)
        return 1
    print(lines[-1])
    return 0 if json.loads(lines[-1])["percent_in_longwave"] <= args.bar else 1


if __name__ == "__main__":
    sys.exit(main())
