"""Servers' state folders from an older time: the run waits, and goes on from the right one."""

import os
import re
import shutil
import struct
import time

from by_hand import HandCluster
from harness import DEADLINE_S, IntegrationTest

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

    def merged_rounds(self, shard):
        """The round and the place of each merged update in the shard's log, which is one file."""
        log = (self.folder(shard) / "log/00000001.lwlog").read_bytes()
        at, merged = 64, []
        while at + 32 <= len(log) and log[at:at + 4] == b"LWR1":
            body_bytes = struct.unpack_from("<I", log, at + 12)[0]
            if log[at + 4] == 2:
                merged.append((struct.unpack_from("<I", log, at + 52)[0], at))
            at += 32 + (body_bytes + 7) // 8 * 8
        return merged

    def lose_two_rounds(self, shard):
        """Cuts the log's end: the workers, who have pushed to the last round, have at least one of the two."""
        last = max(round_ for round_, _ in self.merged_rounds(shard))
        os.truncate(self.folder(shard) / "log/00000001.lwlog",
                    min(at for round_, at in self.merged_rounds(shard) if round_ == last - 1))

    def check_lost_end(self, killed):
        """The coordinator is away, as if all of that came between two heartbeats; no snapshot has seen the end."""
        cluster = HandCluster(self, workers=2, run__steps=600, cluster__state_rounds=1000000,
                              cluster__snapshot_rounds=1000000, **SETTINGS)
        cluster.await_rounds(10)
        cluster.kill("coordinator")
        del cluster.children["coordinator"]  # an expected absence
        done = len(self.merged_rounds("shard-1"))
        cluster.await_that(lambda merged: len(merged) > done + 20, lambda: self.merged_rounds("shard-1"), "rounds")
        for name in killed:
            cluster.kill(name)
        self.lose_two_rounds("shard-1")
        for name in ["coordinator", *killed]:
            cluster.start_again(name)
        cluster.go_on()
        logs = {name: child.errors for name, child in cluster.children.items()}
        self.finish(cluster)
        return logs

    def test_a_shard_whose_disk_has_lost_the_logs_end_takes_it_from_the_workers(self):
        logs = self.check_lost_end(["shard-1"])
        self.assertRegex(logs["shard-1"], r"the end of the log is lost: segment \d+ has the rounds before \d+, and "
                         r"worker \d all before \d+")
        self.assertRegex(logs["shard-1"], r"segment \d+ is restored: round \d+ is open")

    def test_what_is_lost_with_everybodys_power_is_made_again(self):
        self.check_lost_end(["shard-0", "shard-1", "worker-0", "worker-1"])

    def await_trouble(self, cluster, *parts):
        self.assertIn("training", cluster.await_trouble(*parts)["run"])

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
        self.await_trouble(cluster, "the coordinator's folder is from an older time: ", " epoch ")
        cluster.kill("coordinator")
        self.put(newest, "coordinator")
        cluster.start_again("coordinator")
        cluster.go_on()
        self.ends(cluster.children.pop("worker-2"))
        self.finish(cluster)

    # The sentence of the trouble, by the processes whose folders are from an older time.
    OLDER = {
        ("coordinator",): "the coordinator's folder is from an older time: ",
        ("shards",): "is from an older time: ",
        ("workers",): None,
        ("coordinator", "shards"): "the coordinator's folder is from an older time: the residual in the folder of ",
        ("coordinator", "workers"): "the coordinator's folder is from an older time: ",
        ("shards", "workers"): "is from an older time: ",
    }

    def await_older(self, cluster, sentence, workers):
        """Waits for the trouble, or without a sentence for the ends of the workers, who are refused."""
        if sentence is None:
            for name in workers:
                _, errors = self.ends(cluster.children[name], 1)
                self.assertRegex(errors, r"its folder accounts for \d+ rounds, wanted the \d+ that")
            return
        end = time.monotonic() + DEADLINE_S
        while sentence not in (trouble := cluster.status().get("trouble", "")):
            self.assertLess(time.monotonic(), end, trouble)

    def test_any_older_folders_are_noticed_before_anything_is_merged(self):
        cluster = self.cluster(rounds=1500)
        names = list(cluster.children)
        parts = {"coordinator": ["coordinator"], "shards": ["shard-0", "shard-1"], "workers": ["worker-0", "worker-1"]}

        def kill_all():
            for name in names:
                cluster.children[name].process.kill()
            for name in names:
                cluster.children[name].close()

        def state_copied(to):
            shutil.copytree(self.root / "state", to)
            shutil.copy(self.root / "metrics.jsonl", to)

        def put_back(folder, some):
            for name in some:
                shutil.rmtree(self.folder(name))
                shutil.copytree(folder / name, self.folder(name))
            shutil.copy(folder / "metrics.jsonl", self.root)

        def start_all():
            cluster.start_again("coordinator")
            for name in names[1:]:  # none is ready whose registration is refused
                cluster.children[name] = self.start(*cluster.arguments[name])

        older, newest = self.root / "older", self.root / "newest"
        kill_all()
        state_copied(older)
        done = len(cluster.rounds())
        for name in names:
            cluster.start_again(name)
        cluster.await_rounds(done + 36)
        kill_all()
        state_copied(newest)
        for combination, sentence in self.OLDER.items():
            with self.subTest(combination):
                put_back(newest, names)
                put_back(older, [name for part in combination for name in parts[part]])
                merged = {shard: self.merged_rounds(shard)[-1] for shard in parts["shards"]}
                start_all()
                try:
                    self.await_older(cluster, sentence, parts["workers"])
                finally:
                    kill_all()
                self.assertEqual({shard: self.merged_rounds(shard)[-1] for shard in parts["shards"]}, merged)
        # A person decides: the older record of the coordinator, and what the others have.
        put_back(newest, names)
        put_back(older, ["coordinator"])
        cluster.arguments["coordinator"].append("--take-as-newest")
        start_all()
        cluster.go_on()
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
