"""Everything is killed at once and started again in an order of chance, again and again; and servers that stand still."""

import os
import random
import threading
import time
import unittest

from by_hand import HandCluster
from harness import IntegrationTest

# How often; LONGWAVE_RESTARTS=50 is for a person's patience.
RESTARTS = int(os.environ.get("LONGWAVE_RESTARTS", 5))
SETTINGS = {"run__preset": "longwave", "run__steps": 100_000_000, "sync__inner_steps": 2, "sync__quorum": 0.5,
            "cluster__grace_min_s": 0.2, "cluster__grace_max_s": 0.5, "cluster__state_rounds": 8,
            "cluster__snapshot_rounds": 8}


class Restarts(IntegrationTest):
    @staticmethod
    def finished(status):
        return int(status["rounds"].split()[0])

    def test_everything_is_killed_and_started_in_any_order(self):
        seed = int(os.environ.get("LONGWAVE_SEED", random.randrange(1 << 32)))
        print(f"\n  LONGWAVE_SEED={seed}", flush=True)
        chance = random.Random(seed)
        cluster = HandCluster(self, workers=3, **SETTINGS)
        done = self.finished(cluster.await_rounds(3))
        names = list(cluster.children)
        for number in range(RESTARTS):
            chance.shuffle(names)
            for name in names:
                cluster.children[name].process.kill()  # all of them, before any is waited for
            for name in names:
                cluster.children[name].close()
            chance.shuffle(names)
            for name in names:
                cluster.children[name] = self.start(*cluster.arguments[name])
            done = self.finished(cluster.await_rounds(done + chance.randrange(1, 6)))
            print(f"  {number + 1}: {' '.join(names)}: {done} rounds, {len(cluster.rounds())} lines", flush=True)
        cluster.end_audited()

    @staticmethod
    def a_moment_later():
        threading.Event().wait(0.2)
        return time.monotonic()

    def test_frozen_servers_are_waited_for(self):
        """By their heartbeats they are lost; LONGWAVE_FROZEN_S=60 freezes them for a minute."""
        seconds = int(os.environ.get("LONGWAVE_FROZEN_S", 8))
        cluster = HandCluster(self, workers=2, **SETTINGS, cluster__heartbeat_timeout_s=3)
        cluster.await_rounds(3)
        for names in (["shard-0"], ["coordinator"], ["coordinator", "shard-0", "shard-1"]):
            done = len(cluster.rounds())
            for name in names:
                cluster.freeze(name)
            end = time.monotonic() + seconds
            cluster.await_that(lambda now: now >= end, self.a_moment_later, "the time's passing")
            for name in names:
                cluster.thaw(name)
            cluster.await_rounds(done + 10)
        cluster.await_members(2)
        cluster.end_audited()

if __name__ == "__main__":
    unittest.main()
