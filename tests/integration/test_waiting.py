"""Waits that end no run: for processes away for longer than a start may take, and for data that cannot be had for now."""

import json
import threading
import time
import unittest

from by_hand import HandCluster
from harness import IntegrationTest

# A process frozen for so long is lost by its heartbeats, and has been away for longer than the limit of a start.
AWAY_S = 8
SETTINGS = {"run__preset": "longwave", "run__steps": 100_000_000, "sync__inner_steps": 2, "sync__quorum": 0.5,
            "cluster__grace_min_s": 0.2, "cluster__grace_max_s": 0.5, "cluster__heartbeat_timeout_s": 2}


class Waiting(IntegrationTest):
    def impatient_cluster(self):
        """In which servers that have started wait for less than AWAY_S at a start."""
        cluster = HandCluster(self, workers=2, **SETTINGS)
        cluster.await_rounds(3)
        for name in ("coordinator", "shard-0", "shard-1"):
            cluster.kill(name)
            cluster.arguments[name] += ["--set", "cluster.start_timeout_s=3"]
            cluster.start_again(name)
        cluster.await_members(2)
        return cluster

    def freeze_for_long(self, cluster, *names):
        for name in names:
            cluster.freeze(name)
        end = time.monotonic() + AWAY_S

        def a_moment_later():
            threading.Event().wait(0.2)
            return time.monotonic()
        cluster.await_that(lambda now: now >= end, a_moment_later, "the time's passing")

    def test_a_shard_that_is_away_for_longer_than_a_start_takes(self):
        cluster = self.impatient_cluster()
        self.freeze_for_long(cluster, "shard-0")
        cluster.await_trouble("shard 0 is silent")
        cluster.thaw("shard-0")
        cluster.go_on()
        cluster.end_audited()

    def test_a_coordinator_that_is_away_for_longer_than_a_start_takes(self):
        """And with it the workers, of whom the shards would hear otherwise."""
        cluster = self.impatient_cluster()
        names = ["coordinator", "worker-0", "worker-1"]
        self.freeze_for_long(cluster, *names)
        for name in names:
            cluster.thaw(name)
        cluster.go_on()
        cluster.end_audited()

    def test_a_run_that_has_failed_goes_on(self):
        _, errors = self.ends(self.start_up(cluster__start_timeout_s=0.1, run__steps=40, sync__inner_steps=4), 1)
        self.assertIn("the run did not start within 0.1 s", errors)
        folder = self.root / "runs/test"
        self.assertIn(f"it goes on with: longwave up --resume {folder}\n", errors)
        self.assert_nothing_left()
        self.ends(self.start("longwave", "up", "--resume", folder, "--set", "cluster.start_timeout_s=100"))
        summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
        self.assertEqual((summary["outcome"], summary["rounds"], summary["replicas_equal"]), ("finished", 10, True))

    def test_a_bound_of_an_absence_ends_the_run(self):
        cluster = HandCluster(self, workers=2, cluster__away_timeout_s=1, **SETTINGS)
        cluster.await_rounds(3)
        cluster.freeze("shard-0")
        for name in ("worker-0", "worker-1"):
            self.assertIn("shard 0 was not heard for", self.ends(cluster.children.pop(name), 1)[1])

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
