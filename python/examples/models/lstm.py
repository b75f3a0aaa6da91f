#!/usr/bin/env python3
"""An LSTM that goes on with text, as a file that longwave-worker trains:

    python lstm.py --out lstm.pt
    longwave up configs/presets/longwave.yaml --set model.kind=file --set model.file=lstm.pt --data TEXT
"""

from __future__ import annotations

import saved
import torch
from torch import nn
from torch.nn import functional


class Lstm(nn.Module):
    def __init__(self, vocabulary: int, width: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.lstm = nn.LSTM(width, width, layers, batch_first=True)
        self.head = nn.Linear(width, vocabulary)

    def forward(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Of tokens and their successors, [rows, context] of int64: the mean loss in nats a token."""
        hidden, _ = self.lstm(self.embedding(inputs))
        return functional.cross_entropy(self.head(hidden).flatten(0, 1), targets.flatten())


if __name__ == "__main__":
    args = saved.arguments(__doc__.splitlines()[0], vocabulary=256, width=128, layers=1)
    saved.save(Lstm(args.vocabulary, args.width, args.layers), args.out)
