"""The parameters of the loop's optimizer, of which Sync may see none, some or all."""

from typing import Dict, Iterable, Iterator, List, Optional

import torch

from longwave._warning import Warned, warn


def check_owned(
    optimizer: Optional[torch.optim.Optimizer], trained: Dict[str, torch.nn.Parameter], hook: bool
) -> None:
    """Raises TypeError for an optimizer that takes no hook, and ValueError for one of other parameters, whose steps the
    replica would never see."""
    if optimizer is None:
        return
    if not hasattr(optimizer, "param_groups") or (hook and not hasattr(optimizer, "_optimizer_step_post_hooks")):
        raise TypeError(
            f"optimizer: got a {type(optimizer).__name__}, wanted a torch.optim.Optimizer: of several the one that steps "
            "last, and of one that is wrapped the inner one, which takes the steps (longwave.accelerate.join finds Accelerate's)"
        )
    owned = {id(parameter) for parameter in _parameters(optimizer)}
    if not any(id(parameter) in owned for parameter in trained.values()):
        raise ValueError(
            "optimizer: got one that has none of the model's trained parameters; make it after the model is loaded and moved"
        )


class StrangerWatch:
    """Warns once of what is trained and no sync sees: parameters of the optimizer outside the model, and those that were
    frozen when Sync was made, or that came later."""

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: Optional[torch.optim.Optimizer],
        trained: Iterable[torch.nn.Parameter],
        member: Warned,
    ) -> None:
        self._model = model
        self._optimizer = optimizer
        self._member = member
        self._trained = list(trained)

    def look(self) -> None:
        names = self._names()
        if names:
            warn(
                f"{len(names)} parameters are trained and not synced, each worker has its own: {_shown(names)}. Sync takes those "
                "that the model has and trains when Sync is made",
                "strangers",
                self._member,
            )

    def refuse_adapters(self) -> None:
        """ValueError: nothing of the run is trained any more, but other parameters are."""
        if any(parameter.requires_grad for parameter in self._trained):
            return
        names = self._names()
        if names:
            raise ValueError(
                f"model: what the run trains has been frozen, and {len(names)} other parameters are trained: {_shown(names)}. "
                "Wanted adapters before Sync: get_peft_model, then the optimizer, then Sync"
            )

    def _names(self) -> List[str]:
        known = {id(parameter) for parameter in self._trained}
        found = {id(p): name for name, p in self._model.named_parameters() if p.requires_grad}
        for parameter in () if self._optimizer is None else _parameters(self._optimizer):
            if parameter.requires_grad:
                found.setdefault(id(parameter), f"the optimizer's {tuple(parameter.shape)}")
        return [name for key, name in found.items() if key not in known]


def _shown(names: List[str]) -> str:
    return ", ".join(names[:4]) + (" …" if len(names) > 4 else "")


def _parameters(optimizer: torch.optim.Optimizer) -> Iterator[torch.nn.Parameter]:
    for group in optimizer.param_groups:
        yield from group["params"]
