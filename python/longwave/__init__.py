"""Longwave: trains one model on machines far apart, from a PyTorch loop of one's own.

    sync = longwave.Sync(model, optimizer, "host:7070")
    while not sync.done:
        loss = model(next(batches)); loss.backward()
        sync.note(loss)
        optimizer.step(); optimizer.zero_grad()
    sync.finish()

Importing this imports no torch: Sync and Optimizer do, where they are first used.
"""

from typing import TYPE_CHECKING, Any

from longwave._errors import LongwaveError
from longwave._library import set_log_level, version

if TYPE_CHECKING:
    from longwave.optimizer import Optimizer
    from longwave.sync import Sync

__all__ = ["LongwaveError", "Optimizer", "Sync", "set_log_level", "version"]


def __getattr__(name: str) -> Any:
    if name == "Sync":
        from longwave.sync import Sync

        return Sync
    if name == "Optimizer":
        from longwave.optimizer import Optimizer

        return Optimizer
    raise AttributeError(f"module 'longwave' has no attribute {name!r}")
