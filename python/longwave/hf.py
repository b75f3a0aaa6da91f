"""Hugging Face's Trainer: Trainer(..., callbacks=[LongwaveCallback("host:7070")])."""

import contextlib
from typing import Any, Optional

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from longwave.sync import Sync


class LongwaveCallback(TrainerCallback):  # type: ignore[misc,unused-ignore]
    """Joins when training begins, syncs after each optimizer's step, ends training with the run. The arguments are
    those of Sync; checkpoints keep optimizer and schedule. `sync` exists during training."""

    def __init__(self, address: Optional[str] = None, **options: Any) -> None:
        self._address = address
        self._options = options
        self.sync: Optional[Sync] = None
        self._pause = contextlib.ExitStack()

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        optimizer, schedule = kwargs["optimizer"], kwargs["lr_scheduler"]

        def on_move(steps: int) -> None:
            for _ in range(steps):
                getattr(schedule, "scheduler", schedule).step()

        options = {"keep": {"optimizer": optimizer, "schedule": schedule}, "on_move": on_move, **self._options}
        self.sync = Sync(kwargs["model"], getattr(optimizer, "optimizer", optimizer), self._address, **options)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        control.should_training_stop |= self.sync is not None and self.sync.done
        self._pause_for(control)

    def on_epoch_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self._pause_for(control)

    def on_step_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self._pause.close()

    def _pause_for(self, control: TrainerControl) -> None:
        """Trainer evaluates and saves next, which takes a node of several ranks longer than steps do."""
        self._pause.close()
        if self.sync is not None and not self.sync.done and (control.should_evaluate or control.should_save):
            self._pause.enter_context(self.sync.pause())

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, logs: Any = None, **kwargs: Any
    ) -> None:
        if self.sync is not None and not self.sync.done and logs and "loss" in logs:
            self.sync.note(float(logs["loss"]))

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self._pause.close()
        if self.sync is not None:
            self.sync.finish()
