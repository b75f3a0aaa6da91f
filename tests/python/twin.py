#!/usr/bin/env python3
"""A worker whose model is longwave-worker's: transformers' GPT-2 has the same tensors under the same names. It takes
that program's arguments, as far as tests give them."""

import argparse
import json
import pathlib

import longwave
import torch
from torch.nn import functional
from transformers import GPT2Config, GPT2Model

VOCABULARY = 256


def main():
    parser = argparse.ArgumentParser()
    for name in ("config", "coordinator", "name", "state-dir", "data"):
        parser.add_argument("--" + name, required=True)
    args = parser.parse_args()
    config = json.loads(pathlib.Path(args.config).read_text(encoding="utf-8"))
    shape, batch = config["model"], config["train"]["batch"]
    model = GPT2Model(GPT2Config(
        vocab_size=VOCABULARY, n_positions=shape["context"], n_embd=shape["d_model"], n_layer=shape["layers"],
        n_head=shape["heads"], activation_function="gelu", resid_pdrop=0, embd_pdrop=0, attn_pdrop=0))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    text = torch.frombuffer(bytearray(pathlib.Path(args.data).read_bytes()), dtype=torch.uint8)
    sync = longwave.Sync(model, optimizer, args.coordinator, name=args.name, state_dir=args.state_dir,
                         keep={"optimizer": optimizer})
    while not sync.done:
        starts = torch.randint(len(text) - shape["context"], (batch,)).tolist()
        window = torch.stack([text[start:start + shape["context"] + 1] for start in starts]).long()
        hidden = model(input_ids=window[:, :-1]).last_hidden_state
        logits = functional.linear(hidden, model.wte.weight)
        loss = functional.cross_entropy(logits.flatten(0, 1), window[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        sync.note(loss, tokens=batch * shape["context"])
    sync.finish()


if __name__ == "__main__":
    main()
