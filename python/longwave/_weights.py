"""Weights beside those that are synced: an optimizer's own, and those that a loop loads over them."""

import contextlib
import weakref
from typing import Any, Iterable, List, Optional, Tuple, cast

import torch

from longwave._member import Member
from longwave._replica import is_sharded
from longwave._warning import warn

LOOKS = 64  # Lookahead's slow weights equal the parameters at one of these steps

LOADED = (
    "{}: what differs from the run's model is this worker's own, and its next sync sends it as if it had been trained. Load "
    "weights before Sync; with run.start: member the run begins with the first worker's"
)


class CopyWatch:
    """Finds weights in an optimizer's state, such as schedule-free's z or Lookahead's slow weights: a tensor that equals its
    parameter after a step that has changed the parameter. A copy of the weights of before, as SAM's, never does."""

    def __init__(
        self, optimizer: Optional[torch.optim.Optimizer], trained: Iterable[torch.nn.Parameter], member: Member
    ) -> None:
        self._optimizers: List[Any] = []
        self._member = member
        self._left = LOOKS
        if optimizer is not None:
            inner = [each for each in vars(optimizer).values() if isinstance(each, torch.optim.Optimizer)]
            self._optimizers = [optimizer, *inner]
        owned = {id(parameter) for each in self._optimizers for group in each.param_groups for parameter in group["params"]}
        matrices = [p for p in trained if id(p) in owned and p.dim() > 1 and p.numel() > 1 and not is_sharded(p)]
        self._parameter = min(matrices, key=torch.numel) if matrices else None
        self._before = None if self._parameter is None else self._parameter.detach().clone()

    def look(self) -> None:
        """Called after a step, before it is synced."""
        if self._parameter is None or self._left == 0:
            return
        self._left -= 1
        now = self._parameter.detach()
        assert self._before is not None
        if torch.equal(now, self._before):
            return
        self._before = now.clone()
        for optimizer in self._optimizers:
            for name, value in optimizer.state.get(self._parameter, {}).items():
                if _is_copy(value, now):
                    self._left = 0
                    warn(
                        f"optimizer: {type(self._optimizers[0]).__name__} has weights of its own in its state ({name!r}), which no "
                        "sync moves. They pull the parameters back from what is merged, and the run may learn less than "
                        "one worker alone. Wanted an optimizer without them, as AdamW, Muon or SGD",
                        "own weights",
                        self._member,
                    )
                    return


def _is_copy(value: object, weights: torch.Tensor) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and value.is_floating_point()
        and value.shape == weights.shape
        and value.data_ptr() != weights.data_ptr()
        and torch.equal(value.to(weights), weights)
    )


class LoadHook:
    """Warns where weights are loaded into a model that is synced."""

    def __init__(self, sync: Any) -> None:
        self._alive = weakref.ref(sync)

    def __call__(self, module: torch.nn.Module, keys: Any) -> None:
        sync = self._alive()
        if sync is not None and not sync.done:
            warn(LOADED.format("load_state_dict after Sync"), "load", sync._member)

    def __reduce__(self) -> Tuple[Any, ...]:
        """In a model that is copied or pickled there is a hook without effect in its place, and none of this package."""
        return getattr, (contextlib.nullcontext(), "__exit__")


def hook_loads(model: torch.nn.Module, sync: Any) -> List[torch.utils.hooks.RemovableHandle]:
    hook = LoadHook(sync)
    return [cast(Any, module).register_load_state_dict_post_hook(hook) for module in model.modules()]
