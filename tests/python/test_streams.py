"""The package's use of CUDA's devices and streams, on a machine without CUDA."""

import contextlib
import types
import unittest
from unittest import mock

import torch

import longwave
from longwave import _replica
from longwave import sync as sync_module
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

    def test_a_worker_leaves_and_is_closed_on_the_models_device(self):
        seen = []

        @contextlib.contextmanager
        def on_device():
            seen.append("device")
            yield
            seen.append("device before")

        loop = Loop({}, None, node=None, shards=False)
        member = types.SimpleNamespace(figures=lambda: types.SimpleNamespace(step=2), run=types.SimpleNamespace(steps=2),
                                       leave=lambda: seen.append("leave"), close=lambda: seen.append("close"))
        with mock.patch.object(sync_module, "unwatch"):
            sync_module._drop(member, loop)  # before the model has come there is no device to change to
            loop.replica = types.SimpleNamespace(on_device=on_device)
            sync_module._drop(member, loop)
        self.assertEqual(seen, ["leave", "close", "device", "leave", "device before", "device", "close", "device before"])

    def test_a_second_gpu_of_a_process_is_refused(self):
        with mock.patch("torch.cuda.current_stream", lambda device: device.index), mock.patch.object(_replica, "_device", None):
            self.assertIsNone(_replica._stream_of(torch.device("cpu")))
            self.assertEqual(_replica._stream_of(torch.device("cuda:1")), 1)
            self.assertEqual(_replica._stream_of(torch.device("cuda:1")), 1)
            with self.assertRaisesRegex(ValueError, "got parameters on cuda:0, wanted cuda:1, on which this process has synced"):
                _replica._stream_of(torch.device("cuda:0"))

    def test_a_step_in_the_capture_of_a_graph_is_refused(self):
        model = torch.nn.Linear(1, 1)
        replica = Replica(list(model.parameters()), [0, 1], 2, sends_gradient=False, alias=False)
        with mock.patch("torch.cuda.is_current_stream_capturing", lambda: True):
            replica.refuse_capture()  # another part of the process captures: this model is on the CPU
            replica._is_on_cuda = True
            with self.assertRaisesRegex(RuntimeError, "wanted a graph of forward and backward alone"):
                replica.refuse_capture()

    def test_the_cache_goes_back_before_the_library_takes_memory(self):
        model = torch.nn.Linear(1, 1)
        replica = Replica(list(model.parameters()), [0, 1], 2, sends_gradient=False, alias=False)
        with mock.patch("torch.cuda.empty_cache") as empty, mock.patch("torch.cuda.device"):
            replica.give_cache_back()
            empty.assert_not_called()
            replica._stream = Stream("library", [])
            replica.give_cache_back()
            empty.assert_called_once_with()


if __name__ == "__main__":
    unittest.main()
