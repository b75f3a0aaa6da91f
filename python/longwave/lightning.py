"""Lightning: Trainer(..., callbacks=[LongwaveCallback("host:7070")])."""

import contextlib
from typing import Any, Dict, Optional

import torch
from lightning.pytorch import Callback, LightningModule, Trainer

from longwave.sync import Sync


class LongwaveCallback(Callback):  # type: ignore[misc,unused-ignore]
    """Joins when training begins, syncs after each optimizer's step, ends training with the run. The arguments are
    those of Sync; checkpoints keep the optimizer, of which there must be one. `sync` exists during training."""

    def __init__(self, address: Optional[str] = None, **options: Any) -> None:
        self._address = address
        self._options = options
        self.sync: Optional[Sync] = None
        self._pause = contextlib.ExitStack()

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if len(trainer.optimizers) != 1:
            raise ValueError(f"got {len(trainer.optimizers)} optimizers, wanted one: its steps are the run's")
        options = {"keep": {"optimizer": trainer.optimizers[0]}, **self._options}
        self.sync = Sync(pl_module, trainer.optimizers[0], self._address, **options)

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        self._pause.close()

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._begin_pause()

    def on_save_checkpoint(self, trainer: Trainer, pl_module: LightningModule, checkpoint: Dict[str, Any]) -> None:
        self._begin_pause()

    def _begin_pause(self) -> None:
        """A validation or a checkpoint takes a node of several ranks longer than steps do. Lightning calls at all ranks."""
        self._pause.close()
        if self.sync is not None and not self.sync.done:
            self._pause.enter_context(self.sync.pause())

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if self.sync is None:
            return
        loss = outputs["loss"] if isinstance(outputs, dict) else outputs
        if isinstance(loss, torch.Tensor) and not self.sync.done:
            self.sync.note(loss)
        trainer.should_stop = trainer.should_stop or self.sync.done

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._pause.close()
        if self.sync is not None:
            self.sync.finish()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self._pause.__exit__(type(exception), exception, None)
        if self.sync is not None:
            self.sync.__exit__(type(exception), exception, None)
