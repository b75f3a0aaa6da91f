"""The common part of longwave.Sync's tests: a run's coordinator and shard as processes, its workers in this one."""

import contextlib
import os
import shutil
import threading

import torch
from by_hand import HandCluster
from harness import IntegrationTest

import longwave

SETTINGS = {
    "run__preset": "diloco", "run__steps": 40, "model__kind": "external", "train__learning_rate": 0.1,
    "train__warmup_steps": 0, "sync__inner_steps": 10,
}

DEVICE = os.environ.get("LONGWAVE_TEST_DEVICE", "cpu")  # of the models (tests/gpu/python.sh)


class SyncCase(IntegrationTest):
    def setUp(self):
        super().setUp()
        longwave.set_log_level("warning")

    def cluster(self, workers=1, **settings):
        """Returns the coordinator's address. A test's cluster of before ends."""
        for child in self.children:
            child.close()
        shutil.rmtree(self.root / "state", ignore_errors=True)
        self.hand = HandCluster(self, workers=workers, shards=1, started=0, **{**SETTINGS, **settings})
        return self.hand.address

    @contextlib.contextmanager
    def assert_warns(self, *patterns):
        """Wants these warnings and no others, each at a line of this folder that its text names."""
        with self.assertLogs("longwave", "WARNING") as caught:
            yield caught
        self.assertEqual(len(caught.records), len(patterns), caught.output)
        for record, pattern in zip(caught.records, patterns):
            self.assertRegex(record.getMessage(), pattern)
            folder, file = os.path.split(record.pathname)
            self.assertEqual(folder, os.path.dirname(__file__))
            self.assertIn(f"longwave: {file}:{record.lineno}: ", record.getMessage())

    def await_coordinator(self, text):
        self.hand.children["coordinator"].await_log(text)

    def in_parallel(self, *workers):
        """Calls each on a thread of its own; returns what they return, or raises what the first of them raises."""
        results = [None] * len(workers)

        def call(i):
            try:
                results[i] = workers[i]()
            except BaseException as error:  # pylint: disable=broad-except
                results[i] = error

        threads = [threading.Thread(target=call, args=(i,)) for i in range(len(workers))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for result in results:
            if isinstance(result, BaseException):
                raise result
        return results


def perceptron(seed=0, dtype=torch.float32):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)).to(DEVICE, dtype)


def batch(worker, step, dtype=torch.float32):
    generator = torch.Generator().manual_seed(1000 * worker + step)
    x = torch.randn(16, 8, generator=generator)
    return x.to(DEVICE, dtype), x.sum(dim=1, keepdim=True).tanh().to(DEVICE, dtype)


def train(model, optimizer, sync, dtype=torch.float32, each=lambda: None):
    """Until the run is over; returns the losses."""
    losses = []
    while not sync.done:
        x, y = batch(sync.worker, sync.step_number, dtype)
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        sync.note(loss)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
        each()
    sync.finish()
    return losses


def weights(model):
    return torch.cat([p.detach().float().reshape(-1) for p in model.parameters()])
