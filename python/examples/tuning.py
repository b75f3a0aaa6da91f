"""The common part of lora_hf.py and full_hf.py: a pretrained model, rows of text or chat, and windows of their tokens."""

from __future__ import annotations

import argparse
import json
import math
import os
import pathlib
from collections.abc import Iterator
from typing import Any, cast

import common
import longwave
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerBase

TYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


def arguments(description: str, **defaults: object) -> argparse.Namespace:
    return common.arguments(description, model="", out="", dtype="auto", context=512, batch=4, steps=300, warmup=10,
                            checkpointing=False, held_out=0.02, seed=0, **defaults)


def load(args: argparse.Namespace, **options: object) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The model of a folder, of a name on the hub, or of a GGUF file, which is dequantized; and its tokenizer. dtype auto:
    bfloat16 on a GPU, else float32. options: of from_pretrained."""
    if not args.model:
        raise SystemExit("error: --model: got none, wanted a folder, a name on the hub, or a GGUF file")
    place, file = pathlib.Path(args.model), {}
    if place.suffix == ".gguf":
        place, file = place.parent, {"gguf_file": place.name}
    device = "cuda" if torch.cuda.is_available() else "cpu"
    name = args.dtype if args.dtype != "auto" else "bfloat16" if device == "cuda" else "float32"
    if name not in TYPES:
        raise SystemExit(f"error: --dtype: got {name}, wanted auto or one of {', '.join(TYPES)}")
    torch.manual_seed(args.seed)  # an adapter's first weights
    tokenizer = AutoTokenizer.from_pretrained(str(place), **file)
    model = AutoModelForCausalLM.from_pretrained(str(place), dtype=TYPES[name], **file, **options)
    model.config.use_cache = False  # of generation
    if args.checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
        model.enable_input_require_grads()
    if "quantization_config" not in options:
        cast(Any, model).to(device)
    return model, tokenizer


def read_rows(path: str, tokenizer: PreTrainedTokenizerBase) -> list[list[int]]:
    """The tokens of each line of a JSONL file: {"messages": [{"role": …, "content": …}, …]}, {"prompt": …, "completion": …}
    or {"text": …}. A file with another ending is one text."""
    if not path.endswith(".jsonl"):
        return [tokenizer(pathlib.Path(path).read_text(encoding="utf-8"), verbose=False)["input_ids"]]
    rows = []
    with open(path, encoding="utf-8") as lines:
        for number, line in enumerate(lines, 1):
            if not line.strip():
                continue
            try:
                rows.append(_tokens_of(json.loads(line), tokenizer))
            except (ValueError, TypeError, KeyError, AttributeError) as error:
                raise SystemExit(f"error: {path}:{number}: {error}") from None
    return rows


def _tokens_of(row: dict[str, Any], tokenizer: PreTrainedTokenizerBase) -> list[int]:
    if "messages" in row:
        tokens: Any = tokenizer.apply_chat_template(row["messages"], tokenize=True, return_dict=False)
        return list(tokens)
    text = row["text"] if "text" in row else f"{row['prompt']}{row['completion']}" if "prompt" in row else None
    if not isinstance(text, str):
        raise ValueError(f'got the keys {", ".join(map(repr, row))}, wanted "messages", "text", or "prompt" and "completion"')
    return [*tokenizer(text)["input_ids"], tokenizer.eos_token_id]


class Windows:
    """All rows in a row, cut into windows: [windows, context + 1] of int64. The last share held_out of them is not trained
    on."""

    def __init__(self, args: argparse.Namespace, tokenizer: PreTrainedTokenizerBase) -> None:
        stream = torch.tensor([token for row in read_rows(args.data, tokenizer) for token in row])
        count = (len(stream) - 1) // args.context
        held_out = math.ceil(count * args.held_out)
        if count - held_out < args.batch:
            raise SystemExit(f"error: {args.data} has {len(stream)} tokens, wanted at least "
                             f"{(args.batch + 1) * args.context + 1} for a batch of {args.batch} windows")
        windows = stream[:count * args.context + 1].unfold(0, args.context + 1, args.context)
        self.trained, self.held_out = windows[:count - held_out], windows[count - held_out:]
        self._args = args

    def batches(self) -> Iterator[torch.Tensor]:
        """The worker's own order, without end."""
        generator = common.own_generator(self._args)
        generator.manual_seed(generator.initial_seed() + self._args.seed)
        while True:
            order = torch.randperm(len(self.trained), generator=generator)
            for at in range(0, len(order) - self._args.batch + 1, self._args.batch):
                yield self.trained[order[at:at + self._args.batch]]


def loss_of(model: torch.nn.Module, windows: torch.Tensor) -> torch.Tensor:
    windows = windows.to(next(model.parameters()).device)
    return model(input_ids=windows, labels=windows).loss  # the model shifts its labels itself


@torch.no_grad()
def held_out_loss(model: torch.nn.Module, windows: Windows) -> float:
    model.eval()
    losses = [loss_of(model, part).item() * len(part) for part in windows.held_out.split(4)]
    model.train()
    return sum(losses) / len(windows.held_out)


def tune(model: torch.nn.Module, tokenizer: PreTrainedTokenizerBase, args: argparse.Namespace) -> bool:
    """Trains alone, or as a worker. Whether this process is to save the model: under `longwave up` one of those that have
    the same."""
    windows = Windows(args, tokenizer)
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    print(f"trains {sum(p.numel() for p in trained):,} of {sum(p.numel() for p in model.parameters()):,} parameters, "
          f"{len(windows.trained)} windows of {args.context} tokens", flush=True)
    print(f"held-out loss before: {held_out_loss(model, windows):.4f}", flush=True)
    optimizer = torch.optim.AdamW(trained, lr=args.learning_rate, weight_decay=0.0)
    sync = longwave.Sync(model, optimizer, args.address, token=args.token, name=args.name,  # Longwave, 1 of 3
                         state_dir=args.state_dir, alike={"tokenizer": tokenizer.backend_tokenizer.to_str()},
                         keep={"optimizer": optimizer}) if args.address else None
    steps, batches = sync.steps if sync else args.steps, windows.batches()
    step = sync.step_number if sync else 0
    while not sync.done if sync else step < steps:  # Longwave, 2 of 3
        for group in optimizer.param_groups:  # warm-up, then a line to a tenth
            group["lr"] = args.learning_rate * min((step + 1) / args.warmup, 1 - 0.9 * step / steps)
        loss = loss_of(model, next(batches))
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 1.0)
        if sync:
            sync.note(loss)
        optimizer.step()
        optimizer.zero_grad()
        common.report(step, loss.item())
        step = sync.step_number if sync else step + 1
    if sync:
        sync.finish()  # Longwave, 3 of 3
    print(f"held-out loss after: {held_out_loss(model, windows):.4f}", flush=True)
    return sync is None or sync.worker == 0 or "LONGWAVE_RUN_DIR" not in os.environ
