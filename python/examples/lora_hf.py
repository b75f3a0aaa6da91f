#!/usr/bin/env python3
"""LoRA of a pretrained language model of transformers, on rows of text or chat: the adapter alone is trained and synced.

    python lora_hf.py --model FOLDER --data rows.jsonl --out adapter                         on this machine alone
    python lora_hf.py --model FOLDER --data rows.jsonl --out adapter --address host:7070     as a worker of a run
    longwave up --worker-command "python lora_hf.py --model FOLDER --data rows.jsonl --out adapter" \\
      --set run.workers=2 --set preset=longwave_lora

--model: a folder, a name on the hub, or a GGUF file. The adapter is what PeftModel.from_pretrained reads; --merged FOLDER
also saves the model with the adapter in its weights. --four-bit holds the base in 4 bit (QLoRA; needs bitsandbytes).
"""

from typing import Any, cast

import tuning
from peft import LoraConfig, get_peft_model

args = tuning.arguments(__doc__, rank=16, alpha=32, targets="all-linear", learning_rate=2e-4, merged="", four_bit=False)
options = {}
if args.four_bit:
    from transformers import BitsAndBytesConfig

    options["quantization_config"] = BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type="nf4")
base, tokenizer = tuning.load(args, **options)
targets = args.targets if args.targets == "all-linear" else args.targets.split(",")
model = get_peft_model(base, LoraConfig(r=args.rank, lora_alpha=args.alpha, target_modules=targets, task_type="CAUSAL_LM"))
if tuning.tune(model, tokenizer, args):
    if args.out:
        model.save_pretrained(args.out)
        tokenizer.save_pretrained(args.out)
    if args.merged:
        cast(Any, model).merge_and_unload().save_pretrained(args.merged)
        tokenizer.save_pretrained(args.merged)
