#!/usr/bin/env python3
"""A GPT in forty lines and its training loop, on a text of yours; a byte is a token.

    python nanogpt.py --data text.txt                              on this machine alone
    python nanogpt.py --data text.txt --address host:7070          as a worker of a run
    longwave up --worker-command "python nanogpt.py --data text.txt" --set run.workers=2
    torchrun --standalone --nproc-per-node 2 nanogpt.py --data text.txt --address host:7070 --name me
                                                                   as a worker of two processes
"""

from __future__ import annotations

import math

import common
import longwave
import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    """Attention and a network beside each other on one norm, as in GPT-J."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width, bias=False)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.up = nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(5 * width, width, bias=False)  # of both

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        normed = self.norm(x)
        q, k, v = (part.unflatten(2, (self.heads, -1)).transpose(1, 2) for part in self.qkv(normed).chunk(3, dim=2))
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.down(torch.cat([mixed.transpose(1, 2).flatten(2), functional.gelu(self.up(normed))], dim=2))


class NanoGpt(nn.Module):
    def __init__(self, layers: int, width: int, heads: int, context: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(256, width)
        self.position = nn.Parameter(torch.zeros(context, width))
        self.blocks = nn.Sequential(*(Block(width, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(width, bias=False)
        self.head = nn.Linear(width, 256, bias=False)
        self.head.weight = self.embedding.weight  # tied: Longwave sends it once
        for name, parameter in self.named_parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02 / math.sqrt(2 * layers) if "down" in name else 0.02)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embedding(tokens) + self.position[:tokens.shape[1]]
        return self.head(self.norm(self.blocks(x)))


args = common.arguments(__doc__, steps=1000, layers=4, width=128, heads=4, context=128, batch=8,
                        learning_rate=2e-3, warmup=50)
torch.manual_seed(1)
model = common.of_all_ranks(NanoGpt(args.layers, args.width, args.heads, args.context))
optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate, betas=(0.9, 0.99), weight_decay=0.1)
scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / args.warmup))
sync = longwave.Sync(model, optimizer, args.address, token=args.token, name=args.name,  # Longwave, 1 of 3
                     state_dir=args.state_dir,
                     keep={"optimizer": optimizer, "scheduler": scheduler}) if args.address else None

batches, step = common.text_batches(args), 0
while not sync.done if sync else step < args.steps:  # Longwave, 2 of 3
    window = next(batches)
    logits = model(window[:, :-1])
    loss = functional.cross_entropy(logits.flatten(0, 1), window[:, 1:].flatten())
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    if sync:
        sync.note(loss)
    optimizer.step()
    scheduler.step()
    optimizer.zero_grad()
    common.report(step, loss.item())
    step += 1
if sync:
    sync.finish()  # Longwave, 3 of 3
