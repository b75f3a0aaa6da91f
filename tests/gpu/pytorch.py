#!/usr/bin/env python3
"""PyTorch trains our GPT on this machine's GPU, in bf16, for device.sh.

    pytorch.py speed NAME...                   tokens a second of GPT-2 124M, 16 x 1024: adamw, muon, adamw-compile, muon-compile
    pytorch.py loss adamw|muon --text FILE     validation loss of data-parallel training with the global batch of four workers
                [--rate R] [--steps N]         of device.sh's runs (25.6 M parameters, 64 x 512)
"""

import argparse
import math
import pathlib
import sys
import time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "bench/link"))
from ddp_baseline import Gpt  # noqa: E402

WARM_UP, FINAL_SHARE, TRAINED_SHARE = 60, 0.1, 0.95
VALIDATIONS, VALIDATION_ROWS = 64, 16


def orthogonal(gradient):
    x = gradient.bfloat16()
    tall = x.size(0) > x.size(1)
    x = x.T if tall else x
    x = x / (x.norm() + 1e-7)
    for _ in range(5):
        a = x @ x.T
        x = 3.4445 * x + (-4.775 * a + 2.0315 * a @ a) @ x
    return (x.T if tall else x).float()


class AdamW:
    def __init__(self, parameters, rate):
        self.optimizer = torch.optim.AdamW([{"params": [p for p in parameters if p.dim() >= 2], "weight_decay": 0.1},
                                            {"params": [p for p in parameters if p.dim() < 2], "weight_decay": 0.0}],
                                           lr=rate, betas=(0.9, 0.99), fused=True)

    def step(self, rate):
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.optimizer.step()


class Muon:
    """Of the blocks' matrices; AdamW takes the rest."""

    def __init__(self, model, rate):
        self.matrices = [p for name, p in model.named_parameters() if p.dim() == 2 and name.startswith("blocks")]
        ours = {id(p) for p in self.matrices}
        self.rest = AdamW([p for p in model.parameters() if id(p) not in ours], rate)
        self.momenta = [torch.zeros_like(p) for p in self.matrices]

    def step(self, rate):
        self.rest.step(rate)
        with torch.no_grad():
            for parameter, momentum in zip(self.matrices, self.momenta):
                momentum.mul_(0.95).add_(parameter.grad)
                update = orthogonal(parameter.grad + 0.95 * momentum)
                parameter.add_(update, alpha=-rate * 0.2 * math.sqrt(max(parameter.shape)))


def optimizer_of(name, model, rate):
    return Muon(model, rate) if name.startswith("muon") else AdamW(list(model.parameters()), rate)


def train_step(forward, model, optimizer, rate, inputs, targets):
    with torch.autocast("cuda", torch.bfloat16):
        loss = forward(inputs, targets)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step(rate)
    model.zero_grad(set_to_none=True)
    return loss


def speed(names):
    rows, context, vocabulary, steps = 16, 1024, 50304, 8
    figures = []
    for name in names:
        torch.manual_seed(0)
        model = Gpt(768, 12, 12, context, vocabulary).cuda()
        optimizer = optimizer_of(name, model, 1e-4)
        forward = torch.compile(model) if name.endswith("compile") else model
        data = torch.randint(vocabulary, (steps, rows, context + 1), device="cuda")

        def take(count):
            for i in range(count):
                train_step(forward, model, optimizer, 1e-4, data[i, :, :-1], data[i, :, 1:])
            torch.cuda.synchronize()

        take(3)
        began = time.monotonic()
        take(steps)
        figures.append(f"{name} {steps * rows * context / (time.monotonic() - began):.0f} tokens/s")
        print(figures[-1], flush=True)
        del model, optimizer, forward
        torch.cuda.empty_cache()
    print("; ".join(figures))


def loss_of(name, path, best_rate, steps):
    rows, context = 64, 512
    torch.manual_seed(1)
    text = torch.frombuffer(bytearray(pathlib.Path(path).read_bytes()), dtype=torch.uint8).cuda()
    share, window = int(len(text) * TRAINED_SHARE), torch.arange(context + 1, device="cuda")
    model = Gpt(512, 8, 8, context).cuda()
    optimizer = optimizer_of(name, model, best_rate)
    for step in range(steps):
        starts = torch.randint(share - context - 1, (rows, 1), device="cuda")
        batch = text[starts + window].long()
        falls = 0.5 * (1 + math.cos(math.pi * (step - WARM_UP) / (steps - WARM_UP)))
        rate = best_rate * ((step + 1) / WARM_UP if step < WARM_UP else FINAL_SHARE + (1 - FINAL_SHARE) * falls)
        train_step(model, model, optimizer, rate, batch[:, :-1], batch[:, 1:])
    total, room = 0.0, len(text) - share - context - 1
    with torch.no_grad(), torch.autocast("cuda", torch.bfloat16):
        for i in range(VALIDATIONS):
            places = [[share + (i * VALIDATION_ROWS + row) * room // (VALIDATIONS * VALIDATION_ROWS)]
                      for row in range(VALIDATION_ROWS)]
            batch = text[torch.tensor(places, device="cuda") + window].long()
            total += model(batch[:, :-1], batch[:, 1:]).item()
    parameters = sum(p.numel() for p in model.parameters())
    print(f"data-parallel {name}, rate {best_rate}, {steps} steps, {parameters} parameters: validation loss {total / VALIDATIONS:.4f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("speed", "loss"))
    parser.add_argument("names", nargs="+")
    parser.add_argument("--text")
    parser.add_argument("--rate", type=float)
    parser.add_argument("--steps", type=int, default=600)
    args = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("gpu pytorch: no GPU that torch sees; nothing was run")
    if args.what == "speed":
        speed(args.names)
    else:
        for name in args.names:
            loss_of(name, args.text, args.rate or (0.004 if name == "muon" else 0.001), args.steps)


if __name__ == "__main__":
    main()
