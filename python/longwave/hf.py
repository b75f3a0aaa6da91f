"""Hugging Face's Trainer:

    with LongwaveCallback("host:7070") as callback:
        Trainer(..., callbacks=[callback]).train()
"""

from types import TracebackType
from typing import Any, Optional, Type

from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from longwave._callback import SyncCallback, advance, check_length, draw_apart
from longwave.sync import Sync


class LongwaveCallback(SyncCallback, TrainerCallback):  # type: ignore[misc,unused-ignore]
    """Joins when training begins, syncs after each optimizer's step, ends training with the run. The arguments are
    those of Sync; checkpoints keep optimizer and schedule. `sync` exists during training. Each worker shuffles its rows by
    data_seed (or seed) and its own index.

    Trainer tells its callbacks nothing of an exception. Out of `with` around train() the coordinator hears of it, and
    the run does not wait for this worker until its process ends."""

    def __enter__(self) -> "LongwaveCallback":
        return self

    def __exit__(
        self,
        kind: Optional[Type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if error is not None:
            self._abandon(kind, error, trace)

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        if args.auto_find_batch_size:
            raise ValueError(
                "auto_find_batch_size: got True, wanted False: it begins the training anew, and a worker joins a run once"
            )
        optimizer, schedule = kwargs["optimizer"], kwargs["lr_scheduler"]

        def on_move(steps: int) -> None:
            advance(getattr(schedule, "scheduler", schedule), steps)

        options = {"keep": {"optimizer": optimizer, "schedule": schedule}, "on_move": on_move, **self._options}
        self.sync = Sync(kwargs["model"], getattr(optimizer, "optimizer", optimizer), self._address, **options)
        check_length(self.sync, state.max_steps - state.global_step, "max_steps or num_train_epochs")
        draw_apart(kwargs["train_dataloader"], self.sync)

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        control.should_training_stop |= self.sync is not None and self.sync.done
        self._pause_for(control)

    def on_epoch_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self._pause_for(control)

    def on_step_begin(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self._pause.close()

    def _pause_for(self, control: TrainerControl) -> None:
        """Trainer evaluates and saves next."""
        if control.should_evaluate or control.should_save:
            self._begin_pause()

    def on_log(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, logs: Any = None, **kwargs: Any
    ) -> None:
        if self.sync is not None and not self.sync.done and logs and "loss" in logs:
            self.sync.note(float(logs["loss"]))

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        self._finish()
