"""Files that were flipped or cut while their process was down: refused by name, or recovered; never a wrong model."""

import re
import time

from by_hand import HandCluster
from harness import IntegrationTest

# Snapshots and checkpoints often, so that all files are there, and rounds that close the same way whenever they do.
SETTINGS = {"run__preset": "longwave", "run__steps": 100_000_000, "sync__inner_steps": 2, "sync__quorum": 1,
            "cluster__state_rounds": 4, "cluster__snapshot_rounds": 4}


def flip(data, at):
    return data[:at] + bytes([data[at] ^ 0x10]) + data[at + 1:]


DAMAGES = {
    "flipped at the beginning": lambda data: flip(data, 5),
    "flipped in the middle": lambda data: flip(data, len(data) // 2),
    "flipped at the end": lambda data: flip(data, len(data) - 1),
    "cut in the middle": lambda data: data[:len(data) // 2],
    "cut at the end": lambda data: data[:-1],
    "empty": lambda data: b"",
    "longer": lambda data: data + b"\0" * 100,
}
# Where a log's end may be a write that a crash has torn: what was not synced is cut, and the rest gone on with.
ENDS = ("flipped at the end", "cut at the end", "longer")
# Flipped where the version stands, it is one that another release has written.
REMEDY = r"Put the newest folder back|is its disk mounted|(version|schema|magic): got|finish the run with that release"


class Damage(IntegrationTest):
    def setUp(self):
        super().setUp()
        self.cluster = HandCluster(self, workers=2, **SETTINGS)
        self.cluster.await_rounds(12)

    def files(self, name, pattern):
        return sorted((self.root / "state" / name).glob(pattern))

    def rounds_before(self):
        """The rounds that were finished before a server was killed, with those that are reported late."""
        done, newest = -1, len(self.cluster.rounds())
        while done != newest:
            time.sleep(2)
            done, newest = newest, len(self.cluster.rounds())
        return done

    def come_back(self, name):
        """Starts it again; returns the sentence that it ends with or stands with, or "" where it goes on."""
        cluster = self.cluster
        cluster.children.pop(name)  # which may end
        done = len(cluster.rounds()) if name.startswith("worker") else self.rounds_before()
        child = self.start(*cluster.arguments[name])
        status = cluster.await_that(
            lambda status: child.process.poll() is not None or "takes no pushes" in status.get("trouble", "") or
            len(cluster.rounds()) > done + 3, cluster.status, "what becomes of it")
        if child.process.poll() is None:
            cluster.children[name] = child
            return status.get("trouble", "")
        return self.closing_sentence(child)

    def check(self, name, pattern, goes_on):
        """goes_on: whether the process may go on by itself after so much damage."""
        cluster = self.cluster
        for damage, harm in DAMAGES.items():
            with self.subTest(damage):
                cluster.await_that(bool, lambda: self.files(name, pattern), "a file to damage")
                log = cluster.kill(name)
                file = self.files(name, pattern)[-1]
                good = file.read_bytes()
                file.write_bytes(harm(good))
                said = self.come_back(name)
                print(f"\n  {file.name} {damage}: {said or 'goes on'}", flush=True)
                if said:
                    # The file put back is enough, and a process that has not ended looks by itself.
                    file.write_bytes(good)
                    if name not in cluster.children:
                        cluster.start_again(name)
                cluster.go_on()
                if not goes_on(damage):
                    self.assertNotEqual(said, "", log)
                if said:
                    self.assertRegex(said, f"{re.escape(str(file))}|older time|the end of the log is lost")
                    self.assertRegex(said, REMEDY)
        self.cluster.end_audited()

    def test_a_shards_log(self):
        self.check("shard-0", "log/*.lwlog", lambda damage: damage in ENDS)

    def test_a_shards_catalog(self):
        self.check("shard-0", "shard.catalog", lambda damage: False)

    def test_a_shards_snapshots_of_its_state(self):
        self.check("shard-0", "snap/state-*.lwsnap", lambda damage: True)

    def test_a_shards_snapshot_of_the_model(self):
        """Which a worker that joins late would begin with."""
        cluster = self.cluster
        cluster.await_that(lambda files: len(files) > 1, lambda: self.files("shard-0", "snap/model-*.lwsnap"), "snapshots")
        cluster.kill("shard-0")
        file = self.files("shard-0", "snap/model-*.lwsnap")[-1]
        good = file.read_bytes()
        file.write_bytes(flip(good, len(good) // 2))
        cluster.start_again("shard-0")
        cluster.start_worker("worker-2")
        cluster.await_members(3)
        self.assertIn(f"{file}: ", cluster.children["shard-0"].errors)
        self.cluster.end_audited()

    def test_a_coordinators_record(self):
        # The coordinator goes on from copies of after the last change of the members.
        self.check("coordinator", "coordinator.lwlog", lambda damage: damage in (*ENDS, "cut in the middle"))

    def test_a_workers_checkpoint(self):
        self.check("worker-0", "checkpoint", lambda damage: True)
