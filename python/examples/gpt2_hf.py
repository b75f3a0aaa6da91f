#!/usr/bin/env python3
"""GPT-2 of Hugging Face's transformers, from random weights, on a text of yours; a byte is a token.

    python gpt2_hf.py --data text.txt                              on this machine alone
    python gpt2_hf.py --data text.txt --address host:7070          as a worker of a run
    longwave up --worker-command "python gpt2_hf.py --data text.txt" --set run.workers=2
"""

import common
import longwave
import torch
from transformers import GPT2Config, GPT2LMHeadModel

args = common.arguments(__doc__, steps=600, layers=6, width=256, heads=4, context=128, batch=8,
                        learning_rate=1e-3)
torch.manual_seed(1)
model = GPT2LMHeadModel(GPT2Config(vocab_size=256, n_positions=args.context, n_embd=args.width, n_layer=args.layers,
                                   n_head=args.heads, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
                                   bos_token_id=0, eos_token_id=0))
optimizer = torch.optim.AdamW(model.parameters(), lr=args.learning_rate, weight_decay=0.1)
sync = longwave.Sync(model, optimizer, args.address, token=args.token, name=args.name,  # Longwave, 1 of 3
                     state_dir=args.state_dir) if args.address else None

batches, step = common.text_batches(args), 0
while not sync.done if sync else step < args.steps:  # Longwave, 2 of 3
    window = next(batches)
    tokens = window[:, :-1]  # the model shifts its labels itself
    loss = model(input_ids=tokens, labels=tokens).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    if sync:
        sync.note(loss)
    optimizer.step()
    optimizer.zero_grad()
    common.report(step, loss.item())
    step += 1
if sync:
    sync.finish()  # Longwave, 3 of 3
