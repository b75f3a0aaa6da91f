#!/usr/bin/env python3
"""A small ResNet or vision transformer on images in MNIST's IDX format: a folder with one file of images and one of
labels, gzipped or not.

    python images.py --data mnist                           on this machine alone
    python images.py --data mnist --address host:7070       as a worker of a run
    longwave up --worker-command "python images.py --data mnist" --set preset=longwave_adamw --set run.workers=2

--model resnet or vit. --optimizer adamw, or muon for the hidden matrices of the ViT and AdamW for the rest, which suits the
preset longwave; in a run whose method syncs gradients merged_adamw (ddp), or none where the run's update is the optimizer
(demo, flexdemo).

The ResNet's norms are GroupNorm: BatchNorm keeps running means in buffers, which no worker sends to another
(docs/how-to/python.md).
"""

from __future__ import annotations

import argparse
import gzip
import math
import pathlib
import struct

import common
import longwave
import torch
from torch import nn
from torch.nn import functional

UNSIGNED_BYTES = 8  # their number in IDX
PATCH = 7  # pixels of a side


def read_idx(folder: str, dimensions: int) -> torch.Tensor:
    """The array of unsigned bytes with so many dimensions: 3 for images, 1 for labels."""
    for path in sorted(path for path in pathlib.Path(folder).glob("*") if path.is_file()):
        content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        if content[:4] != bytes([0, 0, UNSIGNED_BYTES, dimensions]):
            continue
        shape = struct.unpack_from(f">{dimensions}I", content, 4)
        return torch.frombuffer(bytearray(content[4 + 4 * dimensions:]), dtype=torch.uint8).view(shape)
    raise SystemExit(f"error: {folder} has no IDX file of unsigned bytes in {dimensions} dimensions; wanted MNIST's "
                     "two files, such as t10k-images-idx3-ubyte.gz and t10k-labels-idx1-ubyte.gz")


class Residual(nn.Module):
    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels_in, channels, 3, stride, padding=1, bias=False), nn.GroupNorm(4, channels), nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.GroupNorm(4, channels))
        self.shortcut = nn.Conv2d(channels_in, channels, 1, stride, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return functional.relu(self.body(x) + self.shortcut(x))


def resnet(width: int) -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, width, 3, padding=1), Residual(width, width, 2), Residual(width, 2 * width, 2),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(2 * width, 10))


class Vit(nn.Module):
    def __init__(self, width: int, layers: int, size: int) -> None:
        super().__init__()
        self.patches = nn.Conv2d(1, width, PATCH, stride=PATCH)
        self.positions = nn.Parameter(0.02 * torch.randn((size // PATCH) ** 2, width))
        self.blocks = nn.Sequential(*(
            nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0, activation="gelu", batch_first=True, norm_first=True)
            for _ in range(layers)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        x = self.patches(images).flatten(2).transpose(1, 2) + self.positions
        return self.head(self.norm(self.blocks(x)).mean(1))


def optimizers_of(args: argparse.Namespace, model: nn.Module) -> list[torch.optim.Optimizer]:
    """The optimizers in the order in which they step: longwave.Sync takes the last one."""
    parameters = list(model.parameters())
    if args.optimizer == "none":
        return [longwave.Optimizer(parameters)]
    hidden = [parameter for name, parameter in model.named_parameters() if "blocks" in name and parameter.dim() == 2]
    if args.optimizer != "muon":
        hidden = []
    others = [parameter for parameter in parameters if not any(parameter is other for other in hidden)]
    adamw = torch.optim.AdamW(others, lr=args.learning_rate, betas=(0.9, 0.99), weight_decay=0.1)
    if args.optimizer == "merged_adamw":
        return [longwave.Optimizer(parameters, inner=adamw, clip_norm=1)]
    if not hidden:
        return [adamw]
    # With this scale AdamW's learning rate and weight decay carry over.
    return [torch.optim.Muon(hidden, lr=args.learning_rate, weight_decay=0.1, adjust_lr_fn="match_rms_adamw"), adamw]


def share_of_rate(step: int) -> float:
    """Of the learning rate: a warm-up, then a cosine down to a tenth at --steps."""
    done = min(1.0, step / args.steps)
    return min((step + 1) / args.warmup, 0.55 + 0.45 * math.cos(math.pi * done))


args = common.arguments(__doc__, model="resnet", optimizer="adamw", steps=600, warmup=50, batch=32, width=16, layers=4,
                        learning_rate=2e-3, held_out=1000, seed=1)
images, labels = read_idx(args.data, 3).unsqueeze(1).float() / 255 - 0.5, read_idx(args.data, 1).long()
training = len(images) - args.held_out

torch.manual_seed(args.seed)
model = resnet(args.width) if args.model == "resnet" else Vit(args.width, args.layers, images.shape[2])
optimizers = optimizers_of(args, model)
schedules = [torch.optim.lr_scheduler.LambdaLR(optimizer, share_of_rate) for optimizer in optimizers]
generator = common.own_generator(args)
sync = longwave.Sync(model, optimizers[-1], args.address, token=args.token, name=args.name,  # Longwave, 1 of 3
                     state_dir=args.state_dir) if args.address else None

step = 0
while not sync.done if sync else step < args.steps:  # Longwave, 2 of 3
    rows = torch.randint(training, (args.batch,), generator=generator)
    loss = functional.cross_entropy(model(images[rows]), labels[rows])
    loss.backward()
    if sync:
        sync.note(loss)
    for optimizer, schedule in zip(optimizers, schedules):
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    common.report(step, loss.item(), every=50)
    step += 1
if sync:
    sync.finish()  # Longwave, 3 of 3

model.eval()
with torch.no_grad():
    logits = torch.cat([model(batch) for batch in images[training:].split(250)])
truth = labels[training:]
right = (logits.argmax(1) == truth).sum().item()
print(f"{100 * right / args.held_out:.2f} % of {args.held_out} held-out images are right, their loss is "
      f"{functional.cross_entropy(logits, truth).item():.4f}")
