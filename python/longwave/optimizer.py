"""The optimizer of runs whose method syncs gradients (`sync.signal: gradient`)."""

from typing import Any, Callable, Dict, Iterable, List, Optional, Union, cast

import torch

from longwave._clip import clip_merged
from longwave._node import Node


class Optimizer(torch.optim.Optimizer):
    """Passes each step's gradients to longwave.Sync, whose hook takes the step.

    inner: None if the run's update is the optimizer (sync.update sgd, sign, nesterov). If sync.update is `inner`: an
    optimizer of the same parameters, which then steps with the merged gradients (longwave.Optimizer(params,
    inner=torch.optim.AdamW(params))). clip_norm: of the merged gradient, before the inner step; 0: none.

    zero_grad, state_dict and param_groups are the inner one's, so that a learning-rate schedule may take this one.
    """

    def __init__(
        self,
        params: Iterable[Union[torch.nn.Parameter, Dict[str, Any]]],
        inner: Optional[torch.optim.Optimizer] = None,
        clip_norm: float = 0,
    ) -> None:
        if clip_norm < 0:
            raise ValueError(f"clip_norm: got {clip_norm}, wanted 0 or more")
        if clip_norm > 0 and inner is None:
            raise ValueError(f"clip_norm: got {clip_norm} without inner, wanted 0: the run applies what is merged, unclipped")
        self.inner: Optional[torch.optim.Optimizer] = None
        super().__init__(cast(Any, params), {"lr": 0.0})  # a schedule wants one; the run has its own
        self.clip_norm = clip_norm
        if inner is None:
            return
        own = {id(p) for group in self.param_groups for p in group["params"]}
        inners = {id(p) for group in inner.param_groups for p in group["params"]}
        if own != inners:
            raise ValueError(f"inner: got an optimizer of {len(inners)} parameters, wanted the same {len(own)} as params")
        self.inner = inner

    # load_state_dict of the inner one replaces its list. Without one the list is where torch's base class has it.
    @property
    def param_groups(self) -> List[Dict[str, Any]]:
        return vars(self)["param_groups"] if self.inner is None else self.inner.param_groups

    @param_groups.setter
    def param_groups(self, groups: List[Dict[str, Any]]) -> None:
        vars(self)["param_groups"] = groups

    def step(self, closure: Optional[Callable[[], float]] = None) -> Optional[float]:  # type: ignore[override]
        """Only computes the closure: Sync's hook on this optimizer takes the step."""
        if closure is None:
            return None
        with torch.enable_grad():
            return closure()

    def step_merged(self, node: Optional[Node]) -> None:
        """Steps with the merged gradients in the parameters' grad. Sync calls it at all ranks of a node."""
        if self.inner is None:
            raise RuntimeError(
                "the run's sync.update is inner: wanted longwave.Optimizer(params, inner=AdamW(params)), got no inner"
            )
        if self.clip_norm > 0:
            clip_merged([p for group in self.param_groups for p in group["params"]], self.clip_norm, node)
        self.inner.step()

    def state_dict(self) -> Dict[str, Any]:
        return super().state_dict() if self.inner is None else self.inner.state_dict()

    def load_state_dict(self, state_dict: Dict[str, Any]) -> None:
        if self.inner is None:
            super().load_state_dict(state_dict)
        else:
            self.inner.load_state_dict(state_dict)


def check_optimizer(optimizer: Optional[torch.optim.Optimizer], sends_gradient: bool, takes_gradient: bool) -> None:
    """Raises ValueError for an optimizer that does not suit the run's method."""
    ours = optimizer if isinstance(optimizer, Optimizer) else None
    if ours is not None and isinstance(ours.inner, torch.optim.SparseAdam):
        raise ValueError("optimizer: got inner SparseAdam, wanted one of dense gradients, as Adam: merged gradients are dense")
    got = "none" if optimizer is None else type(optimizer).__name__
    if sends_gradient and takes_gradient and (ours is None or ours.inner is None):
        wanted = "longwave.Optimizer(params, inner=AdamW(params)): it steps with the merged gradients"
    elif sends_gradient and not takes_gradient and (ours is None or ours.inner is not None):
        wanted = "longwave.Optimizer(params): the run's update is the optimizer"
    elif not sends_gradient and ours is not None:
        wanted = "the inner optimizer itself: the run's method syncs what its steps do, and no gradients"
    else:
        return
    raise ValueError(f"optimizer: got {got if ours is None else 'longwave.Optimizer'}, wanted {wanted}")
