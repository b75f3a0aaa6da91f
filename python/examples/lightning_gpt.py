#!/usr/bin/env python3
"""A GPT of PyTorch's own layers as a Lightning module, on a text of yours; a byte is a token.

    python lightning_gpt.py --data text.txt                              on this machine alone
    python lightning_gpt.py --data text.txt --address host:7070          as a worker of a run
    longwave up --worker-command "python lightning_gpt.py --data text.txt" --set run.workers=2

(Not called lightning.py: beside a file of that name nothing could import the package.)
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import common
import lightning
import torch
from longwave.lightning import LongwaveCallback  # Longwave, 1 of 3
from torch import nn
from torch.nn import functional


class Gpt(lightning.LightningModule):
    def __init__(self, args: argparse.Namespace) -> None:
        super().__init__()
        self.args = args
        self.tokens = nn.Embedding(256, args.width)
        self.places = nn.Embedding(args.context, args.width)
        layer = nn.TransformerEncoderLayer(args.width, args.heads, 4 * args.width, dropout=0, activation="gelu",
                                           batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, args.layers, enable_nested_tensor=False)
        self.head = nn.Linear(args.width, 256)

    def training_step(self, window: torch.Tensor, index: int) -> torch.Tensor:
        inputs = window[:, :-1]
        x = self.tokens(inputs) + self.places.weight[:inputs.shape[1]]
        mask = nn.Transformer.generate_square_subsequent_mask(inputs.shape[1], device=inputs.device)
        logits = self.head(self.layers(x, mask=mask, is_causal=True))
        loss = functional.cross_entropy(logits.flatten(0, 1), window[:, 1:].flatten())
        common.report(index, loss.item())
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.AdamW(self.parameters(), lr=self.args.learning_rate, weight_decay=0.1)


class Windows(torch.utils.data.IterableDataset[torch.Tensor]):
    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args

    def __iter__(self) -> Iterator[torch.Tensor]:
        return common.text_batches(self.args)


def main() -> None:
    args = common.arguments(__doc__ or "", steps=600, layers=4, width=128, heads=4, context=128, batch=8,
                            learning_rate=1e-3)
    torch.manual_seed(1)
    callbacks: list[lightning.Callback] = []
    if args.address:
        callbacks.append(LongwaveCallback(args.address, token=args.token, name=args.name,  # Longwave, 2 of 3
                                          state_dir=args.state_dir))
    trainer = lightning.Trainer(max_steps=-1 if args.address else args.steps, accelerator="auto", devices=1,
                                gradient_clip_val=1.0, logger=False, enable_checkpointing=False,
                                enable_progress_bar=False, enable_model_summary=False,
                                callbacks=callbacks)  # Longwave, 3 of 3
    trainer.fit(Gpt(args), torch.utils.data.DataLoader(Windows(args), batch_size=None))


if __name__ == "__main__":
    main()
