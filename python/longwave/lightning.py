"""Lightning: Trainer(..., callbacks=[LongwaveCallback("host:7070")])."""

from typing import Any, Dict

import torch
from lightning.pytorch import Callback, LightningModule, Trainer
from torch.utils._pytree import tree_flatten

from longwave._callback import SyncCallback, advance, check_length, draw_apart
from longwave._keep import Keeps
from longwave.sync import Sync


class LongwaveCallback(SyncCallback, Callback):  # type: ignore[misc,unused-ignore]
    """Joins when training begins, syncs after each optimizer's step, ends training with the run. The arguments are
    those of Sync; checkpoints keep the optimizer, of which there must be one, and its schedules. `sync` exists during
    training. Each worker shuffles its rows by the seed and its own index."""

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        if len(trainer.optimizers) != 1:
            raise ValueError(f"got {len(trainer.optimizers)} optimizers, wanted one: its steps are the run's")
        keep: Dict[str, Keeps] = {"optimizer": trainer.optimizers[0]}
        for i, config in enumerate(trainer.lr_scheduler_configs):
            keep[f"schedule{i}"] = config.scheduler

        def on_move(steps: int) -> None:
            for config in trainer.lr_scheduler_configs:
                if config.interval == "step":
                    advance(config.scheduler, steps // config.frequency)

        options = {"keep": keep, "on_move": on_move, **self._options}
        self.sync = Sync(pl_module, trainer.optimizers[0], self._address, **options)
        steps = trainer.estimated_stepping_batches
        if steps >= 0:  # else it is not known
            check_length(self.sync, steps - trainer.global_step, "max_steps or max_epochs")
        for loader in tree_flatten(trainer.train_dataloader)[0]:
            draw_apart(loader, self.sync)
        self._pause_when_saving(trainer)

    def _pause_when_saving(self, trainer: Trainer) -> None:
        """Lightning tells callbacks of no checkpoint with save_weights_only, but all are saved by this method."""
        save = trainer.save_checkpoint

        def save_in_a_pause(*arguments: Any, **options: Any) -> None:
            self._begin_pause()
            save(*arguments, **options)

        trainer.save_checkpoint = save_in_a_pause

    def on_train_batch_start(self, trainer: Trainer, pl_module: LightningModule, batch: Any, batch_idx: int) -> None:
        self._pause.close()

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._begin_pause()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        if self.sync is None:
            return
        loss = outputs.get("loss") if isinstance(outputs, dict) else outputs
        if isinstance(loss, torch.Tensor) and not self.sync.done:
            self.sync.note(loss)
        trainer.should_stop = trainer.should_stop or self.sync.done

    def on_train_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        self._end(trainer)
        self._finish()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        self._end(trainer)
        self._abandon(type(exception), exception, None)

    def _end(self, trainer: Trainer) -> None:
        vars(trainer).pop("save_checkpoint", None)
