"""Which of a loop's steps the run counts, and what is said of those that it does not."""

import os
import pathlib
import signal
import subprocess
import sys
import unittest
from collections import OrderedDict
from unittest import mock

import torch
from sync_case import SyncCase, batch, perceptron

import longwave
from longwave._steps import UNCOUNTED_AFTER_STOP_MAX, UNCOUNTED_MAX

UNCOUNTED = "the run has counted no step: this worker trains alone. Sync counts {} A loop .* Sync\\(model, None\\)"


class Clips(torch.optim.SGD):
    """PyTorch wraps step() of this class and of its base class, and both run the hooks."""

    raises = False

    def step(self, closure=None):
        if self.raises:
            raise ZeroDivisionError
        torch.nn.utils.clip_grad_norm_([p for group in self.param_groups for p in group["params"]], 1.0)
        return super().step(closure)


class Sam(torch.optim.Optimizer):
    def __init__(self, parameters, base):
        super().__init__(parameters, {})
        self.base = base(self.param_groups, lr=0.1)

    def first_step(self):
        with torch.no_grad():
            for p in self.param_groups[0]["params"]:
                self.state[p]["old"] = p.clone()
                p.add_(p.grad, alpha=0.1)
        self.zero_grad()

    def second_step(self):
        with torch.no_grad():
            for p in self.param_groups[0]["params"]:
                p.copy_(self.state[p]["old"])
        self.base.step()
        self.zero_grad()

    def step(self, closure):
        with torch.enable_grad():
            closure()
        self.first_step()
        with torch.enable_grad():
            closure()
        self.second_step()


class WithoutInit(torch.optim.Optimizer):
    """As timm's Lookahead, whose step() PyTorch has not wrapped when Sync is made."""

    def __init__(self, base):
        self._optimizer_step_pre_hooks, self._optimizer_step_post_hooks = OrderedDict(), OrderedDict()
        self._base, self.param_groups, self.defaults, self.state = base, base.param_groups, base.defaults, {}

    def step(self, closure=None):
        return self._base.step(closure)


class Steps(SyncCase):
    def setUp(self):
        super().setUp()
        self.model = perceptron()

    def sync(self, optimizer, **settings):
        return longwave.Sync(self.model, optimizer, self.cluster(run__steps=1_000_000, **settings), name="one")

    def pass_back(self, step=0):
        x, y = batch(0, step)
        loss = torch.nn.functional.mse_loss(self.model(x), y)
        loss.backward()
        return loss

    def test_a_step_that_calls_its_base_class_is_one(self):
        torch.optim.SGD(perceptron().parameters(), lr=0.1)  # one of the base class exists, too
        optimizer = Clips(self.model.parameters(), lr=0.1)
        sync = self.sync(optimizer)
        for step in range(3):
            self.pass_back(step)
            optimizer.step()
        self.assertEqual(sync.step_number, 3)
        sync.finish()

    def test_a_step_counts_after_one_that_has_raised(self):
        optimizer = Clips(self.model.parameters(), lr=0.1)
        sync = self.sync(optimizer)
        self.pass_back()
        for optimizer.raises in (True, False, True, False):
            with self.subTest(optimizer.raises):
                before = sync.step_number
                try:
                    optimizer.step()
                except ZeroDivisionError:
                    pass
                self.assertEqual(sync.step_number, before + (not optimizer.raises))
        sync.finish()

    def test_a_step_with_a_closure_and_a_base_optimizer_is_one(self):
        optimizer = Sam(self.model.parameters(), torch.optim.SGD)
        sync = self.sync(optimizer)
        with self.assertNoLogs("longwave"):
            for step in range(UNCOUNTED_MAX):
                optimizer.step(lambda step=step: self.pass_back(step))
            self.assertEqual(sync.step_number, UNCOUNTED_MAX)
        sync.finish()

    def test_a_step_of_an_optimizer_without_its_base_class_counts(self):
        optimizer = WithoutInit(torch.optim.SGD(self.model.parameters(), lr=0.1))
        sync = self.sync(optimizer)
        for step in range(3):
            self.pass_back(step)
            optimizer.step()
            self.model.zero_grad()
        self.assertEqual(sync.step_number, 3)
        sync.finish()

    def warns_of(self, sync, counts, step, times):
        with self.assertNoLogs("longwave"):
            for _ in range(times - 1):
                step()
        with self.assert_warns(UNCOUNTED.format(counts)):
            for _ in range(5):
                step()
        self.assertEqual(sync.step_number, 0)
        sync.finish()

    def test_of_steps_in_two_halves_it_says_that_none_counts(self):
        optimizer = Sam(self.model.parameters(), torch.optim.SGD)

        def step():
            self.pass_back()
            optimizer.first_step()
            self.pass_back()
            optimizer.second_step()

        self.warns_of(self.sync(optimizer), r"step\(\) of the Sam that it was given\.", step, UNCOUNTED_MAX // 2)

    def test_of_another_optimizer_than_the_given_one_it_says_that_none_counts(self):
        given, used = (torch.optim.AdamW(self.model.parameters()) for _ in range(2))

        def step():
            self.pass_back()
            used.step()

        self.warns_of(self.sync(given), r"step\(\) of the AdamW that it was given\.", step, UNCOUNTED_MAX)

    def test_of_a_loop_without_backward_passes_the_noted_losses_tell_it(self):
        sync = self.sync(None)

        def step():
            with torch.no_grad():
                for parameter in self.model.parameters():
                    parameter.mul_(0.99)
            sync.note(1.0)

        self.warns_of(sync, r"sync\.step\(\)\.", step, UNCOUNTED_MAX + 1)

    def test_backward_passes_without_a_step_between_them_are_as_many_as_one_likes(self):
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        sync = self.sync(optimizer)
        with self.assertNoLogs("longwave"):
            for _ in range(2):
                for _ in range(UNCOUNTED_MAX + 5):
                    sync.note(self.pass_back())
                optimizer.step()
        sync.finish()

    def test_a_call_beside_the_hook_is_warned_of(self):
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        sync = self.sync(optimizer)
        with self.assert_warns(r"sync.step\(\) counts a step beside the hook, .* hook=False"):
            for _ in range(2):
                optimizer.step()
                sync.step()
        self.assertEqual(sync.step_number, 4)
        sync.finish()

    @mock.patch("longwave._steps.ASKED_MAX", 100)
    def test_of_a_loop_without_batches_it_says_so_and_sigterm_ends_it(self):
        sync = self.sync(torch.optim.SGD(self.model.parameters(), lr=0.1))
        with self.assert_warns("sync.done was read 100 times, and no step was taken"):
            for _ in range(105):
                self.assertFalse(sync.done)
        with self.assertRaises(SystemExit) as ended:
            os.kill(os.getpid(), signal.SIGTERM)
        self.assertEqual(ended.exception.code, 128 + signal.SIGTERM)
        sync.finish()

    @mock.patch("longwave._steps.ASKED_MAX", 100)
    def test_a_loop_that_asks_as_often_as_it_computes_is_none_without_batches(self):
        optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)
        sync = self.sync(optimizer)
        with self.assertNoLogs("longwave"):
            for does in (lambda: sync.note(1.0), self.pass_back, optimizer.step):
                for _ in range(99):
                    self.assertFalse(sync.done)
                does()
        sync.finish()

    def ends_at_a_signal(self, before):
        """A program's status: it takes so many steps that do not count, gets SIGTERM, and goes on."""
        program = (
            "import longwave, os, signal, sys, torch; sys.path.insert(0, sys.argv[2]); import conftest\n"
            "from sync_case import batch, perceptron\n"
            "model = perceptron(); given, used = (torch.optim.SGD(model.parameters(), lr=0.1) for _ in range(2))\n"
            "sync = longwave.Sync(model, given, sys.argv[1], name='one')\n"
            "for step in range(10_000):\n"
            f"    if step == {before}: os.kill(os.getpid(), signal.SIGTERM)\n"
            "    x, y = batch(0, step); (model(x) - y).square().mean().backward(); used.step(); print(step)\n")
        done = subprocess.run([sys.executable, "-c", program, self.cluster(), pathlib.Path(__file__).parent],
                              capture_output=True, text=True, check=False, timeout=120)
        self.await_coordinator("(one) leaves")
        self.assertIn("the run has counted no step", done.stderr)
        return done.returncode, int(done.stdout.split()[-1]) + 1

    def test_sigterm_ends_a_process_whose_steps_do_not_count(self):
        status, steps = self.ends_at_a_signal(before=10)
        self.assertEqual(status, 128 + signal.SIGTERM)
        self.assertLessEqual(steps, 10 + UNCOUNTED_AFTER_STOP_MAX + 1)

    def test_sigterm_ends_a_process_at_once_that_was_warned(self):
        self.assertEqual(self.ends_at_a_signal(before=2 * UNCOUNTED_MAX), (128 + signal.SIGTERM, 2 * UNCOUNTED_MAX))


if __name__ == "__main__":
    unittest.main()
