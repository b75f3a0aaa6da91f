"""The common part of the callbacks for libraries that have the loop themselves."""

import contextlib
from types import TracebackType
from typing import Any, Optional, Type

import torch
from torch.optim.lr_scheduler import ReduceLROnPlateau
from torch.utils.data import IterableDataset

from longwave._warning import warn
from longwave.sync import Sync

SEED_STRIDE = 1_000_003  # between workers; an epoch's seed is the first one's and its number


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


def check_length(sync: Sync, steps: float, knob: str) -> None:
    """Warns of a training that ends before the run; steps: those that it will take."""
    left = sync.steps - sync.step_number
    if not sync.done and steps < left:
        warn(
            f"{knob}: got a training of {steps:g} steps, wanted the {left} that are left of the run's {sync.steps}, or more "
            "(training ends with the run): this worker will leave the run before its end",
            "short training",
            sync._member,
        )


def draw_apart(loader: Any, sync: Sync) -> None:
    """Gives the loader's sampler a seed of the worker's own: by default all workers draw the same rows. Warns of a sampler
    that takes none. All ranks of a node have the same seed, and divide its rows."""
    sampler = _sampler(loader)
    own = SEED_STRIDE * sync.worker
    if isinstance(getattr(loader, "dataset", None), IterableDataset):
        return
    if hasattr(sampler, "initial_seed"):  # Accelerate's
        sampler.initial_seed += own
    elif hasattr(sampler, "generator") and sampler.generator is None:
        sampler.generator = torch.Generator().manual_seed((torch.initial_seed() + own) % 2**63)
    elif getattr(sampler, "shuffle", False) and hasattr(sampler, "seed"):  # DistributedSampler
        sampler.seed += own
    else:
        warn(
            f"data: got a {type(sampler).__name__}, which draws the same rows at all workers unless the script makes it "
            "differ: wanted shuffle=True without a generator, or rows or a seed by $LONGWAVE_NAME",
            "same rows",
            sync._member,
        )


def _sampler(loader: Any) -> Any:
    """The innermost one."""
    for name in ("batch_sampler", "sampler"):
        inner = getattr(loader, name, None)
        if inner is not None:
            return _sampler(inner)
    return loader
