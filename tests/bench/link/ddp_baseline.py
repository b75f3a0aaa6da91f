#!/usr/bin/env python3
"""The baseline of `bench_link`: the same GPT trained by PyTorch's DistributedDataParallel over gloo.

One process is one rank. Architecture, initialisation, batch, AdamW, clipping, warm-up and validation windows are
those of Longwave's worker (worker/models/gpt.cc, worker/trainer); only the order of the batches differs. Rank 0
writes a line of JSON to standard output for each step and each validation:

    {"step": 10, "seconds": 1.23, "train_loss": 2.9, "sent": 5, "received": 5}
                                                               this step's, all of it; bytes of its interface
    {"step": 10, "validation_loss": 2.7}
    {"done": true, "reached": true, "step": 10}                reached: the target loss was, at this step
"""

import argparse
import datetime
import inspect
import json
import math
import os
import sys
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F

VOCABULARY = 256
NEAR = 0.2  # of the target: from here on every step is validated


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.attn_in, self.attn_out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.fc_in, self.fc_out = nn.Linear(d, 4 * d), nn.Linear(4 * d, d)

    def forward(self, x):
        rows, length, d = x.shape
        q, k, v = (part.view(rows, length, self.heads, d // self.heads).transpose(1, 2)
                   for part in self.attn_in(self.ln_1(x)).split(d, dim=2))
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attn_out(mixed.transpose(1, 2).reshape(rows, length, d))
        return x + self.fc_out(F.gelu(self.fc_in(self.ln_2(x))))


class Gpt(nn.Module):
    """Embedding and output share one matrix, as in the worker's model."""

    def __init__(self, d, layers, heads, context, vocabulary=VOCABULARY):
        super().__init__()
        self.tokens, self.places = nn.Embedding(vocabulary, d), nn.Embedding(context, d)
        self.blocks = nn.ModuleList(Block(d, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(d)
        for name, parameter in self.named_parameters():
            if parameter.dim() < 2:
                nn.init.constant_(parameter, 1.0 if "ln_" in name and name.endswith("weight") else 0.0)
            else:
                into_stream = "attn_out" in name or "fc_out" in name
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * layers) if into_stream else 0.02)

    def forward(self, inputs, targets):
        x = self.tokens(inputs) + self.places.weight[:inputs.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = F.linear(self.ln_f(x), self.tokens.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def read_text(path):
    """A file, or a folder's files in the order of their names, as the worker reads them."""
    if os.path.isdir(path):
        files = sorted(os.path.join(folder, name) for folder, _, names in os.walk(path) for name in names)
    else:
        files = [path]
    text = bytearray()
    for name in files:
        with open(name, "rb") as file:
            text += file.read()
    return torch.frombuffer(text, dtype=torch.uint8)


def windows(text, starts, length):
    rows = torch.stack([text[start:start + length + 1] for start in starts]).long()
    return rows[:, :-1], rows[:, 1:]


def validation_loss(model, text, args):
    """Over windows spread evenly, the worker's own."""
    starts, count = len(text) - args.context, args.validation_batches * args.batch
    total = 0.0
    with torch.no_grad():
        for index in range(args.validation_batches):
            batch = [(index * args.batch + row) * starts // count for row in range(args.batch)]
            total += model(*windows(text, batch, args.context)).item()
    return total / args.validation_batches


def interface_bytes():
    """(sent, received) of the interface that gloo was given, as the kernel counts them; None without one."""
    name = os.environ.get("GLOO_SOCKET_IFNAME", "")
    with open("/proc/net/dev", encoding="ascii") as file:
        for line in file:
            interface, _, figures = line.partition(":")
            if name and interface.strip() == name:
                return int(figures.split()[8]), int(figures.split()[0])
    return None


def data_parallel(model):
    """Every rank starts from the same seed: where DDP can be told so, its first broadcast is left out."""
    same_start = {"init_sync": False} if "init_sync" in inspect.signature(
        nn.parallel.DistributedDataParallel).parameters else {}
    return nn.parallel.DistributedDataParallel(model, **same_start)


def train(args):
    torch.set_num_threads(args.threads)
    torch.manual_seed(args.seed)  # the same start on every rank
    model = Gpt(args.d_model, args.layers, args.heads, args.context)
    parameters = sum(parameter.numel() for parameter in model.parameters())
    if parameters != args.parameters:
        raise SystemExit(f"error: the model has {parameters} parameters, Longwave's {args.parameters}")
    replica = data_parallel(model)
    optimizer = torch.optim.AdamW(
        [{"params": [p for p in model.parameters() if p.dim() >= 2], "weight_decay": args.weight_decay},
         {"params": [p for p in model.parameters() if p.dim() < 2], "weight_decay": 0.0}],
        lr=args.learning_rate, betas=(args.beta1, args.beta2), eps=args.epsilon)
    text = read_text(args.data)
    train_size = math.floor(len(text) * (1 - args.validation_share))
    training, validation = text[:train_size], text[train_size:]
    draw = torch.Generator().manual_seed(args.seed * 1_000_003 + args.rank)
    say = (lambda **line: print(json.dumps(line), flush=True)) if args.rank == 0 else (lambda **line: None)

    reached, near = torch.zeros(1), torch.zeros(1)
    step = above = 0  # above: the last step that was validated and has not reached the target
    while step < args.steps and not reached.item():
        begin, before = time.monotonic(), interface_bytes()
        for group in optimizer.param_groups:
            group["lr"] = args.learning_rate * min(1.0, (step + 1) / max(1, args.warmup_steps))
        starts = torch.randint(len(training) - args.context, (args.batch,), generator=draw).tolist()
        optimizer.zero_grad(set_to_none=True)
        loss = replica(*windows(training, starts, args.context))
        loss.backward()
        if args.clip_norm > 0:
            nn.utils.clip_grad_norm_(model.parameters(), args.clip_norm)
        optimizer.step()
        step += 1
        seconds, after = time.monotonic() - begin, interface_bytes()
        moved = {"sent": after[0] - before[0], "received": after[1] - before[1]} if before else {}
        say(step=step, seconds=seconds, train_loss=loss.item(), **moved)
        if args.validate_every and (near.item() or step % args.validate_every == 0 or step == args.steps):
            if args.rank == 0:
                measured = validation_loss(model, validation, args)
                say(step=step, validation_loss=measured)
                reached.fill_(float(measured <= args.target))
                near.fill_(float(near.item() or measured <= args.target + NEAR))
                if not reached.item():
                    above = step
            dist.broadcast(reached, 0)
            dist.broadcast(near, 0)
    # Where several steps lie between the two last validations, the first of them is taken to have reached it.
    say(done=True, reached=bool(reached.item()), step=above + 1 if reached.item() else step)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, kind in {"rank": int, "world": int, "master": str, "port": int, "data": str, "seed": int,
                       "d-model": int, "layers": int, "heads": int, "context": int, "parameters": int,
                       "batch": int, "learning-rate": float, "warmup-steps": int, "beta1": float,
                       "beta2": float, "epsilon": float, "weight-decay": float, "clip-norm": float,
                       "threads": int, "steps": int, "validation-share": float,
                       "validation-batches": int}.items():
        parser.add_argument("--" + name, type=kind, required=True)
    parser.add_argument("--validate-every", type=int, default=0, help="in steps, far from the target; 0: never")
    parser.add_argument("--target", type=float, default=-math.inf, help="ends at this validation loss")
    parser.add_argument("--timeout", type=float, default=120, help="seconds of a collective: then its peer is dead")
    args = parser.parse_args()
    timeout = datetime.timedelta(seconds=args.timeout)
    store = dist.TCPStore(args.master, args.port, args.world, is_master=args.rank == 0, timeout=timeout)
    dist.init_process_group("gloo", store=store, rank=args.rank, world_size=args.world, timeout=timeout)
    train(args)
    dist.destroy_process_group()


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
