"""The common part of the examples: their arguments, and batches of a text."""

from __future__ import annotations

import argparse
import os
import pathlib
import socket
import zlib
from collections.abc import Iterator

import torch


def arguments(description: str, **defaults: object) -> argparse.Namespace:
    """defaults: one option each, of the default's type, in addition to the common ones."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--address", default=os.environ.get("LONGWAVE_COORDINATOR"),
                        help="host:port of the run's coordinator; none: training on this machine alone")
    parser.add_argument("--token", help="token of `longwave token create`, if the run is secured")
    parser.add_argument("--name", help="name of this worker [the machine's]")
    parser.add_argument("--state-dir", help="folder with which this worker comes back after a crash")
    parser.add_argument("--data", required=True, help="data to train on")
    for name, default in defaults.items():
        option = "--" + name.replace("_", "-")
        if isinstance(default, bool):
            parser.add_argument(option, action="store_true")
        else:
            parser.add_argument(option, type=type(default), default=default, help=f"[{default}]")
    args = parser.parse_args()
    if not pathlib.Path(args.data).exists():
        parser.error(f"--data: got {args.data}, which does not exist")
    return args


def own_generator(args: argparse.Namespace) -> torch.Generator:
    """The worker's own random numbers: all workers, and all ranks of one, see different batches."""
    name = args.name or os.environ.get("LONGWAVE_NAME") or socket.gethostname()
    name += os.environ.get("RANK", "")  # torchrun's
    return torch.Generator().manual_seed(zlib.crc32(name.encode()))


def of_all_ranks(model: torch.nn.Module) -> torch.nn.Module:
    """Under torchrun the model whose gradients are the mean of all ranks'."""
    if "RANK" not in os.environ:
        return model
    torch.distributed.init_process_group()
    return torch.nn.parallel.DistributedDataParallel(model)


def read_bytes(path: str) -> torch.Tensor:
    """A file, or a folder's files in the order of their names: [bytes] of uint8."""
    place = pathlib.Path(path)
    files = sorted(file for file in place.rglob("*") if file.is_file()) if place.is_dir() else [place]
    return torch.frombuffer(bytearray(b"\n".join(file.read_bytes() for file in files)), dtype=torch.uint8)


def text_batches(args: argparse.Namespace) -> Iterator[torch.Tensor]:
    """Windows of the text at random positions, without end: [args.batch, args.context + 1] of int64, a byte a token."""
    text, generator = read_bytes(args.data), own_generator(args)
    if len(text) < args.context + 2:
        raise SystemExit(f"error: {args.data} has {len(text)} bytes, wanted at least {args.context + 2}")
    while True:
        starts = torch.randint(len(text) - args.context, (args.batch,), generator=generator)
        yield torch.stack([text[start:start + args.context + 1] for start in starts.tolist()]).long()


def report(step: int, loss: float, every: int = 10) -> None:
    if step % every == 0:
        print(f"step {step}  loss {loss:.4f}", flush=True)
