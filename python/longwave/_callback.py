"""The common part of the callbacks for libraries that have the loop themselves."""

import contextlib
from types import TracebackType
from typing import Any, Optional, Type

from torch.optim.lr_scheduler import ReduceLROnPlateau

from longwave.sync import Sync


class SyncCallback:
    """A Sync for the length of a training, and the pause around what the library does between two steps."""

    def __init__(self, address: Optional[str] = None, **options: Any) -> None:
        self._address = address
        self._options = options
        self.sync: Optional[Sync] = None
        self._pause = contextlib.ExitStack()

    def _begin_pause(self) -> None:
        """All ranks call. An evaluation or a checkpoint takes a node of several ranks longer than steps do."""
        self._pause.close()
        if self.sync is not None and not self.sync.done:
            self._pause.enter_context(self.sync.pause())

    def _finish(self) -> None:
        self._pause.close()
        if self.sync is not None:
            self.sync.finish()

    def _abandon(
        self, kind: Optional[Type[BaseException]], error: Optional[BaseException], trace: Optional[TracebackType]
    ) -> None:
        self._pause.__exit__(kind, error, trace)
        if self.sync is not None:
            self.sync.__exit__(kind, error, trace)


def advance(schedule: Any, steps: int) -> None:
    """A schedule that waits for a metric stays."""
    if not isinstance(schedule, ReduceLROnPlateau):
        for _ in range(steps):
            schedule.step()
