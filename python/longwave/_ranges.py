"""Ranges of elements of a flat array: begin … end − 1."""

from typing import List, Sequence, Tuple

import torch

Range = Tuple[int, int]


def size(ranges: Sequence[Range]) -> int:
    return sum(end - begin for begin, end in ranges)


def common(one: Sequence[Range], other: Sequence[Range]) -> List[Range]:
    """The elements that are in both, each of which ascends."""
    found: List[Range] = []
    i = j = 0
    while i < len(one) and j < len(other):
        begin, end = max(one[i][0], other[j][0]), min(one[i][1], other[j][1])
        if begin < end:
            found.append((begin, end))
        if one[i][1] < other[j][1]:
            i += 1
        else:
            j += 1
    return found


def cut(ranges: Sequence[Range], limit: int) -> List[List[Range]]:
    """The ranges in their order, as lists of at most `limit` elements."""
    pieces: List[List[Range]] = []
    room = 0
    for begin, end in ranges:
        while begin < end:
            if room == 0:
                pieces.append([])
                room = limit
            taken = min(end - begin, room)
            pieces[-1].append((begin, begin + taken))
            begin += taken
            room -= taken
    return pieces


def pack(flat: torch.Tensor, ranges: Sequence[Range], packed: torch.Tensor) -> None:
    """packed ← the ranges' elements, one range behind the other."""
    if ranges:
        torch._foreach_copy_(_parts(packed, ranges), [flat[begin:end] for begin, end in ranges])


def unpack(packed: torch.Tensor, ranges: Sequence[Range], flat: torch.Tensor) -> None:
    """The ranges' elements ← packed."""
    if ranges:
        torch._foreach_copy_([flat[begin:end] for begin, end in ranges], _parts(packed, ranges))


def _parts(packed: torch.Tensor, ranges: Sequence[Range]) -> List[torch.Tensor]:
    return list(torch.split(packed[: size(ranges)], [end - begin for begin, end in ranges]))
