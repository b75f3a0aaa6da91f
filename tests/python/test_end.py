"""Loops that go on after the run's end, or end before it."""

import subprocess
import sys
import unittest

import torch
from sync_case import SyncCase, batch, perceptron, weights

import longwave

LEFT = r"the loop has ended at step 25 of the run's 40 \(run.steps\): this worker leaves"


class Ends(SyncCase):
    def setUp(self):
        super().setUp()
        self.model = perceptron()
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.1)

    def sync(self, **arguments):
        return longwave.Sync(self.model, self.optimizer, self.cluster(), name="one", **arguments)

    def step(self):
        x, y = batch(0, 0)
        torch.nn.functional.mse_loss(self.model(x), y).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()

    def go_on(self, sync):
        """Two loops, of which a break leaves the inner one alone; returns the weights at the run's end and after the loops."""
        at_end = None
        for _ in range(5):
            for _ in range(15):
                self.step()
                if sync.done:
                    at_end = weights(self.model).clone() if at_end is None else at_end
                    break
        return at_end, weights(self.model)

    def test_steps_after_the_end_are_warned_of_and_finish_puts_the_runs_parameters_back(self):
        for dtype in (torch.float32, torch.bfloat16):
            with self.subTest(dtype=dtype):
                self.model.to(dtype)
                sync = self.sync()
                forward = self.model.forward
                self.model.forward = lambda x, forward=forward, dtype=dtype: forward(x.to(dtype)).float()
                with self.assert_warns(r"a step after the end .*: finish\(\) puts the run's back\. .*while not sync.done"):
                    at_end, after = self.go_on(sync)
                self.assertFalse(torch.equal(at_end, after))
                sync.finish()
                self.assertTrue(torch.equal(at_end, weights(self.model)))
                self.model.forward = forward

    def test_of_an_alias_they_cannot_be_put_back(self):
        sync = self.sync(alias=True)
        with self.assert_warns("a step after the end .*: they are no longer the run's"):
            self.go_on(sync)
        sync.finish()

    def test_what_is_done_to_the_parameters_without_steps_stays(self):
        sync = self.sync()
        while not sync.done:
            self.step()
        with torch.no_grad(), self.assertNoLogs("longwave"):
            for parameter in self.model.parameters():
                parameter.zero_()
            sync.finish()
        self.assertEqual(weights(self.model).abs().sum(), 0)

    def test_a_loop_that_ends_before_the_run_is_told(self):
        sync = self.sync()
        for _ in range(25):
            self.step()
        with self.assert_warns(LEFT):
            sync.finish()
        self.await_coordinator("(one) leaves")

    def test_a_sync_that_is_dropped_before_the_end_is_told(self):
        sync = self.sync()
        for _ in range(25):
            self.step()
        with self.assert_warns(LEFT):
            del sync

    def test_a_process_that_exits_before_the_end_is_told(self):
        program = (
            "import longwave, sys; sys.path.insert(0, sys.argv[2]); import conftest; from sync_case import perceptron\n"
            "sync = longwave.Sync(perceptron(), None, sys.argv[1], name='one')\n"
            "for _ in range(25): sync.step()\n")
        done = subprocess.run([sys.executable, "-c", program, self.cluster(), __file__.rpartition("/")[0]],
                              capture_output=True, text=True, check=True, timeout=120)
        self.assertRegex(done.stderr, "longwave: " + LEFT)


if __name__ == "__main__":
    unittest.main()
