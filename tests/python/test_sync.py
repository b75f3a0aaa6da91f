"""longwave.Sync against a real coordinator and shard."""

import sys
import subprocess
import warnings

import torch
from sync_case import SyncCase, batch, perceptron, train, weights

import longwave


class Sync(SyncCase):
    def test_two_workers_end_with_the_same_better_model(self):
        address = self.cluster(workers=2, run__steps=100)

        def worker(name):
            model = perceptron()
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            sync = longwave.Sync(model, optimizer, address, name=name)
            moves = []
            losses = train(model, optimizer, sync, each=lambda: moves.append(sync.moved))
            self.assertEqual([i for i, moved in enumerate(moves) if moved], list(range(9, 100, 10)))
            self.assertEqual((sync.step_number, sync.steps, sync.rounds, sync.members), (100, 100, 10, 2))
            self.assertGreater(sync.bytes, 0)
            return losses, weights(model)

        (losses, one), (_, other) = self.in_parallel(lambda: worker("one"), lambda: worker("other"))
        self.assertLess(sum(losses[-10:]), 0.5 * sum(losses[:10]))
        self.assertTrue(torch.equal(one, other))
        self.assertTrue(all(record["replicas_equal"] for record in self.hand.rounds()))
