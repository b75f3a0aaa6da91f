"""A run of a Python worker and a C++ worker."""

import os
import pathlib
import signal
import sys
import unittest

from by_hand import HandCluster
from workers import WorkersTest

TWIN = pathlib.Path(__file__).parent / "twin.py"
# How many times a process passes the point (worker/member/crash_point.h), including those of its return. A round's
# pushes are of several segments, so the last crash after a post leaves some of them unposted.
CRASHES = {"encoding": 3, "encoded": 3, "checkpointed": 3, "posted": 5, "applied": 3}


class MixedRun(WorkersTest):
    def start_both(self):
        """Returns the cluster, whose rounds need both workers."""
        cluster = HandCluster(self, workers=2, started=0, run__preset="longwave", run__start="member",
                              run__steps=1_000_000, sync__inner_steps=5, sync__quorum=1, cluster__grace_min_s=60,
                              cluster__grace_max_s=60, cluster__heartbeat_timeout_s=120)
        # The script's first line chooses the environment's Python.
        os.environ["PATH"] = f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}"
        cluster.start("python", TWIN, "--name", "python", "--coordinator", cluster.address, "--data", self.text)
        cluster.start_worker("cpp")
        cluster.await_members(2, rounds=4)  # one worker brings other weights, and joins late
        return cluster

    def assert_nothing_lost(self, cluster):
        cluster.await_members(2, rounds=4)
        cluster.assert_equal_replicas()
        records = cluster.rounds()
        self.assertLess(records[-1]["train_loss"], records[0]["train_loss"])
        cluster.end()
        said = self.assert_replays(self.root, "--config", cluster.config)
        self.assertIn("each in exactly one merge", said)

    def test_of_python_and_cpp_both_are_killed_and_come_back_and_no_update_is_lost(self):
        cluster = self.start_both()
        for victim in ("python", "cpp", "python"):
            cluster.kill(victim)
            cluster.start_again(victim)
            cluster.children[victim].await_log("resumed ")  # after a round, or between two steps, where nothing was in flight
            cluster.await_members(2, rounds=4)
        self.assert_nothing_lost(cluster)

    def test_whose_workers_die_at_each_point_of_a_sync_loses_no_update(self):
        cluster = self.start_both()
        for victim in ("python", "cpp"):
            cluster.kill(victim)
            for point, times in CRASHES.items():
                with self.subTest(victim=victim, point=point):
                    os.environ["LONGWAVE_CRASH_AT"] = f"{point}:{times}"
                    try:
                        cluster.start_again(victim)
                    finally:
                        del os.environ["LONGWAVE_CRASH_AT"]
                    status, _, errors = cluster.children[victim].finish()
                    self.assertEqual(status, -signal.SIGKILL, errors)
                    self.assertIn(f"crashes at {point},", errors)
            cluster.start_again(victim)
            cluster.await_members(2, rounds=2)
        self.assert_nothing_lost(cluster)


if __name__ == "__main__":
    unittest.main()
