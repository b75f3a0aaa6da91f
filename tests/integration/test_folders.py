"""Servers' state folders from an older time: the run waits, and goes on from the right one."""

import os
import re
import shutil

from by_hand import HandCluster
from harness import IntegrationTest

# Rounds take a moment each, and are so many that the run lasts as long as the test, though the test is late by seconds.
SETTINGS = {"run__preset": "longwave", "sync__inner_steps": 1, "sync__quorum": 1}


class Folders(IntegrationTest):
    def cluster(self, rounds):
        cluster = HandCluster(self, workers=2, run__steps=rounds, **SETTINGS)
        cluster.await_rounds(10)
        return cluster

    def folder(self, name):
        return self.root / "state" / name

    def put(self, folder, name):
        """Makes `folder` that of the process; returns where the one is that it had."""
        aside = self.root / f"aside-{len(os.listdir(self.root))}"
        self.folder(name).rename(aside)
        shutil.copytree(folder, self.folder(name))
        return aside

    def copy(self, name):
        copied = self.root / f"copy-{len(os.listdir(self.root))}"
        shutil.copytree(self.folder(name), copied)
        return copied

    def copy_and_outrun(self, cluster, shard):
        """A copy of the shard's folder, which lacks rounds that the coordinator holds to be finished: the
        coordinator hears of rounds with the heartbeats, by when the shard has closed others."""
        cluster.kill(shard)
        copied = self.copy(shard)
        cluster.start_again(shard)
        recovered = ", open round "
        cluster.children[shard].await_log(recovered)
        open_round = int(cluster.children[shard].errors.split(recovered)[1].split()[0])
        cluster.await_rounds(open_round + 5)
        return copied

    def await_trouble(self, cluster, sentence):
        self.assertIn("training", cluster.await_trouble(sentence)["run"])

    def finish(self, cluster):
        """The run's end, and the audit of what it has left."""
        for name in ("worker-0", "worker-1"):
            self.ends(cluster.children.pop(name))
        self.assertIn("finished", cluster.answered_status()["run"])
        cluster.end_audited()

    def test_a_shards_folder_from_an_older_time_is_refused_until_the_newest_is_back(self):
        cluster = self.cluster(rounds=1200)
        # Case: workers are alive.
        older = self.copy_and_outrun(cluster, "shard-1")
        cluster.kill("shard-1")
        newest = self.put(older, "shard-1")
        cluster.start_again("shard-1")
        self.await_trouble(cluster, "older time")
        self.put(newest, "shard-1")
        cluster.go_on()
        # The workers have the model, so a shard without a folder takes it from them.
        cluster.kill("shard-1")
        self.put(older, "shard-1")
        cluster.start_again("shard-1")
        self.await_trouble(cluster, "older time")
        cluster.kill("shard-1")
        shutil.rmtree(self.folder("shard-1"))
        cluster.start_again("shard-1")
        cluster.go_on()
        # Case: all processes are restarted.
        older = self.copy_and_outrun(cluster, "shard-1")
        names = list(cluster.children)
        for name in names:
            cluster.kill(name)
        newest = self.put(older, "shard-1")
        for name in names:
            cluster.start_again(name)
        self.await_trouble(cluster, "older time")
        self.put(newest, "shard-1")
        cluster.go_on()
        self.finish(cluster)

    def test_a_coordinators_folder_from_an_older_time_answers_nobody(self):
        cluster = self.cluster(rounds=800)
        cluster.kill("coordinator")
        older = self.copy("coordinator")
        cluster.start_again("coordinator")
        cluster.start_worker("worker-2")  # begins an epoch
        cluster.await_members(3)
        cluster.kill("coordinator")
        newest = self.put(older, "coordinator")
        cluster.start_again("coordinator")
        self.await_trouble(cluster, "the coordinator's folder is from an older time: shard ")
        cluster.kill("coordinator")
        self.put(newest, "coordinator")
        cluster.start_again("coordinator")
        cluster.go_on()
        self.ends(cluster.children.pop("worker-2"))
        self.finish(cluster)

    def test_a_second_process_of_a_folder_is_refused(self):
        cluster = HandCluster(self, workers=1, shards=1, run__steps=100_000_000, **SETTINGS)
        cluster.await_rounds(2)
        for name in ("coordinator", "shard-0", "worker-0"):
            with self.subTest(name):
                # A port of its own: it is the folder that it cannot have.
                anywhere = [re.sub(r":\d+$", ":0", str(part)) if before == "--listen" else part
                            for before, part in zip(["", *cluster.arguments[name]], cluster.arguments[name])]
                last = self.closing_sentence(self.start(*anywhere))
                self.assertIn(str(self.root / "state" / name), last)
                self.assertIn("another process", last)
        cluster.await_rounds(len(cluster.rounds()) + 2)
        cluster.assert_equal_replicas()
        cluster.end()
