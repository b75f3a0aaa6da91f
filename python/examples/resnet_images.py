#!/usr/bin/env python3
"""A small ResNet on images in MNIST's IDX format: a folder with one file of images and one of labels, gzipped or not.

    python resnet_images.py --data mnist                           on this machine alone
    python resnet_images.py --data mnist --address host:7070       as a worker of a run
    longwave up --worker-command "python resnet_images.py --data mnist" --set run.workers=2

Its norms are GroupNorm: BatchNorm keeps running means in buffers, which no worker sends to another (docs/python.md).
"""

from __future__ import annotations

import gzip
import pathlib
import struct

import common
import longwave
import torch
from torch import nn
from torch.nn import functional

UNSIGNED_BYTES = 8  # their number in IDX


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


args = common.arguments(__doc__, steps=600, batch=32, channels=16, learning_rate=2e-3, held_out=1000)
images, labels = read_idx(args.data, 3).unsqueeze(1).float() / 255 - 0.5, read_idx(args.data, 1).long()
training = len(images) - args.held_out

torch.manual_seed(1)
model = nn.Sequential(nn.Conv2d(1, args.channels, 3, padding=1), Residual(args.channels, args.channels, 2),
                      Residual(args.channels, 2 * args.channels, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                      nn.Linear(2 * args.channels, 10))
optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate)
generator = common.own_generator(args)
sync = longwave.Sync(model, optimizer, args.address, token=args.token, name=args.name,  # Longwave, 1 of 3
                     state_dir=args.state_dir) if args.address else None

step = 0
while True:
    rows = torch.randint(training, (args.batch,), generator=generator)
    loss = functional.cross_entropy(model(images[rows]), labels[rows])
    loss.backward()
    if sync:
        sync.note(loss)
    optimizer.step()
    optimizer.zero_grad()
    common.report(step, loss.item(), every=50)
    step += 1
    if sync.done if sync else step == args.steps:  # Longwave, 2 of 3
        break
if sync:
    sync.finish()  # Longwave, 3 of 3

with torch.no_grad():
    right = sum((model(batch).argmax(1) == truth).sum().item() for batch, truth in
                zip(images[training:].split(250), labels[training:].split(250)))
print(f"{100 * right / args.held_out:.1f} % of {args.held_out} held-out images are right")
