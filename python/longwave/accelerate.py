"""Accelerate: sync = longwave.accelerate.join(accelerator, model, optimizer, "host:7070") after accelerator.prepare."""

from typing import Any, Optional

import torch
from accelerate import Accelerator
from accelerate.optimizer import AcceleratedOptimizer

from longwave.sync import Sync


def join(
    accelerator: Accelerator,
    model: torch.nn.Module,
    optimizer: AcceleratedOptimizer,
    address: Optional[str] = None,
    **options: Any,
) -> Sync:
    """A Sync of the objects that accelerator.prepare has wrapped; the other arguments are Sync's. The hook is on the
    optimizer's own step, which gradient accumulation and a scaler skip."""
    return Sync(accelerator.unwrap_model(model), optimizer.optimizer, address, **options)
