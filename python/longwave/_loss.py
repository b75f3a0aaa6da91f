"""The last loss that a loop has noted, without making a GPU wait for it."""

from typing import Any, Optional, Union, cast

import torch


class NotedLoss:
    """A loss on a GPU is copied asynchronously, and is read once it has arrived: a step or two later."""

    def __init__(self) -> None:
        self._value = 0.0
        self._arriving: Optional[torch.Tensor] = None
        self._arrived: Any = None  # a torch.cuda.Event during a copy

    def note(self, loss: Union[float, torch.Tensor]) -> None:
        if not isinstance(loss, torch.Tensor):
            self._value = float(loss)
            return
        loss = loss.detach()
        if loss.device.type != "cuda":
            self._value = float(loss)
            return
        self.value()
        if self._arrived is not None:
            return  # a copy is under way
        self._arriving = torch.empty((), dtype=torch.float32, pin_memory=True)
        self._arriving.copy_(loss.reshape(()), non_blocking=True)
        self._arrived = cast(Any, torch.cuda.Event)()
        self._arrived.record()

    def value(self) -> float:
        if self._arrived is not None and self._arriving is not None and self._arrived.query():
            self._value = float(self._arriving)
            self._arrived = None
        return self._value
