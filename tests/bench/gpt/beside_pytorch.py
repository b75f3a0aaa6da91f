#!/usr/bin/env python3
"""Tokens a second of our GPT beside the same model in PyTorch, on the same device in the same run.

    beside_pytorch.py BENCH_GPT --data TEXT [--threads N] [--device cpu|cuda] [--turns N] [--steps N]
                      [--set key=value]...

Both begin with our weights and train on the same batches with AdamW: forward, backward, clipping, optimizer. They take
turns of a few steps, and who does not have the turn waits. The first turn warms up; losses after it that differ by more
than 0.1 % fail the command. Slowness never does. Prints tokens a second of wall and of processor time, each side's best turn, and the
median over the turns of ours over PyTorch's.
"""

import argparse
import array
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "link"))
from ddp_baseline import Gpt, read_text, windows  # noqa: E402

RATE, BETAS, EPSILON, DECAY, CLIP = 1e-3, (0.9, 0.99), 1e-8, 0.1, 1.0
WANTED = 0.95


def tensors_of(model):
    """(parameter, whether ours is its transpose), in the order of our manifest."""
    yield model.tokens.weight, False
    yield model.places.weight, False
    for block in model.blocks:
        for name in ("ln_1", "attn_in", "attn_out", "ln_2", "fc_in", "fc_out"):
            part = getattr(block, name)
            yield part.weight, part.weight.dim() == 2
            yield part.bias, False
    yield model.ln_f.weight, False
    yield model.ln_f.bias, False


def load(model, path):
    flat, begin = torch.frombuffer(bytearray(path.read_bytes()), dtype=torch.float32), 0
    with torch.no_grad():
        for parameter, transposed in tensors_of(model):
            shape = parameter.shape[::-1] if transposed else parameter.shape
            values = flat[begin:begin + parameter.numel()].view(shape)
            parameter.copy_(values.T if transposed else values)
            begin += parameter.numel()
    if begin != flat.numel():
        raise SystemExit(f"error: PyTorch's model has {begin} parameters, ours {flat.numel()}")


class Ours:
    """bench_gpt, which takes steps when it is told to."""

    def __init__(self, args, folder, batches):
        (folder / "batches").write_bytes(array.array("q", batches.flatten().tolist()).tobytes())
        settings = [f"model.d_model={args.d_model}", f"model.layers={args.layers}", f"model.heads={args.heads}",
                    f"model.context={args.context}", f"train.batch={args.batch}", f"train.threads={args.threads}",
                    f"train.device={args.device}", "train.optimizer=adamw", f"train.learning_rate={RATE}",
                    f"train.beta1={BETAS[0]}", f"train.beta2={BETAS[1]}", f"train.epsilon={EPSILON}",
                    f"train.weight_decay={DECAY}", f"train.clip_norm={CLIP}", *args.set]
        command = [args.bench, "--batches", folder / "batches", "--weights", folder / "weights"]
        for setting in settings:
            command += ["--set", setting]
        self.process = subprocess.Popen([str(part) for part in command], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        self.parameters = self.line()[0]
        self.weights = folder / "weights"

    def line(self):
        text = self.process.stdout.readline()
        if not text:
            raise SystemExit(f"error: bench_gpt ended with {self.process.wait()}")
        return text.split()

    def take(self, steps):
        self.process.stdin.write(f"{steps}\n")
        self.process.stdin.flush()
        wall, processor, loss = map(float, self.line())
        return wall, processor, loss


class PyTorch:
    def __init__(self, args, weights, batches):
        torch.set_num_threads(args.threads)
        self.model = Gpt(args.d_model, args.layers, args.heads, args.context)
        load(self.model, weights)
        self.model.to(args.device)
        parameters = list(self.model.parameters())
        self.optimizer = torch.optim.AdamW(
            [{"params": [p for p in parameters if p.dim() >= 2], "weight_decay": DECAY},
             {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0}],
            lr=RATE, betas=BETAS, eps=EPSILON, fused=True)
        self.batches, self.device, self.step = batches, args.device, 0

    def take(self, steps):
        wall, processor = time.monotonic(), time.process_time()
        for _ in range(steps):
            batch = self.batches[self.step % len(self.batches)].to(self.device)
            self.step += 1
            self.optimizer.zero_grad(set_to_none=True)
            loss = self.model(batch[:, :-1], batch[:, 1:])
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), CLIP)
            self.optimizer.step()
        last = loss.item()
        return time.monotonic() - wall, time.process_time() - processor, last


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bench")
    parser.add_argument("--data", required=True)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--set", action="append", default=[], help="of ours alone")
    for name, default in {"threads": 1, "turns": 7, "steps": 4, "d-model": 320, "layers": 8, "heads": 8,
                          "context": 128, "batch": 8}.items():
        parser.add_argument("--" + name, type=int, default=default)
    args = parser.parse_args()
    text, draw = read_text(args.data), torch.Generator().manual_seed(1)
    starts = torch.randint(len(text) - args.context, (args.steps * args.batch,), generator=draw).tolist()
    inputs, targets = windows(text, starts, args.context)
    batches = torch.cat([inputs, targets[:, -1:]], dim=1).view(args.steps, args.batch, args.context + 1)
    with tempfile.TemporaryDirectory() as folder:
        ours = Ours(args, pathlib.Path(folder), batches)
        pytorch = PyTorch(args, ours.weights, batches)
        print(f"{ours.parameters} parameters, {args.threads} threads on {args.device}, batch {args.batch} x "
              f"{args.context}; PyTorch {torch.__version__}; steps a turn: {args.steps}")
        sides = {"ours": [], "pytorch": []}
        for turn in range(args.turns + 1):
            # Each side begins every other turn.
            order = [("ours", ours), ("pytorch", pytorch)]
            results = {name: side.take(args.steps) for name, side in (order if turn % 2 else order[::-1])}
            losses = {name: result[2] for name, result in results.items()}
            if turn == 0:
                print(f"losses after the first {args.steps} steps: {losses}")
                # Another model or optimizer differs at once; equal ones drift apart by rounding, later.
                if abs(losses["ours"] - losses["pytorch"]) > 1e-3 * losses["pytorch"]:
                    raise SystemExit("error: the losses differ")
                continue
            for name, result in results.items():
                sides[name].append(result)
        ours.process.stdin.close()
        ours.process.wait()
    tokens = args.steps * args.batch * args.context
    for at, clock in enumerate(("wall", "processor")):
        best = {name: tokens / min(result[at] for result in results) for name, results in sides.items()}
        ratio = statistics.median(theirs[at] / mine[at] for mine, theirs in zip(sides["ours"], sides["pytorch"]))
        print(f"{clock} time: ours {best['ours']:.0f} tokens/s, PyTorch {best['pytorch']:.0f} (best turns: "
              f"{best['ours'] / best['pytorch']:.3f}); median of {args.turns} turns {ratio:.3f}, wanted {WANTED}: "
              f"{'met' if ratio >= WANTED else 'not met'}")


if __name__ == "__main__":
    main()
