"""Workers that come to secured runs with tokens."""

from secured import SecuredTest
from sync_case import SETTINGS, perceptron

import longwave


class Tokens(SecuredTest):
    def test_one_folder_does_for_run_after_run(self):
        folder = self.root / "mine"
        for run in ("first", "second"):  # each run has its own authority
            self.start_run(run, **{**SETTINGS, "run__workers": 1, "run__shards": 1})
            # The second run needs no token.
            for rounds, token in ((1, self.token()), (SETTINGS["run__steps"], None)):
                sync = longwave.Sync(perceptron(), None, self.address, name="one", token=token, state_dir=str(folder),
                                     settings=() if token else ["security.mode=on"])
                while not sync.done and sync.round < rounds:
                    sync.step()
                sync.finish()
            self.assertTrue(sync.writes_weights)
