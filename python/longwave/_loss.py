"""The last loss that a loop has noted, without making a GPU wait for it."""

import math
from typing import Any, Optional, Union, cast

import torch

from longwave._library import NO_LOSS


class NotedLoss:
    """A loss on a GPU is copied asynchronously, and is read once it has arrived: a step or two later.

    Of a step that a GradScaler skips the loss, too, is noted, and need not be finite. It counts only if no other loss came
    since the last step: where it has spoilt the parameters, all later ones are like it."""

    def __init__(self) -> None:
        self._finite = NO_LOSS  # the last one
        self._is_new = False  # and whether it came since the last step
        self._other: Optional[float] = None  # not finite, since the last step
        self._arriving: Optional[torch.Tensor] = None
        self._arrived: Any = None  # a torch.cuda.Event during a copy

    def note(self, loss: Union[float, torch.Tensor]) -> None:
        if isinstance(loss, torch.Tensor):
            loss = loss.detach()
        if not isinstance(loss, torch.Tensor) or loss.device.type != "cuda":
            self._take(float(loss))
            return
        self._look()
        if self._arrived is not None:
            return  # a copy is under way
        self._arriving = torch.empty((), dtype=torch.float32, device="cpu", pin_memory=True)
        self._arriving.copy_(loss.reshape(()), non_blocking=True)
        self._arrived = cast(Any, torch.cuda.Event)()
        self._arrived.record(torch.cuda.current_stream(loss.device))  # the loop's current device may be another

    def of_step(self) -> float:
        """Called once a step."""
        self._look()
        spoilt = self._other if not self._is_new and self._arrived is None else None
        self._is_new, self._other = False, None
        return self._finite if spoilt is None else spoilt

    def _look(self) -> None:
        if self._arrived is not None and self._arriving is not None and self._arrived.query():
            self._arrived = None
            self._take(float(self._arriving))

    def _take(self, loss: float) -> None:
        if math.isfinite(loss):
            self._finite, self._is_new = loss, True
        else:
            self._other = loss
