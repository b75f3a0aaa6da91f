"""The steps of a loop: which of an optimizer's calls is one, and a watch for a loop whose steps nothing counts."""

import os
import signal
import sys
import weakref
from typing import Any, Callable, List, Optional, Sequence, cast

import torch

from longwave._member import Member
from longwave._replica import Replica
from longwave._warning import warn
from longwave._weights import LOADED

UNCOUNTED_MAX = 128  # backward passes that find other parameters than the one before, without a counted step
UNCOUNTED_AFTER_STOP_MAX = 8
ASKED_MAX = 10_000  # reads of sync.done, without a backward pass, a noted loss or a step


def hook_steps(
    optimizer: torch.optim.Optimizer, stepped: Callable[[], Any]
) -> torch.utils.hooks.RemovableHandle:
    """Calls stepped after each step that the optimizer takes. The hook does not keep the owner of stepped, a method, alive."""
    alive = weakref.WeakMethod(stepped)
    if not getattr(type(optimizer).step, "hooked", False):
        optimizer._patch_step_function()  # PyTorch's own, which an optimizer without its base class's __init__ calls late

    def hook(own: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        method = alive()
        # A fused optimizer handles the step that a GradScaler skips.
        skipped = getattr(own, "found_inf", None)
        if method is not None and not (skipped is not None and bool(skipped)) and not _is_within_a_step(own):
            method()

    return optimizer.register_step_post_hook(hook)


def _is_within_a_step(optimizer: torch.optim.Optimizer) -> bool:
    """Whether a hook runs at the end of super().step(): PyTorch wraps step() of each class, and each wrapper runs all hooks.
    The stack tells it also after a step that has raised."""
    wrapper = sys._getframe(2)
    frame = wrapper.f_back
    while frame is not None:
        if frame.f_code is wrapper.f_code and frame.f_locals.get("self") is optimizer:
            return True
        frame = frame.f_back
    return False


class StepWatch:
    """Notices that the parameters change from one backward pass, or noted loss, to the next without a counted step, and that
    a loop does nothing but ask for the end. Such a worker would go on alone for ever, and would never see SIGTERM."""

    def __init__(self, replica: Replica, member: Member, optimizer: Optional[object], takes_gradient: bool) -> None:
        self._replica = replica
        self._member = member
        self._is_first = not takes_gradient  # otherwise the replica does not have what the parameters are now
        self._counts = "sync.step()" if optimizer is None else f"step() of the {type(optimizer).__name__} that it was given"
        self._version: Optional[int] = None
        self._uncounted = self._asked = 0
        self._limit = UNCOUNTED_MAX
        self._is_stopped = False

    def count(self) -> None:
        """A step was counted."""
        self._is_first = False
        self._uncounted, self._asked, self._version = 0, 0, None

    def look_at_pass(self) -> None:
        """Called for a backward pass."""
        if self._is_first:
            self._is_first = False
            if not self._replica.is_unchanged():
                how = "the parameters have been changed (by p.data = …, say) before the first step"
                warn(LOADED.format(how), "load", self._member)
        self.look()

    def look(self) -> None:
        """Called for a backward pass and for a noted loss."""
        self._asked = 0
        version = sum(parameter._version for parameter in self._replica.parameters)
        self._uncounted += self._version is not None and version != self._version
        self._version = version
        if self.is_deaf:
            warn(
                f"the parameters have changed {self._uncounted} times, and the run has counted no step: this worker trains "
                f"alone. Sync counts {self._counts}. A loop that steps in another way makes Sync(model, None), and calls "
                "sync.step() after each of its steps",
                "uncounted steps",
                self._member,
            )
            self._end_if_stopped()

    def ask(self) -> None:
        """Called where the loop reads whether the run is over."""
        self._asked += 1
        if self._asked >= ASKED_MAX:
            warn(
                f"sync.done was read {ASKED_MAX} times, and no step was taken: a loop goes round without batches. Has its "
                "loader none, or an iterator that has ended?",
                "idle loop",
                self._member,
            )
            self._end_if_stopped()

    def stop(self) -> None:
        """SIGTERM has come."""
        self._is_stopped = True
        self._limit = min(self._limit, self._uncounted + UNCOUNTED_AFTER_STOP_MAX)

    @property
    def is_deaf(self) -> bool:
        return self._uncounted >= self._limit or self._asked >= ASKED_MAX

    def _end_if_stopped(self) -> None:
        if self._is_stopped:
            os.kill(os.getpid(), signal.SIGTERM)


def hook_passes(
    parameters: Sequence[torch.nn.Parameter], watch: StepWatch
) -> List[torch.utils.hooks.RemovableHandle]:
    """Lets the watch look after each backward pass, as long as its Sync keeps it alive."""
    alive = weakref.ref(watch)

    def passed(_: torch.Tensor) -> None:
        there = alive()
        if there is not None:
            there.look_at_pass()

    # A model may have parts that a pass does not reach.
    ends = {id(parameter): parameter for parameter in (parameters[0], parameters[-1])}
    return [cast(Any, parameter).register_post_accumulate_grad_hook(passed) for parameter in ends.values()]
