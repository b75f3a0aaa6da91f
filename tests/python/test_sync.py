"""longwave.Sync against a real coordinator and shard."""

import importlib.metadata
import os
import signal
import subprocess
import sys
import time

import torch
from sync_case import DEVICE, SyncCase, batch, perceptron, train, weights

import longwave


class TwoWorkers(SyncCase):
    def test_end_with_the_same_better_model(self):
        address = self.cluster(workers=2, run__steps=100)
        models = [perceptron(), perceptron()]

        def worker(i):
            optimizer = torch.optim.SGD(models[i].parameters(), lr=0.1)
            sync = longwave.Sync(models[i], optimizer, address, name=f"w{i}")
            self.assertEqual(sync.members, 2)
            moves = []
            losses = train(models[i], optimizer, sync, each=lambda: moves.append(sync.moved))
            self.assertEqual([step for step, moved in enumerate(moves) if moved], list(range(9, 100, 10)))
            self.assertEqual((sync.step_number, sync.steps, sync.rounds), (100, 100, 10))
            self.assertGreater(sync.bytes, 0)
            return losses, sync.writes_weights

        (losses, one_writes), (_, other_writes) = self.in_parallel(lambda: worker(0), lambda: worker(1))
        self.assertLess(sum(losses[-10:]), 0.5 * sum(losses[:10]))
        self.assertTrue(torch.equal(weights(models[0]), weights(models[1])))
        self.assertNotEqual(one_writes, other_writes)
        self.hand.assert_equal_replicas()

    def test_begin_with_the_weights_of_the_first(self):
        # With this worker's steps alone the run would be over before the other worker has fetched the weights.
        address = self.cluster(workers=2, run__start="member", run__steps=1_000_000)
        models = [perceptron(seed=1), perceptron(seed=2)]
        begun = []

        def worker(i):
            optimizer = torch.optim.SGD(models[i].parameters(), lr=0.0)
            sync = longwave.Sync(models[i], optimizer, address, name=f"w{i}")
            begun.append(weights(models[i]))
            while len(begun) < len(models):
                optimizer.step()
            sync.finish()

        starts = [weights(model) for model in models]
        self.in_parallel(lambda: worker(0), lambda: worker(1))
        self.assertTrue(torch.equal(begun[0], begun[1]))
        self.assertTrue(any(torch.equal(begun[0], start) for start in starts))

    def test_of_whom_one_is_in_bf16_and_nobody_trains_stay_where_they_began(self):
        address = self.cluster(workers=2, run__start="member", run__steps=200, sync__inner_steps=1)
        models = [perceptron(), perceptron(dtype=torch.bfloat16)]
        start = weights(models[0])
        rounded = start.bfloat16().float()
        self.assertFalse(torch.equal(start, rounded), "bf16 has these weights: the test shows nothing")

        def worker(i):
            if i == 1:  # the run's weights are the other worker's
                self.await_coordinator("(w0) registered")
            sync = longwave.Sync(models[i], None, address, name=f"w{i}")
            while not sync.done:
                sync.step()
                self.assertTrue(torch.equal(weights(models[i]), rounded if i == 1 else start))
            sync.finish()

        self.in_parallel(lambda: worker(0), lambda: worker(1))

    def test_with_another_model_are_refused(self):
        address = self.cluster(workers=2)
        other = torch.nn.Linear(3, 1)
        models = [perceptron(), other]
        refusals = []

        def worker(i):
            try:
                with longwave.Sync(models[i], None, address, name=f"w{i}"):
                    pass
            except longwave.LongwaveError as error:
                refusals.append((error.status, str(error)))
                self.start("longwave", "stop", address).finish()  # the other one waits no longer

        self.in_parallel(lambda: worker(0), lambda: worker(1))
        self.assertTrue(any(status in ("refused", "invalid") and "differs" in text for status, text in refusals), refusals)


class OneWorker(SyncCase):
    def run_with(self, model, optimizer=None, dtype=torch.float32, steps=40, **arguments):
        """Trains to the end; returns the model's weights and those of a copy that was trained without Longwave."""
        optimizer = optimizer or torch.optim.SGD(model.parameters(), lr=0.1)
        address = self.cluster(run__steps=steps, sync__eta=1, sync__mu=0)
        sync = longwave.Sync(model, optimizer, address, name="one", **arguments)
        losses = train(model, optimizer, sync, dtype)
        return losses

    def test_alone_trains_as_without_longwave(self):
        # With η 1 and no momentum the merged update equals the change by the inner steps.
        model, plain = perceptron(), perceptron()
        with_longwave = self.run_with(model)
        optimizer = torch.optim.SGD(plain.parameters(), lr=0.1)
        without = []
        for step in range(40):
            x, y = batch(0, step)
            loss = torch.nn.functional.mse_loss(plain(x), y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            without.append(loss.item())
        torch.testing.assert_close(torch.tensor(with_longwave), torch.tensor(without), rtol=1e-4, atol=1e-6)

    def test_an_alias_is_the_same_model_without_copies(self):
        copied, aliased = perceptron(), perceptron()
        before = self.run_with(copied)
        after = self.run_with(aliased, alias=True)
        self.assertEqual(before, after)
        self.assertTrue(torch.equal(weights(copied), weights(aliased)))
        pointers = [p.data_ptr() for p in aliased.parameters()]
        self.assertEqual(len({p.untyped_storage().data_ptr() for p in aliased.parameters()}), 1, pointers)

    def test_tied_and_frozen_parameters(self):
        class Tied(torch.nn.Module):
            def __init__(self):
                super().__init__()
                self.embedding = torch.nn.Embedding(16, 8)
                self.frozen = torch.nn.Linear(8, 8)
                self.head = torch.nn.Linear(8, 16, bias=False)
                self.head.weight = self.embedding.weight
                self.frozen.requires_grad_(False)

            def forward(self, x):
                return self.head(self.frozen(self.embedding(x)))

        torch.manual_seed(0)
        model = Tied().to(DEVICE)
        frozen = model.frozen.weight.clone()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        sync = longwave.Sync(model, optimizer, self.cluster(), name="one", alias=True)
        self.assertEqual(sync._member.run.parameters, 16 * 8)
        while not sync.done:
            x = torch.arange(16, device=DEVICE)
            loss = torch.nn.functional.cross_entropy(model(x), x)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        sync.finish()
        self.assertIs(model.head.weight, model.embedding.weight)
        self.assertTrue(torch.equal(model.frozen.weight, frozen))

    def test_a_step_that_a_scaler_skips_is_none(self):
        model = perceptron()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler(DEVICE, init_scale=2.0)
        sync = longwave.Sync(model, optimizer, self.cluster(), name="one")
        for poison in (False, True, False):
            x, y = batch(0, 0)
            scaler.scale(torch.nn.functional.mse_loss(model(x), y)).backward()
            if poison:
                next(model.parameters()).grad[0] = float("inf")
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
        self.assertEqual(sync.step_number, 2)
        sync.finish()

    def test_buffers_of_batch_norm_are_named_in_a_warning(self):
        model = torch.nn.Sequential(torch.nn.Linear(8, 4), torch.nn.BatchNorm1d(4)).to(DEVICE)
        address = self.cluster()
        with self.assert_warns("2 buffers of BatchNorm are not synced, .*: 1.running_mean, 1.running_var"):
            sync = longwave.Sync(model, None, address, name="one")
        sync.finish()

    def test_compiled_and_plain_are_one_model(self):
        from longwave._replica import trained_parameters

        class Compiled(torch.nn.Module):  # the names of torch.compile
            def __init__(self, model):
                super().__init__()
                self._orig_mod = model

        model = perceptron()
        for wrapped in (Compiled(model), torch.nn.DataParallel(model), torch.nn.Sequential(torch.nn.DataParallel(model))[0]):
            self.assertEqual(list(trained_parameters(wrapped)), [name for name, _ in model.named_parameters()])

    def test_what_cannot_be_synced_is_told_before_anyone_hears_of_it(self):
        for model, wanted in [
            (perceptron().requires_grad_(False), "got no parameter that requires a gradient"),
            (perceptron().half(), "0.weight: got torch.float16, wanted torch.float32 or torch.bfloat16"),
            (perceptron().to("meta"), "got a parameter on the meta device"),
        ]:
            with self.assertRaisesRegex(ValueError, wanted):
                longwave.Sync(model, None, "127.0.0.1:1")
        with self.assertRaisesRegex(ValueError, "alias: got 0.weight of torch.bfloat16"):
            longwave.Sync(perceptron(dtype=torch.bfloat16), None, "127.0.0.1:1", alias=True)
        with self.assertRaisesRegex(ValueError, "address: got none"):
            longwave.Sync(perceptron())
        with self.assertRaisesRegex(TypeError, "keep\\['x'\\]: got a int"):
            longwave.Sync(perceptron(), None, "127.0.0.1:1", keep={"x": 1})

    def test_a_loss_that_is_not_finite_ends_the_run_with_its_reason(self):
        model = perceptron()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        sync = longwave.Sync(model, optimizer, self.cluster(), name="one")
        sync.note(float("nan"))
        with self.assertRaisesRegex(longwave.LongwaveError, "the loss is nan at step 0") as caught:
            optimizer.step()
        self.assertEqual(caught.exception.status, "data")
        self.await_coordinator("the loss is nan at step 0")

    def test_a_run_that_was_finished_before_is_done_and_leaves_the_parameters(self):
        address = self.cluster()
        self.assertEqual(len(self.steps_until_done(address)), 40)
        for alias in (False, True):
            model = perceptron(seed=1)
            own = weights(model)
            with self.assert_warns(f"run is finished: .* not the run's.*longwave weights {address}"):
                sync = longwave.Sync(model, None, address, name="late", alias=alias)
            for _ in range(2):  # the second time after finish()
                self.assertEqual((sync.done, sync.moved, sync.writes_weights), (True, False, False))
                self.assertEqual((sync.step_number, sync.steps, sync.round, sync.rounds), (40, 40, 4, 4))
                self.assertIn("external", sync.configuration)
                sync.step()
                sync.finish()
            self.assertTrue(torch.equal(weights(model), own))

    def steps_until_done(self, address):
        model = perceptron()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        return train(model, optimizer, longwave.Sync(model, optimizer, address, name="one"))

    def test_an_exception_in_the_loop_is_told_to_the_run(self):
        address = self.cluster()
        with self.assertRaises(ZeroDivisionError):
            with longwave.Sync(perceptron(), None, address, name="one"):
                1 / 0
        self.await_coordinator("ZeroDivisionError: division by zero")


class Interval(SyncCase):
    """sync.inner_steps auto."""

    def test_a_loop_has_the_steps_of_each_round_that_all_have(self):
        address = self.cluster(workers=2, sync__inner_steps="auto", sync__inner_steps_min=2, sync__inner_steps_max=16,
                               run__steps=200)
        models = [perceptron(), perceptron()]
        seen = [{}, {}]  # steps taken and promised by round

        def worker(i):
            optimizer = torch.optim.SGD(models[i].parameters(), lr=0.01)
            sync = longwave.Sync(models[i], optimizer, address, name=f"w{i}")
            while not sync.done:
                taken, _ = seen[i].get(sync.round, (0, 0))
                seen[i][sync.round] = (taken + 1, sync.inner_steps)
                self.assertGreater(sync.rounds, sync.round)
                x, y = batch(i, sync.step_number)
                torch.nn.functional.mse_loss(models[i](x), y).backward()
                optimizer.step()
                optimizer.zero_grad()
            self.assertEqual(sync.step_number, 200)
            sync.finish()

        self.in_parallel(lambda: worker(0), lambda: worker(1))
        self.assertEqual(seen[0], seen[1])
        self.assertEqual(sum(taken for taken, _ in seen[0].values()), 200)
        for number, (taken, promised) in seen[0].items():
            if number < max(seen[0]):
                self.assertEqual(taken, promised, seen[0])
        self.assertTrue(torch.equal(weights(models[0]), weights(models[1])))

    def test_methods_that_sync_gradients_have_one(self):
        config = self.write_config(run__preset="ddp", sync__inner_steps="auto", model__kind="external")
        child = self.start("longwave", "config", "check", config)
        self.assertIn("sync.inner_steps: got auto, wanted 1 with sync.signal gradient", self.ends(child, 1)[1])


class Gradients(SyncCase):
    """Methods that sync each step's gradient."""

    def test_ddp_steps_with_the_mean_of_the_gradients(self):
        address = self.cluster(workers=2, run__preset="ddp", sync__inner_steps=1, run__steps=20)
        models = [perceptron(), perceptron()]

        def worker(i):
            inner = torch.optim.AdamW(models[i].parameters(), lr=0.01)
            optimizer = longwave.Optimizer(models[i].parameters(), inner=inner)
            return train(models[i], optimizer, longwave.Sync(models[i], optimizer, address, name=f"w{i}"))

        self.in_parallel(lambda: worker(0), lambda: worker(1))
        self.assertTrue(torch.equal(weights(models[0]), weights(models[1])))
        plain = perceptron()
        optimizer = torch.optim.AdamW(plain.parameters(), lr=0.01)
        for step in range(20):
            for worker_index in range(2):
                x, y = batch(worker_index, step)
                (torch.nn.functional.mse_loss(plain(x), y) / 2).backward()
            optimizer.step()
            optimizer.zero_grad()
        torch.testing.assert_close(weights(models[0]), weights(plain), rtol=1e-4, atol=1e-5)

    def test_methods_whose_update_is_the_optimizer(self):
        for preset in ("flexdemo", "demo"):
            with self.subTest(preset):
                address = self.cluster(run__preset=preset, sync__inner_steps=1, run__steps=150, train__learning_rate=0.03)
                model = perceptron()
                optimizer = longwave.Optimizer(model.parameters())
                losses = train(model, optimizer, longwave.Sync(model, optimizer, address, name="one"))
                self.assertLess(sum(losses[-10:]), 0.7 * sum(losses[:10]))

    def test_another_optimizer_is_refused(self):
        model = perceptron()
        inner = torch.optim.AdamW(model.parameters())
        with self.assertRaisesRegex(ValueError, "clip_norm: got 1.0 without inner, wanted 0"):
            longwave.Optimizer(model.parameters(), clip_norm=1.0)
        for preset, optimizer, wanted in [
            ("ddp", inner, "got AdamW, wanted longwave.Optimizer\\(params, inner=AdamW"),
            ("flexdemo", longwave.Optimizer(model.parameters(), inner=inner), "wanted longwave.Optimizer\\(params\\)"),
            ("diloco", longwave.Optimizer(model.parameters()), "wanted the inner optimizer itself"),
        ]:
            steps = 1 if preset != "diloco" else 10
            address = self.cluster(run__preset=preset, sync__inner_steps=steps)
            with self.assertRaisesRegex(ValueError, wanted):
                longwave.Sync(model, optimizer, address, name="one")

    def test_an_inner_optimizer_that_fails_is_heard_of(self):
        model = perceptron()
        inner = torch.optim.AdamW(model.parameters())
        inner.step = lambda: 1 / 0
        optimizer = longwave.Optimizer(model.parameters(), inner=inner)
        sync = longwave.Sync(model, optimizer, self.cluster(run__preset="ddp", sync__inner_steps=1), name="one")
        with self.assertRaises(ZeroDivisionError):
            optimizer.step()
        self.await_coordinator("the inner optimizer took no step: ZeroDivisionError: division by zero")
        sync.finish()  # nothing is left of it

    def test_an_inner_optimizer_that_is_interrupted_is_no_failure(self):
        def interrupted():
            raise KeyboardInterrupt

        model = perceptron()
        inner = torch.optim.AdamW(model.parameters())
        inner.step = interrupted
        optimizer = longwave.Optimizer(model.parameters(), inner=inner)
        sync = longwave.Sync(model, optimizer, self.cluster(run__preset="ddp", sync__inner_steps=1), name="one")
        with self.assertRaises(KeyboardInterrupt):
            optimizer.step()
        self.assertTrue(sync.done)
        self.await_coordinator("(one) leaves")

    def test_the_inner_optimizers_time_is_no_waiting(self):
        model = perceptron()
        inner = torch.optim.AdamW(model.parameters())
        step = inner.step
        inner.step = lambda: (time.sleep(0.1), step())
        optimizer = longwave.Optimizer(model.parameters(), inner=inner)
        address = self.cluster(run__preset="ddp", sync__inner_steps=1, run__steps=40)
        sync = longwave.Sync(model, optimizer, address, name="one")
        train(model, optimizer, sync)
        self.assertLess(sync._figures().seconds_syncing, sync._figures().seconds_computing)
        self.assertGreater(sync._figures().seconds_computing, 4)


class Package(SyncCase):
    def python(self, program, **environment):
        done = subprocess.run([sys.executable, "-c", program], env={**os.environ, **environment},
                              capture_output=True, text=True, check=False, timeout=120)
        return done.returncode, done.stdout + done.stderr

    def test_importing_it_imports_no_torch(self):
        program = "import longwave, sys; longwave.version(); print('torch' in sys.modules, longwave.LongwaveError)"
        self.assertEqual(self.python(program), (0, "False <class 'longwave.LongwaveError'>\n"))

    def test_beside_torch_grpc_and_zmq_in_either_order(self):
        for order in (("longwave", "torch", "grpc", "zmq"), ("torch", "grpc", "zmq", "longwave")):
            status, output = self.python(
                f"import {', '.join(order)}\n"
                "longwave.version(); grpc.insecure_channel('127.0.0.1:1').close(); zmq.Context().socket(zmq.PUSH).close()\n"
                "print(torch.ones(2).sum().item())")
            self.assertEqual((status, output), (0, "2.0\n"), order)

    def test_comes_as_a_wheel_for_any_python_of_this_platform(self):
        try:
            installed = importlib.metadata.distribution("longwave")
        except importlib.metadata.PackageNotFoundError:
            self.skipTest("the package is not installed (tests/python/run.sh installs it)")
        self.assertIn("Tag: py3-none-manylinux_2_35_x86_64\n", installed.read_text("WHEEL"))

    def test_a_missing_library_is_named(self):
        status, output = self.python("import longwave; longwave.version()", LONGWAVE_LIBRARY="/nowhere.so")
        self.assertEqual(status, 1)
        self.assertIn("ImportError: liblongwave.so: got /nowhere.so, wanted", output)
