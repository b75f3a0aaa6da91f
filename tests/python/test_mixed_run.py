"""One run of a Python worker and a C++ worker."""

import os
import pathlib
import sys
import unittest

from by_hand import HandCluster
from workers import WorkersTest

TWIN = pathlib.Path(__file__).parent / "twin.py"


class MixedRun(WorkersTest):
    def test_of_python_and_cpp_both_are_killed_and_come_back_and_no_update_is_lost(self):
        cluster = HandCluster(self, workers=2, started=0, run__preset="longwave", run__start="member",
                              run__steps=1_000_000, sync__inner_steps=5, sync__quorum=1, cluster__grace_min_s=60,
                              cluster__grace_max_s=60, cluster__heartbeat_timeout_s=120)
        # By its first line: the environment's Python.
        os.environ["PATH"] = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
        cluster.start("python", TWIN, "--name", "python", "--coordinator", cluster.address, "--data", self.text)
        cluster.start_worker("cpp")
        cluster.await_members(2, rounds=4)  # one brings other weights, and joins late
        for victim in ("python", "cpp", "python"):
            cluster.kill(victim)
            cluster.start_again(victim)
            cluster.children[victim].await_log("resumed after round")
            cluster.await_members(2, rounds=4)
        cluster.assert_equal_replicas()
        records = cluster.rounds()
        self.assertLess(records[-1]["train_loss"], records[0]["train_loss"])
        cluster.end()
        said = self.assert_replays(self.root, "--config", cluster.config)
        self.assertIn("each in exactly one merge", said)


if __name__ == "__main__":
    unittest.main()
