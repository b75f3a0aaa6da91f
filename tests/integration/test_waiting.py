"""What cannot be had for now is waited for and ends no run."""

import unittest

from by_hand import HandCluster
from harness import IntegrationTest

SETTINGS = {"run__preset": "longwave", "run__steps": 100_000_000, "sync__inner_steps": 2, "sync__quorum": 0.5,
            "cluster__grace_min_s": 0.2, "cluster__grace_max_s": 0.5, "cluster__heartbeat_timeout_s": 2}


class Waiting(IntegrationTest):
    def test_the_weights_are_written_once_they_can_be(self):
        place = self.root / "model.safetensors"
        place.mkdir()
        cluster = HandCluster(self, workers=1, **{**SETTINGS, "run__steps": 16})
        worker = cluster.children["worker-0"]
        worker.await_log("the weights are not written: ")
        self.assertIn(f"cannot write {place}: Is a directory", worker.errors)
        self.assertIn("training", cluster.answered_status()["run"])
        place.rmdir()
        self.ends(cluster.children.pop("worker-0"))
        self.assertTrue(place.is_file())
        self.assertIn("finished", cluster.answered_status()["run"])

    def test_a_record_that_nobody_can_read_ends_no_worker_that_is_behind(self):
        # Snapshots are far away: the log alone would lead to the present.
        cluster = HandCluster(self, workers=2, shards=1, cluster__snapshot_rounds=100_000, **SETTINGS)
        cluster.await_rounds(3)
        cluster.kill("worker-1")
        cluster.children.pop("worker-1")
        cluster.await_rounds(len(cluster.rounds()) + 10)
        for path in (self.root / "state/shard-0/log").glob("*.lwlog"):
            with open(path, "r+b") as file:
                for at in range(64, path.stat().st_size, 64):
                    file.seek(at)
                    byte = file.read(1)[0]
                    file.seek(at)
                    file.write(bytes([byte ^ 1]))
        cluster.start_again("worker-1")
        cluster.await_members(2)
        self.assertIn("unreadable so far", cluster.children["shard-0"].errors)
        cluster.assert_equal_replicas()
        cluster.end()

    def test_who_is_started_after_the_end_of_a_finished_run_exits_0(self):
        cluster = HandCluster(self, workers=1, shards=1, **{**SETTINGS, "run__steps": 16})
        for name in ("worker-0", "shard-0"):
            self.ends(cluster.children.pop(name))
        for name in ("worker-0", "shard-0"):
            with self.subTest(name):
                self.ends(self.start(*cluster.arguments[name]))
        # The coordinator, which nobody is left to be told of the end by.
        cluster.children["coordinator"].process.terminate()
        self.ends(cluster.children.pop("coordinator"))
        self.ends(self.start(*cluster.arguments["coordinator"], "--exit-when-done"))


if __name__ == "__main__":
    unittest.main()
