"""The order of the loop's CUDA stream and the library's in a callback, on a machine without CUDA."""

import unittest
from unittest import mock

import torch

import longwave
from longwave._loop import Loop
from longwave._replica import Replica


class Stream:
    def __init__(self, name, seen):
        self.name, self.seen = name, seen

    def wait_stream(self, other):
        self.seen.append(f"{self.name} waits for {other.name}")


class Streams(unittest.TestCase):
    def test_the_library_goes_on_after_the_step_with_the_merged_gradient(self):
        seen = []
        model = torch.nn.Linear(1, 1)
        optimizer = longwave.Optimizer(model.parameters(), inner=torch.optim.SGD(model.parameters(), lr=1.0))
        loop = Loop({}, optimizer, node=None, shards=False)
        loop.replica = Replica(list(model.parameters()), [0, 1], 2, sends_gradient=True, alias=False)
        loop.replica._stream = Stream("library", seen)
        for owner, name in ((loop.replica, "scatter_gradient"), (optimizer, "step_merged"), (loop.replica, "gather")):
            setattr(owner, name, lambda *_, name=name: seen.append(name))
        with mock.patch("torch.cuda.current_stream", lambda device: Stream("loop", seen)):
            loop.gradient_ready()
        self.assertEqual(seen, ["loop waits for library", "scatter_gradient", "step_merged", "gather",
                                "library waits for loop"])


if __name__ == "__main__":
    unittest.main()
