"""Wall clocks that jump by hours, and by weeks: heartbeats and rounds go on, and certificates are renewed."""

import pathlib
import shutil
import struct
import subprocess
import unittest

from by_hand import HandCluster
from harness import BIN, IntegrationTest, longwave

SOURCE = pathlib.Path(__file__).parents[1] / "support/shifted_clock.c"
SETTINGS = {"run__preset": "longwave", "run__steps": 100_000_000, "sync__inner_steps": 2, "security__mode": "on",
            "cluster__heartbeat_timeout_s": 5}
HOUR_S = 3600


class ShiftedCluster(HandCluster):
    """A secured one, each of whose processes has a wall clock of its own."""

    def command(self, name, program):
        self.set_clock(name, 0)
        return ["/usr/bin/env", f"LD_PRELOAD={self.root / 'shifted_clock.so'}", f"SHIFTED_CLOCK={self.root / name}.clock",
                BIN / program]

    def set_clock(self, name, seconds):
        """In place: the process has the file mapped."""
        path = self.root / f"{name}.clock"
        path.touch()
        with open(path, "r+b") as file:
            file.write(struct.pack("<q", seconds))


class Clocks(IntegrationTest):
    def setUp(self):
        super().setUp()
        if shutil.which("cc") is None:
            self.skipTest("no C compiler for the clock")
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", self.root / "shifted_clock.so", SOURCE, "-ldl"], check=True)

    def cluster(self):
        cluster = ShiftedCluster(self, workers=2, **SETTINGS)
        cluster.await_members(2)
        return cluster

    def test_jumps_of_hours_and_back(self):
        cluster = self.cluster()
        for hours in (3, 6, 0):
            for name in ("coordinator", "shard-0", "worker-0"):
                cluster.set_clock(name, hours * HOUR_S)
                cluster.await_members(2)
        cluster.assert_equal_replicas()
        cluster.end()

    def test_processes_start_with_wrong_clocks(self):
        # The coordinator first: the kernel's timers, by which gRPC would connect again, have the right time all the same.
        cluster = self.cluster()
        for name in ("coordinator", "shard-0", "worker-0"):
            cluster.kill(name)
            cluster.set_clock(name, 3 * HOUR_S)
            cluster.start_again(name)
            cluster.await_members(2)
        cluster.assert_equal_replicas()
        cluster.end()

    def test_a_clock_from_before_the_certificates_is_named(self):
        cluster = self.cluster()
        cluster.kill("worker-0")
        cluster.set_clock("worker-0", -3 * HOUR_S)
        child = self.start(*cluster.arguments["worker-0"], "--set", "cluster.start_timeout_s=20")
        _, errors = self.ends(child, 1)
        self.assertIn("do the clocks differ?", errors)
        cluster.set_clock("worker-0", 0)
        cluster.start_again("worker-0")
        cluster.await_members(2)
        cluster.end()

    def test_a_first_join_with_a_wrong_clock_says_how_wrong_it_is(self):
        cluster = self.cluster()
        ask = ("--security", self.root / "state/coordinator/security/operator")
        for name, seconds, wrong in (("late", -3 * HOUR_S, r"(3h|2h59m\d+s) behind"),
                                     ("early", 40 * 24 * HOUR_S, r"(960h|959h59m\d+s) ahead of")):
            token = longwave("token", "create", cluster.address, *ask).stdout.strip()
            program = cluster.command(name, "longwave")
            cluster.set_clock(name, seconds)
            child = self.start(*program, "join", cluster.address, "--token", token, "--state-dir", self.root / name / "joined")
            _, errors = self.ends(child, 1)
            self.assertRegex(errors, f"this machine's clock is {wrong} the coordinator's")
        cluster.end()

    def test_after_three_weeks_certificates_are_renewed(self):
        """As of machines that were off meanwhile; a process that runs looks every hour."""
        cluster = self.cluster()
        names = list(cluster.children)
        for name in names:
            cluster.kill(name)
            cluster.set_clock(name, 21 * 24 * HOUR_S)
        for name in names:  # the coordinator first, as above
            cluster.start_again(name)
        for name in names:
            if name != "coordinator":
                cluster.children[name].await_log("the certificate was renewed, good until ")
        cluster.await_members(2)
        cluster.end()


if __name__ == "__main__":
    unittest.main()
