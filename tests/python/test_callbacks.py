"""Callbacks of Trainer and Lightning at the beginning: the length of the training, and the rows of each worker."""

import types
import unittest
from unittest import mock

import torch
from sync_case import SyncCase
from test_adapters import Rows, WithLoss

from longwave._callback import draw_apart

SHORT = "{}: got a training of 10 steps, wanted the 40 that are left of the run's 40, or more"
LEFT = "the loop has ended at step 10 of the run's 40"


class Seen(Rows):
    def __init__(self):
        super().__init__()
        self.order = []

    def __getitem__(self, index):
        self.order.append(index)
        return super().__getitem__(index)


class Callbacks(SyncCase):
    def trainer(self, callback, rows, **arguments):
        import transformers

        options = {"max_steps": 10, **arguments}
        arguments = transformers.TrainingArguments(
            output_dir=str(self.root / "out"), per_device_train_batch_size=8, report_to=[], save_strategy="no", use_cpu=True,
            disable_tqdm=True, **options)
        transformers.Trainer(WithLoss(), arguments, train_dataset=rows, callbacks=[callback]).train()

    def fit(self, callback, rows, **arguments):
        import lightning

        class Module(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.model = WithLoss()

            def training_step(self, batch):
                return self.model(**batch)["loss"]

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=0.1)

        trainer = lightning.Trainer(
            accelerator="cpu", callbacks=[callback], logger=False, enable_checkpointing=False, enable_progress_bar=False,
            enable_model_summary=False, default_root_dir=str(self.root), **{"max_steps": 10, **arguments})
        torch.manual_seed(5)
        trainer.fit(Module(), torch.utils.data.DataLoader(rows, batch_size=8, shuffle=True))

    def libraries(self):
        """(callback's class, its training, the arguments that say how long) of each that is installed."""
        try:
            from longwave.hf import LongwaveCallback as OfTrainer

            yield OfTrainer, self.trainer, "max_steps or num_train_epochs"
        except ImportError:
            pass
        try:
            from longwave.lightning import LongwaveCallback as OfLightning

            yield OfLightning, self.fit, "max_steps or max_epochs"
        except ImportError:
            pass

    def test_a_training_that_ends_before_the_run_is_warned_of_at_its_beginning(self):
        for callback, run, knob in self.libraries():
            with self.subTest(knob), self.assert_warns(SHORT.format(knob), LEFT):
                run(callback(self.cluster(), name="one"), Rows())

    def test_a_training_that_outlasts_the_run_is_not(self):
        for callback, run, knob in self.libraries():
            with self.subTest(knob), self.assertNoLogs("longwave"):
                run(callback(self.cluster(), name="one"), Rows(), max_steps=40)

    def test_each_worker_draws_its_own_rows(self):
        for callback, run, knob in self.libraries():
            orders = []
            for worker in (0, 1, 1):
                rows = Seen()
                with mock.patch("longwave._run_state.RunState.worker", worker):
                    run(callback(self.cluster(), name="one"), rows, max_steps=40)
                orders.append(rows.order)
            with self.subTest(knob):
                self.assertNotEqual(orders[0], orders[1])
                self.assertEqual(orders[1], orders[2])
                self.assertEqual(sorted(orders[0][:16]), list(range(16)))

    def warns_of(self, sampler):
        member = mock.Mock(warned=set())
        draw_apart(torch.utils.data.DataLoader(Rows(), sampler=sampler), types.SimpleNamespace(worker=1, _member=member))
        return member.warned == {"same rows"}

    def test_a_sampler_that_it_cannot_seed_is_warned_of(self):
        rows, own = Rows(), torch.Generator().manual_seed(1)
        data = torch.utils.data
        for sampler, wanted in (
            (data.RandomSampler(rows), False),
            (data.WeightedRandomSampler([1.0] * 16, 16), False),
            (data.DistributedSampler(rows, num_replicas=2, rank=0), False),
            (data.RandomSampler(rows, generator=own), True),
            (data.SequentialSampler(rows), True),
            ([3, 1, 2], True),
        ):
            with self.subTest(type(sampler).__name__):
                self.assertEqual(self.warns_of(sampler), wanted)


if __name__ == "__main__":
    unittest.main()
