"""The common part of the examples of models in files: their arguments, and the file."""

from __future__ import annotations

import argparse
import warnings

import torch


def arguments(description: str, **defaults: int) -> argparse.Namespace:
    """defaults: one option each, in addition to the common ones."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--out", required=True, help="the file, for model.file")
    parser.add_argument("--seed", type=int, default=1, help="of the values that the run begins with [1]")
    for name, default in defaults.items():
        parser.add_argument("--" + name.replace("_", "-"), type=int, default=default, help=f"[{default}]")
    args = parser.parse_args()
    torch.manual_seed(args.seed)
    return args


def save(model: torch.nn.Module, path: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # TorchScript is finished, says torch 2.9
        torch.jit.script(model).save(path)
    print(f"{path}: {sum(parameter.numel() for parameter in model.parameters())} parameters")
