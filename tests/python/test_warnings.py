"""Warnings of the run about workers that are probably not as they were meant."""

import json

import torch
from sync_case import SyncCase, perceptron, train

import longwave


class TwoWorkers(SyncCase):
    def both(self, models, each=lambda sync, step: None, data=None):
        """Trains two workers to the end, and returns the status. data: the worker whose rows both see."""
        address = self.cluster(workers=2, run__start="member", run__steps=60)

        def worker(i):
            optimizer = torch.optim.SGD([p for p in models[i].parameters() if p.requires_grad], lr=0.1)
            with longwave.Sync(models[i], optimizer, address, name=f"w{i}") as sync:
                step = 0
                while not sync.done:
                    rows = torch.Generator().manual_seed(1000 * (sync.worker if data is None else data) + step)
                    x = torch.randn(16, 8, generator=rows)
                    loss = models[i](x).square().mean()
                    loss.backward()
                    each(sync, loss)
                    optimizer.step()
                    optimizer.zero_grad()
                    step += 1

        self.in_parallel(lambda: worker(0), lambda: worker(1))
        return json.loads(self.start("longwave", "status", address, "--json").finish()[1])

    def test_with_the_same_data_are_warned_of_and_with_their_own_not(self):
        def note(sync, loss):
            sync.note(loss)

        same = self.both([perceptron(), perceptron()], note, data=5)
        self.assertEqual(len(same["warnings"]), 1, same["warnings"])
        self.assertRegex(same["warnings"][0], "^w[01] and w[01] have had the same training loss, to the last bit")
        own = self.both([perceptron(), perceptron()], note)
        self.assertEqual(own["warnings"], [])
        self.assertGreater(own["train_loss"], 0)

    def test_without_a_loss_have_none(self):
        status = self.both([perceptron(), perceptron()], data=5)
        self.assertIsNone(status["train_loss"])
        self.assertEqual([worker["train_loss"] for worker in status["workers"]], [None, None])
        self.assertEqual(status["warnings"], [])

    def test_have_their_own_warnings_in_the_status_once(self):
        status = self.both([perceptron(), perceptron()], lambda sync, loss: sync._member.warn("no seed ✓"))
        self.assertEqual(sorted(status["warnings"]), ["w0: no seed ✓", "w1: no seed ✓"])
