"""Clipping of a merged gradient to a norm that has the same bits at every worker of a run."""

import math
from typing import List, Optional, Sequence

import torch

from longwave._node import Node
from longwave._replica import is_sharded, local

SUM_BITS = 62  # of an int64 that holds the sum of a tensor's squares
EPSILON = 1e-6  # torch.nn.utils.clip_grad_norm_'s


def clip_merged(parameters: Sequence[torch.Tensor], norm_max: float, node: Optional[Node]) -> None:
    """Scales the gradients to an L2 norm of norm_max, if theirs is above it. All ranks of the node call.

    Workers step with the norm, so that it must not depend on how a worker's ranks divide the tensors: a rank sums the
    squares of its shares as integers, of a unit of each tensor's own, and integers have the same sum in any order."""
    with torch.no_grad():
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        if not gradients:
            return
        shares = [local(gradient) for gradient in gradients]
        ranks = node if is_sharded(gradients[0]) else None
        largest = _gathered([_largest(share) for share in shares], ranks).amax(0).tolist()
        if not all(map(math.isfinite, largest)):
            raise RuntimeError("the merged gradient has a value that is not finite, wanted finite numbers")
        units = [_unit(each, gradient.numel()) for each, gradient in zip(largest, gradients)]
        sums = _gathered([_sum(share, unit) for share, unit in zip(shares, units)], ranks).sum(0).tolist()
        norm = math.sqrt(math.fsum(total * unit for total, unit in zip(sums, units)))
        scale = norm_max / (norm + EPSILON)
        if scale < 1:
            torch._foreach_mul_(shares, scale)


def _largest(share: torch.Tensor) -> torch.Tensor:
    return share.abs().amax().double() if share.numel() > 0 else share.new_zeros((), dtype=torch.float64)


def _unit(largest: float, count: int) -> float:
    """The power of two of which `count` squares of at most largest² have a sum of at most 2^SUM_BITS."""
    _, exponent = math.frexp(largest * largest)
    return math.ldexp(1.0, exponent + max(count - 1, 0).bit_length() - SUM_BITS)


def _sum(share: torch.Tensor, unit: float) -> torch.Tensor:
    return share.double().square_().div_(unit).round_().long().sum()


def _gathered(mine: List[torch.Tensor], node: Optional[Node]) -> torch.Tensor:
    """[ranks, tensors]: what each rank has of each tensor."""
    own = torch.stack([each.to(mine[0].device) for each in mine])
    if node is None:
        return own.unsqueeze(0)
    everyones = own.new_empty((node.ranks, len(own)))
    node.all_gather(everyones, own)
    return everyones
