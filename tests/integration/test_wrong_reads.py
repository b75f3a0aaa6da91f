"""Processes one of whose reads goes wrong when they start: it is noticed and read again, and the disk stays as it was."""

import os
import pathlib
import shutil
import signal
import subprocess
import unittest

from by_hand import HandCluster
from harness import BIN, IntegrationTest

SOURCE = pathlib.Path(__file__).parents[1] / "support/wrong_read.c"
SETTINGS = {"run__preset": "longwave", "run__steps": 100_000_000, "sync__inner_steps": 2, "sync__quorum": 1,
            "cluster__state_rounds": 4, "cluster__snapshot_rounds": 4}
# Such a read is the exception: a test that needs more of them to see them all has lost its way.
READS_MAX = 40


class WrongReads(IntegrationTest):
    def setUp(self):
        super().setUp()
        if shutil.which("cc") is None:
            self.skipTest("no C compiler for the wrong read")
        self.library = self.root / "wrong_read.so"
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", self.library, SOURCE, "-ldl"], check=True)
        self.log = self.root / "reads"

    def command(self, program, part, number, **more):
        """Before a program's arguments: the read of that number of a file with `part` in its path is wrong."""
        self.log.write_text("")
        environment = {"LD_PRELOAD": self.library, "WRONG_READ": part, "WRONG_READ_NUMBER": number,
                       "WRONG_READ_LOG": self.log, **more}
        return ["/usr/bin/env", *(f"{name}={value}" for name, value in environment.items()), BIN / program]

    def check(self, name, *parts):
        """Each single read of such files of a process that starts again goes wrong once."""
        cluster = HandCluster(self, workers=2, **SETTINGS)
        cluster.await_rounds(10)
        program, *arguments = cluster.arguments[name]
        for part in parts:
            part = f"/state/{name}/{part}"
            for number in range(1, READS_MAX):
                cluster.kill(name)
                wrong = self.command(program, part, number)
                cluster.arguments[name] = [*wrong, *arguments]
                cluster.start_again(name)
                cluster.arguments[name] = [program, *arguments]
                done = len(cluster.rounds())
                cluster.await_rounds(done + 3)
                cluster.await_members(2, rounds=2)
                print(f"\n  {part}, read {number}: {self.log.read_text()}", flush=True)
                # The next process shows that the disk has nothing wrong.
                cluster.kill(name)
                cluster.start_again(name)
                cluster.await_members(2, rounds=2)
                log = self.log.read_text()
                if "x" not in log:
                    break
            self.assertGreater(number, 1, f"no read of {part}")
            self.assertEqual(log.count("x"), 0, f"more than {READS_MAX} reads of {part}")
        cluster.end_audited()

    def test_a_shards_log(self):
        self.check("shard-0", "log/")

    def test_a_shards_catalog(self):
        self.check("shard-0", "shard.catalog")

    def test_a_coordinators_record(self):
        self.check("coordinator", "coordinator.lwlog")

    def test_a_workers_folder(self):
        self.check("worker-0", "identity", "processes", "checkpoint")

    def test_the_configuration_of_a_parked_run(self):
        child = self.start_up(run__steps=4000, sync__inner_steps=4, cluster__heartbeat_timeout_s=20)
        child.await_line("round ")
        child.process.send_signal(signal.SIGINT)
        self.ends(child, 130)
        config = self.root / "runs/test/config.yaml"
        before = config.read_text(encoding="utf-8")
        # A key that every process may have otherwise: one bit makes 30 of it.
        byte = before.index("heartbeat_timeout_s: 20") + len("heartbeat_timeout_s: ")
        for number in (1, 2):  # the third one is compared with the run's settings alone, and not written
            child = self.start(*self.command("longwave", "runs/test/config.yaml", number, WRONG_READ_BYTE=byte), "up",
                               "--resume", self.root / "runs/test", "--set", "metrics.listen=127.0.0.1:0")
            _, errors = self.ends(child, 1)
            self.assertIn("x", self.log.read_text())
            self.assertIn(f"{config}: two reads of it differ", errors)
            self.assertEqual(config.read_text(encoding="utf-8"), before)
            os.remove(self.log)
        self.ends(self.start("longwave", "up", "--resume", self.root / "runs/test"))


if __name__ == "__main__":
    unittest.main()
