"""Workers that are killed, told to end, interrupted; and processes that they fork."""

import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import unittest.mock

import torch
from harness import Child
from sync_case import SyncCase, perceptron

import longwave
from longwave import _library


class Return(SyncCase):
    def worker(self, *arguments):
        program = pathlib.Path(__file__).with_name("kept_worker.py")
        child = Child(sys.executable, program, *arguments)
        self.children.append(child)
        return child

    def began(self, child):
        """Of the line: the run's step, the schedule's, the steps moved over, the optimizer's."""
        return [int(number) for number in re.findall(r"-?\d+", child.await_line("began"))]

    def await_round(self, child, count):
        """Reads on until the worker has so many rounds."""
        while int(child.await_line("round ").split()[1]) < count:
            pass

    def await_checkpoint(self, child, file):
        """Reads on until another checkpoint is written."""
        def written():
            return file.stat().st_mtime_ns if file.exists() else 0

        before = written()
        while written() == before:
            child.await_line("round ")

    def test_a_killed_worker_comes_back_with_its_optimizer_and_schedule(self):
        address = self.cluster(workers=2, run__steps=1_000_000)
        folder = self.root / "kept"
        stays = self.worker(address, "stays", self.root / "stays")
        first = self.worker(address, "one", folder)
        self.assertEqual(self.began(first), [0, 0, 0, 0])
        first.await_line("round 5")
        # The second checkpoint from here on is a copy of a later state.
        self.await_checkpoint(first, folder / "checkpoint")
        self.await_checkpoint(first, folder / "checkpoint")
        first.process.kill()
        rounds = [5, *(int(found) for found in re.findall(r"round (\d+)", first.finish()[1]))]
        self.await_round(stays, rounds[-1] + 3)  # beyond the round in which it was killed
        again = self.worker(address, "one", folder, 25)
        step, schedule, moved, optimizer = self.began(again)
        self.assertGreaterEqual(step, 50)
        self.assertEqual(schedule, step)
        # The checkpoint was written inside this step: the optimizer has counted it, the schedule has not.
        self.assertEqual(optimizer, step - moved + 1)
        self.assertGreaterEqual(optimizer, 50)
        status, output, errors = again.finish()
        self.assertEqual(status, 0, errors)
        self.assertIn(f"ends at {step + 25}", output)

    def test_a_signal_ends_training_with_a_checkpoint_of_that_step(self):
        address = self.cluster(workers=2, run__steps=1_000_000)
        folder = self.root / "kept"
        stays = self.worker(address, "stays", self.root / "stays")
        first = self.worker(address, "one", folder)
        first.await_line("round 2")
        first.process.send_signal(signal.SIGTERM)
        status, output, errors = first.finish()
        self.assertEqual(status, 0, errors)
        ended = int(re.search(r"ends at (\d+) done", output).group(1))
        self.await_round(stays, ended // 10 + 2)  # beyond the round in which it has ended
        again = self.worker(address, "one", folder, 1)
        step, schedule, moved, optimizer = self.began(again)
        self.assertEqual(optimizer, ended)  # the optimizer's state is of that step
        self.assertEqual((schedule, moved), (step, step - ended + 1))
        self.assertEqual(again.finish()[0], 0)

    def test_where_all_have_stopped_the_steps_of_the_round_are_taken_again_and_the_loop_hears_of_it(self):
        address = self.cluster(run__steps=1_000_000, sync__inner_steps=100)
        folder = self.root / "kept"
        first = self.worker(address, "one", folder, 150)
        status, output, errors = first.finish()
        self.assertEqual(status, 0, errors)
        ended = int(re.search(r"ends at (\d+)", output).group(1))
        again = self.worker(address, "one", folder, 5)
        step, schedule, moved, optimizer = self.began(again)
        self.assertEqual((ended, step, moved), (150, 100, -50))
        self.assertEqual((schedule, optimizer), (150, 150))
        self.assertEqual(again.finish()[0], 0)

    def test_a_worker_that_waits_for_others_can_be_interrupted(self):
        address = self.cluster(workers=2)
        waiting = self.worker(address, "one", self.root / "kept")
        self.await_coordinator("(one) registered")
        waiting.process.send_signal(signal.SIGINT)
        status, _, errors = waiting.finish(timeout=30)
        self.assertNotEqual(status, 0)
        self.assertIn("KeyboardInterrupt", errors)

    def test_an_interruption_while_a_sync_is_encoded_keeps_the_checkpoint(self):
        model = torch.nn.Linear(4000, 4000)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        folder = self.root / "kept"
        sync = longwave.Sync(model, optimizer, self.cluster(run__steps=1_000_000), name="one", state_dir=str(folder),
                             keep={"optimizer": optimizer})
        library = _library.library()

        class Interrupted:
            """The signal comes during the tenth step, whose end encodes the sync."""

            def __getattr__(self, name):
                return self.step if name == "lw_step" else getattr(library, name)

            def step(self, *arguments):
                threading.Timer(0.05, signal.pthread_kill, (threading.main_thread().ident, signal.SIGINT)).start()
                return library.lw_step(*arguments)

        # A shell's background jobs ignore the signal.
        self.addCleanup(signal.signal, signal.SIGINT, signal.signal(signal.SIGINT, signal.default_int_handler))
        for _ in range(9):
            sync.step()
        with unittest.mock.patch("longwave._member.library", Interrupted), self.assertRaises(KeyboardInterrupt):
            sync.step()
        self.assertTrue((folder / "checkpoint").exists(), os.listdir(folder))
        self.await_coordinator("(one) leaves")

    def test_a_worker_that_exits_without_finish_leaves(self):
        address = self.cluster(run__steps=1_000_000)
        program = (
            "import longwave, sys; sys.path.insert(0, sys.argv[2]); import conftest; from sync_case import perceptron;"
            "sync = longwave.Sync(perceptron(), None, sys.argv[1], name='one'); sync.step(); sys.exit(3)"
        )
        child = Child(sys.executable, "-c", program, address, pathlib.Path(__file__).parent)
        self.children.append(child)
        self.assertEqual(child.finish()[0], 3)
        self.await_coordinator("(one)")

    def test_a_loaders_processes_touch_nothing(self):
        sync = longwave.Sync(perceptron(), None, self.cluster(), name="one")

        class Asks(torch.utils.data.Dataset):
            def __len__(self):
                return 4

            def __getitem__(self, index):
                try:
                    return f"round {sync.round}"
                except longwave.LongwaveError as error:
                    told = error.status
                try:
                    return sync.configuration
                except longwave.LongwaveError as error:
                    return f"{told}, {error.status}"

        loader = torch.utils.data.DataLoader(Asks(), num_workers=2, multiprocessing_context="fork")
        self.assertEqual([item for items in loader for item in items], ["forked, forked"] * 4)
        while not sync.done:
            sync.step()
        sync.finish()

    def test_a_state_that_cannot_be_kept_is_told_at_once(self):
        class Odd:
            calls = 0

            def state_dict(self):
                self.calls += 1
                if self.calls > 1:  # the first call is Sync's, which checks whether the state loads
                    raise KeyError("odd")
                return {}

            def load_state_dict(self, state_dict):
                pass

        sync = longwave.Sync(perceptron(), None, self.cluster(), name="one", state_dir=str(self.root / "kept"),
                             keep={"odd": Odd()})
        with self.assertRaises(KeyError):
            while not sync.done:
                sync.step()
        self.await_coordinator("KeyError: 'odd'")
