"""Makes files of tokens from text, for `data.kind: tokens`.

    python -m longwave.make_tokens TEXT [TEXT …] --out FOLDER [--vocabulary 16384] [--tokenizer tokenizer.json]

The program trains a byte-level BPE on the text once and stores it in FOLDER/tokenizer.json; with --tokenizer it uses that one
instead. The tokens of each text become one or more shards of llm.c, FOLDER/tokens_000000.bin and so on: 256 numbers of 32 bits
(20240520, version 1, the number of tokens), then tokens of 16 bits. Needs PyPI's tokenizers.
"""

import argparse
import array
import pathlib
import sys
from collections.abc import Iterator
from typing import Any

_MAGIC, _VERSION, _HEADER_NUMBERS = 20240520, 1, 256
_VOCABULARY_MAX = 1 << 16  # of tokens of 16 bits
_CHUNK_CHARACTERS = 1 << 20
_SHARD_TOKENS = 1 << 30  # about so many; their number has 31 bits


def _chunks(path: pathlib.Path) -> Iterator[str]:
    """The text in parts that end with a line, so that words stay whole."""
    with open(path, encoding="utf-8", errors="replace", newline="") as file:
        while lines := file.readlines(_CHUNK_CHARACTERS):
            yield "".join(lines)


def _learn(texts: list[pathlib.Path], vocabulary: int) -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary, initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator((chunk for text in texts for chunk in _chunks(text)), trainer)
    return tokenizer


def _shards(tokenizer: Any, text: pathlib.Path) -> "Iterator[array.array[int]]":
    tokens = array.array("H")
    for chunk in _chunks(text):
        tokens.extend(tokenizer.encode(chunk, add_special_tokens=False).ids)
        if len(tokens) >= _SHARD_TOKENS:
            yield tokens
            tokens = array.array("H")
    if tokens:
        yield tokens


def write_shard(path: pathlib.Path, tokens: "array.array[int]") -> None:
    """tokens: of 16 bits."""
    header = array.array("i", [0] * _HEADER_NUMBERS)
    header[0:3] = array.array("i", [_MAGIC, _VERSION, len(tokens)])
    if sys.byteorder == "big":
        header.byteswap()
        tokens = tokens[:]
        tokens.byteswap()
    with open(path, "wb") as file:
        header.tofile(file)
        tokens.tofile(file)


def main(arguments: "list[str] | None" = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m longwave.make_tokens", description="Makes files of tokens from text.")
    parser.add_argument("texts", nargs="+", type=pathlib.Path, help="files of text, UTF-8")
    parser.add_argument("--out", type=pathlib.Path, required=True, help="folder for the shards and the tokenizer")
    parser.add_argument("--vocabulary", type=int, default=1 << 14, help="most tokens that it learns [16384]")
    parser.add_argument("--tokenizer", type=pathlib.Path, help="a tokenizer.json to use, instead of learning one")
    options = parser.parse_args(arguments)
    if not 256 <= options.vocabulary <= _VOCABULARY_MAX:
        parser.error(f"--vocabulary: got {options.vocabulary}, wanted 256 to {_VOCABULARY_MAX}")
    try:
        from tokenizers import Tokenizer
    except ImportError:
        parser.error("got no package tokenizers, wanted it: pip install tokenizers")
    for path in [*options.texts, *([options.tokenizer] if options.tokenizer else [])]:
        if not path.is_file():
            parser.error(f"{path} is not a file")
    tokenizer = Tokenizer.from_file(str(options.tokenizer)) if options.tokenizer else _learn(
        options.texts, options.vocabulary)
    size = tokenizer.get_vocab_size()
    if size > _VOCABULARY_MAX:
        parser.error(f"--tokenizer: got one of {size} tokens, wanted at most {_VOCABULARY_MAX}: a token has 16 bits")
    options.out.mkdir(parents=True, exist_ok=True)
    # A run reads all of the folder's shards, and those of another tokenizer would be noise to it.
    if found := sorted(options.out.glob("tokens_*.bin")):
        parser.error(f"--out: got {options.out}, which has {found[0].name} already, wanted a folder without tokens")
    tokenizer.save(str(options.out / "tokenizer.json"))
    total = 0
    for number, tokens in enumerate(shard for text in options.texts for shard in _shards(tokenizer, text)):
        write_shard(options.out / f"tokens_{number:06d}.bin", tokens)
        total += len(tokens)
    print(f"{total} tokens of {size} in {options.out}: data.kind=tokens data.path='{options.out}/*.bin' "
          f"model.vocabulary={size}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
