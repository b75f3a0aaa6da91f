"""Several Syncs of one process: a notebook's cell that runs again, two models, two threads."""

import threading
import unittest

import torch
from sync_case import SyncCase, perceptron, train

import longwave

EARLIER = r"{}.*: this process's earlier Sync has left the run, since a process has one worker of a name"


class Notebooks(SyncCase):
    def cell(self, state, address, interrupted_at=None, **arguments):
        """state: the notebook's variables, which keep the earlier Sync alive."""
        state["model"] = perceptron()
        state["optimizer"] = torch.optim.SGD(state["model"].parameters(), lr=0.1)
        state["sync"] = longwave.Sync(state["model"], state["optimizer"], address, **arguments)
        first = state["sync"].step_number

        def interrupt():
            if interrupted_at is not None and state["sync"].step_number >= interrupted_at:
                raise KeyboardInterrupt

        train(state["model"], state["optimizer"], state["sync"], each=interrupt)
        return first

    def test_a_cell_that_was_interrupted_runs_again(self):
        for arguments, shown in (
            ({}, "name '.*'"),
            ({"name": "one"}, "name 'one'"),
            ({"name": "one", "state_dir": str(self.root / "kept")}, "name 'one'"),
        ):
            with self.subTest(**arguments):
                state, address = {}, self.cluster()
                with self.assertRaises(KeyboardInterrupt):
                    self.cell(state, address, interrupted_at=15, **arguments)
                with self.assert_warns(EARLIER.format(shown)):
                    began = self.cell(state, address, **arguments)
                self.assertEqual(state["sync"].step_number, 40)
                self.assertIn(began, (0, 10))

    def test_the_folder_of_an_earlier_sync_is_free_under_another_name(self):
        folder, address = str(self.root / "kept"), self.cluster()
        state = {}
        with self.assertRaises(KeyboardInterrupt):
            self.cell(state, address, interrupted_at=15, name="one", state_dir=folder)
        with self.assert_warns(EARLIER.format("state_dir")):
            try:
                self.cell(state, address, name="other", state_dir=folder + "/")
            except longwave.LongwaveError as error:
                self.assertNotIn("process", str(error))

    def test_an_earlier_sync_whose_run_is_over_finishes(self):
        address = self.cluster()
        first = longwave.Sync(perceptron(), None, address, name="one")
        while not first.done:
            first.step()
        with self.assert_warns(EARLIER.format("name 'one'"), "the run is finished: "):
            second = longwave.Sync(perceptron(), None, address, name="one")
        second.finish()
        self.hand.assert_equal_replicas()

    def test_a_second_model_under_the_name_is_told_what_to_do(self):
        address = self.cluster()
        first = longwave.Sync(perceptron(), None, address, name="one")
        with self.assert_warns(EARLIER.format("name 'one'") + ".* two models at once make them one"):
            second = longwave.Sync(perceptron(), None, address, name="one")
        self.assertEqual((first.done, second.done), (True, False))
        second.finish()

    def test_a_second_thread_under_the_name_is_refused(self):
        address = self.cluster()
        sync = longwave.Sync(perceptron(), None, address, name="one")
        refused = []

        def other():
            try:
                longwave.Sync(perceptron(), None, address, name="one")
            except RuntimeError as error:
                refused.append(str(error))

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
        self.assertRegex(refused[0], "name 'one': got a second Sync while another thread of this process has one")
        sync.step()
        self.assertEqual(sync.step_number, 1)
        sync.finish()


if __name__ == "__main__":
    unittest.main()
