#!/usr/bin/env python3
"""A small vision transformer, as a file that longwave-worker trains; its defaults are for MNIST's images:

    python vit.py --out vit.pt
    longwave up configs/images.yaml --set model.kind=file --set model.file=vit.pt --data FOLDER
"""

from __future__ import annotations

import saved
import torch
from torch import nn
from torch.nn import functional


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows, length, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(rows, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        scores = qkv[0] @ qkv[1].transpose(-2, -1) / (width // self.heads) ** 0.5
        x = x + self.out((scores.softmax(-1) @ qkv[2]).transpose(1, 2).reshape(rows, length, width))
        return x + self.mlp(self.norm2(x))


class Vit(nn.Module):
    def __init__(self, channels: int, image_size: int, classes: int, patch: int, width: int, layers: int,
                 heads: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(channels, width, patch, stride=patch)
        self.positions = nn.Parameter(0.02 * torch.randn((image_size // patch) ** 2, width))
        self.blocks = nn.Sequential(*[Block(width, heads) for _ in range(layers)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Of pixels, [rows, channels, size, size], and classes, [rows]: the mean loss in nats an image."""
        x = self.patches(inputs).flatten(2).transpose(1, 2) + self.positions
        return functional.cross_entropy(self.head(self.norm(self.blocks(x)).mean(1)), targets)


if __name__ == "__main__":
    args = saved.arguments(__doc__.splitlines()[0], channels=1, image_size=28, classes=10, patch=4, width=64, layers=4,
                           heads=4)
    saved.save(Vit(args.channels, args.image_size, args.classes, args.patch, args.width, args.layers, args.heads),
               args.out)
