"""The hashes of what all workers must have alike beside the trained parameters, since no sync makes it so."""

import ctypes
import hashlib
import zlib
from collections import Counter
from typing import List, Mapping, Tuple, Union

import torch

Alike = Tuple[str, int, str]  # name, hash, a text for people
FROZEN = "frozen parameters"
COUNT_MAX = 15  # beside the frozen parameters


def alike_of(model: torch.nn.Module, named: Mapping[str, Union[str, bytes]]) -> List[Alike]:
    """The frozen parameters of the model, if it has some, and what the caller names. TypeError, ValueError."""
    if FROZEN in named or len(named) > COUNT_MAX:
        raise ValueError(f"alike: got {', '.join(map(repr, named))}, wanted at most {COUNT_MAX} names other than {FROZEN!r}")
    return [*_frozen(model), *(_alike(name, content) for name, content in named.items())]


def _alike(name: str, content: Union[str, bytes]) -> Alike:
    if not isinstance(content, (str, bytes)):
        raise TypeError(f"alike[{name!r}]: got a {type(content).__name__}, wanted a str or bytes")
    data = content.encode() if isinstance(content, str) else content
    digest = hashlib.blake2b(data, digest_size=8).digest()
    return name, int.from_bytes(digest, "little"), f"{len(data):,} bytes"


def _frozen(model: torch.nn.Module) -> List[Alike]:
    """Without names, which a wrapper of the model changes. Without tensors of another class, whose memory is elsewhere: a
    DTensor's, of which each process has a shard, and those of libraries that quantize by a class (bitsandbytes does not)."""
    frozen = [p for p in model.parameters() if not p.requires_grad and not p.is_meta and type(p.data) is torch.Tensor]
    if not frozen:
        return []
    digest, counts = hashlib.blake2b(digest_size=8), Counter[str]()
    for parameter in frozen:
        data = parameter.detach().reshape(-1).cpu().contiguous()
        size = data.numel() * data.element_size()
        crc = zlib.crc32((ctypes.c_char * size).from_address(data.data_ptr())) if size else 0
        digest.update(f"{tuple(parameter.shape)} {parameter.dtype} {crc};".encode())
        counts[str(parameter.dtype).replace("torch.", "")] += parameter.numel()
    text = " and ".join(f"{count:,} of {dtype}" for dtype, count in counts.items())
    return [(FROZEN, int.from_bytes(digest.digest(), "little"), f"{text} in {len(frozen)} tensors")]
