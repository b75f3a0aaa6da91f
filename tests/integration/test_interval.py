"""sync.inner_steps auto: the coordinator fits the interval to the links, and all replicas have the same."""

import re
import time
import unittest

from harness import IntegrationTest
from test_links import DATA, ProxiedCluster

SETTINGS = {"run__preset": "longwave", "run__steps": 100_000_000, "sync__inner_steps": "auto", "sync__inner_steps_min": 2,
            "sync__inner_steps_max": 60, "sync__target_share": 0.5, "cluster__grace_min_s": 5, "security__mode": "on"}
CHANGE = re.compile(r"inner steps of a round: (\d+) from round (\d+) on, (\d+) before: (a sync costs .*; wanted at most 50.0 %)")


class Interval(IntegrationTest):
    def changes(self, cluster):
        """The changes in the coordinator's log: steps, round, steps before, reason."""
        return [(int(steps), int(first), int(before), reason)
                for steps, first, before, reason in CHANGE.findall("".join(cluster.children["coordinator"].errors))]

    def test_a_slow_link_widens_it_and_a_fast_one_narrows_it(self):
        cluster = ProxiedCluster(self, workers=2, **SETTINGS)
        cluster.await_rounds(20)
        # Each sync takes seconds now, thousands of steps.
        for link in cluster.links(DATA):
            cluster.proxies.harm(link, "delay", 600)
        cluster.await_that(lambda changes: changes and changes[-1][0] == 60, lambda: self.changes(cluster), "the most steps")
        cluster.proxies.heal()
        cluster.await_that(lambda changes: changes[-1][0] < 60, lambda: self.changes(cluster), "fewer steps")
        changes = self.changes(cluster)
        for steps, _, before, _ in changes:
            self.assertTrue(before / 2 <= steps <= before * 2, changes)
        # Killed, it goes on with what it has decided.
        cluster.kill("coordinator")
        time.sleep(1)
        cluster.start_again("coordinator")
        done = len(cluster.rounds())
        cluster.await_rounds(done + 20)
        # The records show the steps that the log has announced.
        steps_of = {record["round"]: record["step"] for record in cluster.rounds()}
        for steps, first, _, _ in changes:
            if first - 1 in steps_of and first in steps_of:
                self.assertEqual(steps_of[first] - steps_of[first - 1], steps, changes)
        cluster.end_audited()

    def test_a_run_ends_with_its_last_step_and_is_replayed(self):
        done = self.up("--plain", run__steps=300, sync__inner_steps="auto", sync__inner_steps_max=20, run__workers=2)
        self.assertEqual(done.status, 0, done.output + done.errors)
        self.assertEqual(done.summary["steps"], 300)
        self.assertTrue(done.summary["replicas_equal"], done.summary)
        replayed = self.ends(self.start("longwave", "replay", done.folder))[0]
        self.assertIn(done.summary["state_hash"], replayed)


if __name__ == "__main__":
    unittest.main()
