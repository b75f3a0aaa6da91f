"""Loops that do what their authors did not think of."""

import os
import pickle
import signal
import subprocess
import sys
import threading
import traceback
import unittest
import unittest.mock

import numpy
import torch
from sync_case import SyncCase, batch, perceptron

import longwave


class OddLoops(SyncCase):
    def sync(self, model, optimizer=None, **arguments):
        return longwave.Sync(model, optimizer, self.cluster(), name="one", **arguments)

    def train_a_step(self, model, optimizer, sync, **note):
        x, y = batch(0, 0)
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        sync.note(loss, **note)
        optimizer.step()
        optimizer.zero_grad()

    def test_tokens_are_any_number(self):
        model = perceptron()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        sync = self.sync(model, optimizer, tokens=16.0)
        for tokens in (torch.tensor(5), torch.tensor(5.0), 5.0, numpy.int64(5), 0, None):
            self.train_a_step(model, optimizer, sync, tokens=tokens)
        self.assertEqual(sync._member.figures().tokens, 4 * 5 + 1 + 16)
        sync.finish()

    def test_a_kept_state_may_ask_where_the_run_is(self):
        class Asks:
            def state_dict(self):
                return {"step": kept.sync.step_number if kept.sync else 0}

            def load_state_dict(self, state_dict):
                pass

        kept = Asks()
        kept.sync = None
        kept.sync = sync = self.sync(perceptron(), None, state_dir=str(self.root / "kept"), keep={"odd": kept})
        while not sync.done:
            sync.step()
        sync.finish()

    def test_a_signals_handler_may_ask_where_the_run_is(self):
        models, asked, idle = [perceptron(), perceptron()], [], []
        address = self.cluster(workers=2, run__steps=20, sync__quorum=1.0)
        thread = threading.Thread(target=lambda: idle.append(longwave.Sync(models[1], None, address, name="other")))

        def ask(number, frame):
            asked.append(sync.step_number)
            os.kill(os.getpid(), signal.SIGTERM)

        self.addCleanup(signal.signal, signal.SIGUSR1, signal.signal(signal.SIGUSR1, ask))
        thread.start()
        sync = longwave.Sync(models[0], None, address, name="one")
        thread.join()
        timer = threading.Timer(1, os.kill, (os.getpid(), signal.SIGUSR1))
        for _ in range(10):
            if not asked and sync.step_number == 9:
                timer.start()
            sync.step()
        timer.join()
        self.assertEqual(asked, [9])
        self.assertTrue(sync.done)
        for one in (sync, *idle):
            one.step()
            one.finish()

    def test_of_the_first_fsdp_it_says_which_one_is_wanted(self):
        class FullyShardedDataParallel(torch.nn.Sequential):
            """The name is what tells it."""

        with self.assertRaisesRegex(ValueError, r"got FullyShardedDataParallel \(FSDP1\), wanted fully_shard"):
            longwave.Sync(torch.nn.Sequential(FullyShardedDataParallel(perceptron())), None, "127.0.0.1:1")

    def test_parameters_that_are_replaced_after_sync_are_noticed(self):
        with self.assertRaisesRegex(RuntimeError, "got another dtype than when Sync was made"):
            model = perceptron()
            sync = self.sync(model)
            model.to(torch.bfloat16)
            while not sync.done:
                sync.step()
        self.await_coordinator("got another dtype than when Sync was made")
        model = perceptron()
        optimizer = longwave.Optimizer(model.parameters())
        sync = longwave.Sync(model, optimizer, self.cluster(run__preset="demo", sync__inner_steps=1), name="one", alias=True)
        model.to(torch.bfloat16).to(torch.float32)
        with self.assertRaisesRegex(RuntimeError, "alias: the data of a parameter of shape"):
            self.train_a_step(model, optimizer, sync)

    def test_a_schedule_takes_an_optimizer_without_an_inner_one(self):
        optimizer = longwave.Optimizer(perceptron().parameters())
        torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5).step()
        self.assertEqual(optimizer.param_groups[0]["lr"], 0)

    def test_a_refusal_is_a_sentence_below_the_loops_line(self):
        try:
            longwave.Sync(perceptron(), None, "127.0.0.1:1", settings=["no.such_key=1"])
        except longwave.LongwaveError as error:
            lines = traceback.format_exception(error)
        self.assertEqual(len(lines), 4, lines)  # with the heading; one line of the package
        self.assertIn(__file__, lines[1])
        self.assertRegex(lines[3], r"^longwave\.LongwaveError: .*no\.such_key")

    def test_an_error_passes_to_another_process(self):
        error = pickle.loads(pickle.dumps(longwave.LongwaveError("over", -5)))
        self.assertEqual((str(error), error.status), ("over", "ended"))

    def test_a_loss_of_a_step_that_a_scaler_skips_spoils_nothing(self):
        for notes_first in (True, False):
            with self.subTest(notes_first=notes_first):
                model = perceptron()
                optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
                scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
                sync = self.sync(model, optimizer)
                for factor in (1, float("nan"), float("nan"), 1, 1):
                    x, y = batch(0, 0)
                    loss = factor * torch.nn.functional.mse_loss(model(x), y)
                    scaler.scale(loss).backward()
                    if notes_first:
                        sync.note(loss)
                    scaler.step(optimizer)
                    scaler.update()
                    optimizer.zero_grad()
                    if not notes_first:
                        sync.note(loss)
                self.assertEqual(sync.step_number, 3)
                sync.finish()

    def test_a_loss_that_is_not_finite_of_a_step_that_is_taken_ends_the_run(self):
        model = perceptron()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        sync = self.sync(model, optimizer)
        self.train_a_step(model, optimizer, sync)
        optimizer.step()
        sync.note(float("inf"))
        with self.assertRaisesRegex(longwave.LongwaveError, "the loss is inf at step 2"):
            optimizer.step()

    def test_an_optimizer_that_takes_no_hook_is_refused_before_anyone_hears_of_it(self):
        class Wrapped(torch.optim.Optimizer):  # as Accelerate's: without its base class's attributes
            def __init__(self, optimizer):
                self.optimizer = optimizer

            param_groups = property(lambda self: self.optimizer.param_groups)

        model = perceptron()
        inner = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu")
        for optimizer, name in ((Wrapped(inner), "Wrapped"), ([inner], "list"), ("sgd", "str"), (scaler, "GradScaler")):
            with self.assertRaisesRegex(TypeError, f"optimizer: got a {name}, wanted a torch.optim.Optimizer: of several the"):
                longwave.Sync(model, optimizer, "127.0.0.1:1")

    def test_what_the_optimizer_has_beside_the_model_is_named_in_a_warning(self):
        model, head = perceptron(), torch.nn.Linear(5, 7)
        optimizer = torch.optim.SGD([*model.parameters(), *head.parameters()], lr=0.1)
        with self.assert_warns(r"2 parameters .* not synced, .*: the optimizer's \(7, 5\), the optimizer's \(7,\)\."):
            sync = self.sync(model, optimizer)
        sync.finish()

    def test_what_is_trained_later_is_named_in_a_warning_once(self):
        for has_optimizer in (True, False):
            model = perceptron()
            model[0].requires_grad_(False)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            with self.assertNoLogs("longwave"):
                sync = self.sync(model, optimizer if has_optimizer else None)
            model[0].requires_grad_(True)
            with self.assert_warns(r"2 parameters are trained and not synced, each worker has its own: 0.weight, 0.bias\. "):
                while not sync.done:
                    self.train_a_step(model, optimizer, sync)
                    if not has_optimizer:
                        sync.step()
            sync.finish()

    def test_of_a_parameter_that_can_not_be_copied_the_coordinator_hears(self):
        model = perceptron()
        sync = self.sync(model, None, alias=True)
        model[0].weight.data = torch.zeros(16, 8)
        with self.assertRaisesRegex(RuntimeError, "alias: the data of a parameter"):
            while not sync.done:
                sync.step()
        self.await_coordinator("alias: the data of a parameter")

    def test_a_loop_may_change_its_working_directory(self):
        before = os.getcwd()
        os.chdir(self.root)
        try:
            sync = longwave.Sync(perceptron(), None, self.cluster(run__steps=1000), name="one", state_dir="kept")
            (self.root / "elsewhere").mkdir()
            os.chdir(self.root / "elsewhere")
            for _ in range(25):
                sync.step()
            sync.finish()
        finally:
            os.chdir(before)
        self.assertTrue((self.root / "kept/checkpoint").exists())

    def test_the_inner_optimizers_groups_are_longwaves_also_where_its_state_was_loaded(self):
        model = perceptron()
        inner = torch.optim.AdamW(model.parameters())
        optimizer = longwave.Optimizer(model.parameters(), inner=inner)
        for loads in (inner, optimizer):
            loads.load_state_dict(inner.state_dict())  # makes new groups
            optimizer.param_groups[0]["lr"] += 1
            self.assertEqual(optimizer.param_groups[0]["lr"], inner.param_groups[0]["lr"])
        own = longwave.Optimizer([{"params": [p], "lr": 1} for p in model.parameters()])
        state = own.state_dict()
        state["param_groups"][3]["lr"] = 2
        own.load_state_dict(state)
        self.assertEqual([group["lr"] for group in own.param_groups], [1, 1, 1, 2])

    def test_a_schedule_that_waits_for_a_metric_is_not_moved(self):
        from longwave._callback import advance

        optimizer = torch.optim.SGD(perceptron().parameters(), lr=0.1)
        plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer)
        steps = torch.optim.lr_scheduler.StepLR(optimizer, step_size=10)
        optimizer.step()
        for schedule in (plateau, steps):
            advance(schedule, 3)
        self.assertEqual((plateau.last_epoch, steps.last_epoch), (0, 3))

    def test_a_handler_of_sigterm_that_the_script_sets_later_stays(self):
        sync = self.sync(perceptron())

        def own(number, frame):
            pass

        signal.signal(signal.SIGTERM, own)
        try:
            sync.finish()
            self.assertIs(signal.getsignal(signal.SIGTERM), own)
        finally:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)

    def test_sigterm_ends_all_workers_of_the_process(self):
        address = self.cluster(workers=2, run__steps=1_000_000)
        models = [perceptron(), perceptron()]  # by this thread: the seed is the process's
        syncs = []
        thread = threading.Thread(target=lambda: syncs.append(longwave.Sync(models[1], None, address, name="other")))
        thread.start()
        syncs.append(longwave.Sync(models[0], None, address, name="one"))
        thread.join()
        os.kill(os.getpid(), signal.SIGTERM)
        for sync in syncs:
            sync.step()
            self.assertTrue(sync.done)
            sync.finish()
        self.assertIs(signal.getsignal(signal.SIGTERM), signal.SIG_DFL)

    def test_a_process_whose_sync_another_thread_has_finished_ends_at_sigterm(self):
        program = (
            "import longwave, os, signal, sys, threading; sys.path.insert(0, sys.argv[2]); import conftest\n"
            "from sync_case import perceptron\n"
            "sync = longwave.Sync(perceptron(), None, sys.argv[1], name='one')\n"
            "thread = threading.Thread(target=sync.finish); thread.start(); thread.join()\n"
            "os.kill(os.getpid(), signal.SIGTERM)\n"
            "print('goes on')")
        done = subprocess.run([sys.executable, "-c", program, self.cluster(), os.path.dirname(__file__)],
                              capture_output=True, text=True, check=False, timeout=120)
        self.assertEqual((done.returncode, done.stdout), (-signal.SIGTERM, ""), done.stderr)

    def test_a_folder_is_free_again_if_joining_was_interrupted(self):
        from longwave import _library

        address, folder = self.cluster(), str(self.root / "kept")
        library = _library.library()
        join = library.lw_join

        class Interrupted:
            """The signal comes while the call succeeds."""

            def __getattr__(self, name):
                return getattr(library, name) if name != "lw_join" else self.join

            def join(self, *arguments):
                status = join(*arguments)
                signal.raise_signal(signal.SIGINT)
                return status

        # A shell's background jobs ignore the signal.
        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler))
        with unittest.mock.patch("longwave._member.library", Interrupted):
            with self.assertRaises(KeyboardInterrupt):
                longwave.Sync(perceptron(), None, address, name="one", state_dir=folder)
        longwave.Sync(perceptron(), None, address, name="one", state_dir=folder).finish()


if __name__ == "__main__":
    unittest.main()
