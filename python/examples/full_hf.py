#!/usr/bin/env python3
"""Tunes all weights of a pretrained language model of transformers, on rows of text or chat.

    python full_hf.py --model FOLDER --data rows.jsonl --out tuned                           on this machine alone
    python full_hf.py --model FOLDER --data rows.jsonl --out tuned --address host:7070       as a worker of a run
    longwave up --worker-command "python full_hf.py --model FOLDER --data rows.jsonl --out tuned" \\
      --set run.workers=2 --set preset=longwave_adamw

--model: a folder, a name on the hub, or a GGUF file.
"""

import tuning

args = tuning.arguments(__doc__, learning_rate=2e-5)
model, tokenizer = tuning.load(args)
if tuning.tune(model, tokenizer, args) and args.out:
    model.save_pretrained(args.out)
    tokenizer.save_pretrained(args.out)
