"""The adapters of Trainer, Lightning and Accelerate, each through a run of its own."""

import contextlib
from unittest import mock

import torch
from sync_case import SyncCase, batch, perceptron


class Rows(torch.utils.data.Dataset):
    def __init__(self):
        self.x, self.y = batch(worker=0, step=0)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, index):
        return {"x": self.x[index], "labels": self.y[index]}


class WithLoss(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = perceptron()

    def forward(self, x, labels):
        out = self.layers(x)
        return {"loss": torch.nn.functional.mse_loss(out, labels), "logits": out}


class Adapters(SyncCase):
    def test_hugging_faces_trainer_ends_with_the_run(self):
        try:
            import transformers
        except ImportError as error:
            self.skipTest(f"no transformers: {error}")
        from longwave.hf import LongwaveCallback

        callback = LongwaveCallback(self.cluster(), name="one")
        arguments = transformers.TrainingArguments(
            output_dir=str(self.root / "out"), max_steps=1000, per_device_train_batch_size=8, logging_steps=5,
            report_to=[], save_strategy="no", use_cpu=True, disable_tqdm=True)
        trainer = transformers.Trainer(WithLoss(), arguments, train_dataset=Rows(), callbacks=[callback])
        trainer.train()
        self.assertEqual((trainer.state.global_step, callback.sync.step_number, callback.sync.rounds), (40, 40, 4))

    def test_hugging_faces_trainer_is_not_to_begin_anew(self):
        try:
            import transformers
        except ImportError as error:
            self.skipTest(f"no transformers: {error}")
        from longwave.hf import LongwaveCallback

        arguments = transformers.TrainingArguments(
            output_dir=str(self.root / "out"), auto_find_batch_size=True, report_to=[], use_cpu=True, disable_tqdm=True)
        trainer = transformers.Trainer(
            WithLoss(), arguments, train_dataset=Rows(), callbacks=[LongwaveCallback("127.0.0.1:1")])
        with self.assertRaisesRegex(ValueError, "auto_find_batch_size: got True, wanted False"):
            trainer.train()

    def test_hugging_faces_trainer_saves_within_a_pause(self):
        try:
            import transformers
        except ImportError as error:
            self.skipTest(f"no transformers: {error}")
        from longwave.hf import LongwaveCallback

        paused, saved = [], []

        @contextlib.contextmanager
        def pause(sync):
            paused.append(sync.step_number)
            yield
            paused.append("end")

        class Saves(transformers.TrainerCallback):
            def on_save(self, args, state, control, **kwargs):
                saved.append(paused[-1:] == [state.global_step])

        callback = LongwaveCallback(self.cluster(), name="one")
        arguments = transformers.TrainingArguments(
            output_dir=str(self.root / "out"), max_steps=1000, per_device_train_batch_size=8, report_to=[],
            save_strategy="steps", save_steps=15, use_cpu=True, disable_tqdm=True)
        with mock.patch("longwave.sync.Sync.pause", pause):
            transformers.Trainer(WithLoss(), arguments, train_dataset=Rows(), callbacks=[callback, Saves]).train()
        self.assertEqual(saved[:2], [True, True])
        self.assertEqual(paused[:4], [15, "end", 30, "end"])

    def test_of_an_exception_in_hugging_faces_trainer_the_coordinator_hears(self):
        try:
            import transformers
        except ImportError as error:
            self.skipTest(f"no transformers: {error}")
        from longwave.hf import LongwaveCallback

        class Raises(transformers.TrainerCallback):
            def on_evaluate(self, args, state, control, **kwargs):
                raise ZeroDivisionError("in the evaluation")

        arguments = transformers.TrainingArguments(
            output_dir=str(self.root / "out"), max_steps=1000, per_device_train_batch_size=8, report_to=[],
            save_strategy="no", eval_strategy="steps", eval_steps=15, use_cpu=True, disable_tqdm=True)
        with self.assertRaises(ZeroDivisionError), LongwaveCallback(self.cluster(), name="one") as callback:
            transformers.Trainer(WithLoss(), arguments, train_dataset=Rows(), eval_dataset=Rows(),
                                 callbacks=[callback, Raises]).train()
        self.await_coordinator("ZeroDivisionError: in the evaluation")
        self.assertTrue(callback.sync.done)

    def test_lightning_ends_with_the_run(self):
        try:
            import lightning
        except ImportError as error:
            self.skipTest(f"no lightning: {error}")
        from longwave.lightning import LongwaveCallback

        class Module(lightning.LightningModule):
            def __init__(self, is_automatic):
                super().__init__()
                self.model = WithLoss()
                self.automatic_optimization = is_automatic

            def training_step(self, rows):
                loss = self.model(**rows)["loss"]
                if self.automatic_optimization:
                    return loss
                self.optimizers().zero_grad()
                self.manual_backward(loss)
                self.optimizers().step()
                return None

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=0.1)

        for is_automatic in (True, False):
            with self.subTest(is_automatic=is_automatic):
                callback = LongwaveCallback(self.cluster(), name="one")
                trainer = lightning.Trainer(
                    max_epochs=1000, accelerator="cpu", callbacks=[callback], logger=False, enable_checkpointing=False,
                    enable_progress_bar=False, enable_model_summary=False, default_root_dir=str(self.root))
                trainer.fit(Module(is_automatic), torch.utils.data.DataLoader(Rows(), batch_size=8))
                self.assertEqual((trainer.global_step, callback.sync.step_number), (40, 40))

    def test_lightnings_schedule_goes_on_where_it_was(self):
        try:
            import lightning
        except ImportError as error:
            self.skipTest(f"no lightning: {error}")
        from longwave.lightning import LongwaveCallback

        class Module(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.model = WithLoss()

            def training_step(self, rows):
                return self.model(**rows)["loss"]

            def configure_optimizers(self):
                self.optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
                self.schedule = torch.optim.lr_scheduler.LambdaLR(self.optimizer, lambda step: 1 / (1 + step))
                return [self.optimizer], [{"scheduler": self.schedule, "interval": "step"}]

        address = self.cluster(run__steps=1000)
        began = []

        class Looks(lightning.Callback):
            def on_train_batch_start(self, trainer, module, batch, batch_idx):
                began.append((module.schedule.last_epoch, module.optimizer.param_groups[0]["lr"]))

        for _ in range(2):
            callback = LongwaveCallback(address, name="one", state_dir=str(self.root / "kept"))
            trainer = lightning.Trainer(
                max_steps=15, accelerator="cpu", callbacks=[callback, Looks()], logger=False, enable_checkpointing=False,
                enable_progress_bar=False, enable_model_summary=False, default_root_dir=str(self.root))
            trainer.fit(Module(), torch.utils.data.DataLoader(Rows(), batch_size=8))
        self.assertEqual(began, [(step, 0.1 * (1 / (1 + step))) for step in range(30)])

    def test_lightning_validates_and_saves_within_a_pause(self):
        for weights_only in (False, True):
            with self.subTest(weights_only=weights_only):
                self.validate_and_save(weights_only)

    def validate_and_save(self, weights_only):
        try:
            import lightning
        except ImportError as error:
            self.skipTest(f"no lightning: {error}")
        from longwave.lightning import LongwaveCallback

        seen = []  # t, v: a batch of training, of validation; c: a checkpoint; ( ): a pause

        @contextlib.contextmanager
        def pause(sync):
            seen.append("(")
            yield
            seen.append(")")

        class Module(lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.model = WithLoss()

            def training_step(self, rows):
                seen.append("t")
                return self.model(**rows)["loss"]

            def validation_step(self, rows):
                seen.append("v")

            def configure_optimizers(self):
                return torch.optim.SGD(self.parameters(), lr=0.1)

        callback = LongwaveCallback(self.cluster(), name="one")
        saves = lightning.pytorch.callbacks.ModelCheckpoint(
            self.root / f"out{weights_only}", every_n_train_steps=15, save_weights_only=weights_only)
        trainer = lightning.Trainer(
            max_epochs=1000, check_val_every_n_epoch=5, accelerator="cpu", callbacks=[callback, saves], logger=False,
            enable_progress_bar=False, enable_model_summary=False, default_root_dir=str(self.root))
        rows = torch.utils.data.DataLoader(Rows(), batch_size=8)
        save = trainer.strategy.save_checkpoint
        with mock.patch("longwave.sync.Sync.pause", pause), mock.patch.object(
                trainer.strategy, "save_checkpoint", lambda *args, **options: (seen.append("c"), save(*args, **options))):
            trainer.fit(Module(), rows, rows)
        self.assertNotIn("save_checkpoint", vars(trainer))
        ten, five = 10 * "t", 5 * "t"
        self.assertRegex("".join(seen), rf"^vv{ten}\(vv\){five}\(c\){five}\(vv\){ten}\(c\)\(vv\){ten}[^()]*$")

    def test_accelerate_counts_the_optimizers_own_steps(self):
        try:
            import accelerate
        except ImportError as error:
            self.skipTest(f"no accelerate: {error}")
        import longwave.accelerate

        accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
        model = WithLoss()
        model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=0.1))
        sync = longwave.accelerate.join(accelerator, model, optimizer, self.cluster(), name="one")
        passes = 0
        while not sync.done:
            x, y = batch(0, passes)
            with accelerator.accumulate(model):
                accelerator.backward(model(x, y)["loss"])
                optimizer.step()
                optimizer.zero_grad()
            passes += 1
        sync.finish()
        self.assertEqual((passes, sync.step_number), (80, 40))
