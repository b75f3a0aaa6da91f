"""Disks that are full or fail under a running process: a clear sentence, nothing lost, and the run goes on."""

import os
import subprocess
import unittest

from by_hand import HandCluster
from harness import IntegrationTest

SETTINGS = {"run__preset": "longwave", "run__steps": 100_000_000, "sync__inner_steps": 2, "sync__quorum": 0.5,
            "cluster__grace_min_s": 0.2, "cluster__grace_max_s": 0.5}
DISK_BYTES = 24 << 20


def run(*command):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, check=False)


class Disk:
    """A file with a file system of its own, which may be full, and aborts as one on a failing disk does."""

    def __init__(self, test, place):
        self.place, self.file = place, place.parent / f"{place.name}.ext4"
        place.mkdir(parents=True)
        with open(self.file, "wb") as file:
            file.truncate(DISK_BYTES)
        made = run("mkfs.ext4", "-q", "-m", 0, self.file)
        if made.returncode != 0:
            test.skipTest(f"no file system for the disk: {made.stderr.strip()}")
        self.mount(test)
        test.addCleanup(run, "umount", "--lazy", place)

    def mount(self, test):
        mounted = run("mount", "-o", "loop,errors=remount-ro", self.file, self.place)
        if mounted.returncode != 0:
            test.skipTest(f"no disk of a test's own: {mounted.stderr.strip()}")

    def mount_again(self, test):
        unmounted = run("umount", self.place)
        test.assertEqual(unmounted.returncode, 0, unmounted.stderr)
        self.mount(test)

    def abort(self, test):
        """Every write from here on is refused: the file system is read-only, whoever has files open."""
        aborted = run("mount", "-o", "remount,abort", self.place)
        test.assertEqual(aborted.returncode, 0, aborted.stderr)

    def fill(self):
        with open(self.place / "ballast", "ab", buffering=0) as ballast:
            for size in (1 << 20, 1 << 12, 1):
                try:
                    while True:
                        ballast.write(bytes(size))
                except OSError:
                    pass

    def empty(self):
        os.unlink(self.place / "ballast")


@unittest.skipUnless(hasattr(os, "geteuid") and os.geteuid() == 0, "mounting a disk takes root")
class Disks(IntegrationTest):
    def cluster(self, name):
        """A cluster in which the process has a disk of its own for its state."""
        disk = Disk(self, self.root / "state" / name)
        cluster = HandCluster(self, workers=2, **SETTINGS)
        cluster.await_rounds(5)
        return cluster, disk

    def test_a_shards_full_disk_is_waited_for(self):
        cluster, disk = self.cluster("shard-0")
        disk.fill()
        cluster.await_trouble("shard-0", "the disk is full: wanted")
        disk.empty()
        cluster.go_on()
        cluster.end_audited()

    def test_a_coordinators_full_disk_is_waited_for(self):
        cluster, disk = self.cluster("coordinator")
        disk.fill()
        cluster.await_trouble("the coordinator's state", "the disk is full: wanted")
        disk.empty()
        cluster.go_on()
        cluster.end_audited()

    def test_a_workers_full_disk_costs_it_no_more_than_checkpoints(self):
        name = "worker-0"
        cluster, disk = self.cluster(name)
        worker = cluster.children[name]

        def filled():
            # A new checkpoint that takes the place of an old one frees room for the next.
            disk.fill()
            return worker.errors
        cluster.await_that(lambda errors: "the disk is full: wanted" in errors, filled, "a checkpoint without room")
        cluster.await_rounds(len(cluster.rounds()) + 5)
        disk.empty()
        cluster.children[name].await_log("checkpoints are written again")
        cluster.kill(name)
        cluster.start_again(name)
        cluster.await_members(2)
        cluster.end_audited()

    def test_a_full_disk_at_the_end_is_waited_for(self):
        disk = Disk(self, self.root / "out")
        disk.fill()

        class WritesThere(HandCluster):
            def start_worker(self, name):
                self.start(name, "longwave-worker", "--name", name, "--coordinator", self.address, "--run-dir", disk.place,
                           "--threads", 1)
        cluster = WritesThere(self, workers=1, run__steps=16)
        worker = cluster.children["worker-0"]
        worker.await_log("the weights are not written: ")
        self.assertIn("No space left on device", worker.errors)
        disk.empty()
        self.ends(cluster.children.pop("worker-0"))
        self.assertGreater((disk.place / "model.safetensors").stat().st_size, 1000)
        self.assertIn("finished", cluster.answered_status()["run"])

    def mend(self, cluster, disk, name):
        cluster.kill(name)
        disk.mount_again(self)
        cluster.start_again(name)

    def test_a_shards_disk_that_turns_read_only_is_named(self):
        cluster, disk = self.cluster("shard-0")
        disk.abort(self)
        cluster.await_trouble("shard-0", str(disk.place), "Read-only file system")
        self.mend(cluster, disk, "shard-0")
        cluster.go_on()
        cluster.end_audited()

    def test_a_coordinators_disk_that_turns_read_only_is_named(self):
        cluster, disk = self.cluster("coordinator")
        disk.abort(self)
        cluster.await_trouble("the coordinator's state", str(disk.place), "Read-only file system")
        self.mend(cluster, disk, "coordinator")
        cluster.go_on()
        cluster.end_audited()

    def test_a_workers_disk_that_turns_read_only_ends_it_with_a_sentence(self):
        name = "worker-0"
        cluster, disk = self.cluster(name)
        disk.abort(self)
        # The worker cannot even set its last checkpoint aside, whose residual has been merged since.
        last = self.closing_sentence(cluster.children.pop(name))
        self.assertIn("Read-only file system", last)
        self.assertIn(str(disk.place), last)
        cluster.await_members(1)
        # Nor can it begin there.
        self.assertIn("Read-only file system", self.closing_sentence(self.start(*cluster.arguments[name])))
        disk.mount_again(self)
        cluster.start_again(name)
        cluster.await_members(2)
        cluster.end_audited()


if __name__ == "__main__":
    unittest.main()
