"""The parameters of the loop's optimizer, of which Sync may see none, some or all."""

import warnings
from typing import Dict, Iterable, Iterator, Optional

import torch


def check_owned(
    optimizer: Optional[torch.optim.Optimizer], trained: Dict[str, torch.nn.Parameter], hook: bool
) -> None:
    """Raises TypeError for an optimizer that takes no hook, and ValueError for one of other parameters, whose steps the
    replica would never see."""
    if optimizer is None:
        return
    if not hasattr(optimizer, "param_groups") or (hook and not hasattr(optimizer, "_optimizer_step_post_hooks")):
        raise TypeError(
            f"optimizer: got a {type(optimizer).__name__}, wanted a torch.optim.Optimizer, and of one that is wrapped the "
            "inner one, which takes the steps (longwave.accelerate.join finds Accelerate's)"
        )
    owned = {id(parameter) for parameter in _parameters(optimizer)}
    if not any(id(parameter) in owned for parameter in trained.values()):
        raise ValueError(
            "optimizer: got one that has none of the model's trained parameters; make it after the model is loaded and moved"
        )


class StrangerWatch:
    """Warns once of what the optimizer trains and no sync sees: parameters outside the model, that were frozen when Sync
    was made, or that came later."""

    def __init__(self, optimizer: Optional[torch.optim.Optimizer], trained: Iterable[torch.nn.Parameter]) -> None:
        self._optimizer = optimizer
        self._known = {id(parameter) for parameter in trained}

    def look(self) -> None:
        if self._optimizer is None:
            return
        shapes = [tuple(p.shape) for p in _parameters(self._optimizer) if p.requires_grad and id(p) not in self._known]
        if not shapes:
            return
        self._optimizer = None
        warnings.warn(
            f"optimizer: {len(shapes)} of its parameters are not synced, each worker has its own: "
            f"{', '.join(map(str, shapes[:4]))}{' …' if len(shapes) > 4 else ''}. Sync takes those that the model has and "
            "trains when Sync is made",
            stacklevel=3,
        )


def _parameters(optimizer: torch.optim.Optimizer) -> Iterator[torch.nn.Parameter]:
    for group in optimizer.param_groups:
        yield from group["params"]
