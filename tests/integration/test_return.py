"""Workers that come late, come back or were frozen, and servers that are killed and started again."""

import json
import math
import re
import shutil
import struct
import time
import unittest

import formulae
from by_hand import HandCluster
from harness import IntegrationTest

ENDLESS = {"run__steps": 100_000_000, "sync__inner_steps": 2}
# The method's own settings, with a residual worth keeping. Rounds do not wait for late workers.
LONGWAVE = {"run__preset": "longwave", **ENDLESS}
# Rounds that consist mostly of inner steps.
SLOW_ROUNDS = {**LONGWAVE, "sync__inner_steps": 50}
BETA2 = 0.99  # train.beta2
QUICK_GRACE = {"sync__quorum": 0.5, "cluster__grace_min_s": 0.2, "cluster__grace_max_s": 0.5}


RESUMED = r"resumed (after round \d+: of \d+ pushes \d+ had been accepted|in round \d+, from step \d+: nothing was in flight)"


class Return(IntegrationTest):
    def cluster(self, **settings):
        cluster = HandCluster(self, **{**LONGWAVE, **settings})
        cluster.await_rounds(10)
        return cluster

    def end_equal(self, cluster, since=0):
        """Some more rounds, all with equal replicas, then the end."""
        cluster.await_rounds(len(cluster.rounds()) + 5)
        cluster.assert_equal_replicas(since)
        self.assertIn("equal", cluster.answered_status()["replicas"])
        return cluster.end()

    def test_a_fifth_worker_joins_a_run_of_four(self):
        # A round waits for all members due and for no others, so none is late, however busy the machine.
        cluster = self.cluster(sync__quorum=1, cluster__heartbeat_timeout_s=3600)
        begin = time.monotonic()
        cluster.start_worker("worker-4")
        cluster.children["worker-4"].await_line("ready ")
        cluster.await_members(5, rounds=1)
        print(f"\n  training {time.monotonic() - begin:.1f} s after its start")
        cluster.await_members(5)
        logs = self.end_equal(cluster)
        self.assertRegex(logs["worker-4"], r"caught up: at round \d+, after \d+ merged updates")
        # No round closed without a member that was due, as it would if the fifth counted for another.
        for name in ("worker-0", "worker-3"):
            self.assertNotIn("pushes were late", logs[name])

    def test_a_killed_worker_resumes_with_its_residual(self):
        cluster = self.cluster()
        cluster.kill("worker-1")
        cluster.start_again("worker-1")
        cluster.await_members(4)
        logs = self.end_equal(cluster)
        # The journal may have settled all pushes.
        self.assertRegex(logs["worker-1"], RESUMED)
        self.assertNotIn("dropped", logs["worker-1"])

    def test_who_is_killed_while_a_checkpoint_is_written_resumes_with_its_journal(self):
        # A write is spread over seconds, so that rounds leave meanwhile, and the kills are within one.
        cluster = self.cluster(**QUICK_GRACE, cluster__checkpoint_share=0.002)
        folder = self.root / "state/worker-1"
        for _ in range(3):
            cluster.await_that(bool, (folder / "checkpoint").exists, "a checkpoint")
            cluster.await_rounds(len(cluster.rounds()) + 3)
            cluster.kill("worker-1")
            self.assertNotEqual(sorted(folder.glob("journal.*")), [])
            cluster.start_again("worker-1")
            cluster.children["worker-1"].await_log("caught up: at round")
            cluster.await_rounds(len(cluster.rounds()) + 2)
        logs = self.end_equal(cluster)
        self.assertRegex(logs["worker-1"], RESUMED)
        self.assertNotIn("no use of the last checkpoint", logs["worker-1"])

    def test_a_killed_worker_comes_back_with_another_k_and_codec(self):
        # The worker's checkpoint holds payloads of earlier settings, whatever their fate.
        cluster = self.cluster(**QUICK_GRACE)
        for k, codec in ((24, "int2"), (48, "int8")):
            # Rounds do not wait for the worker.
            cluster.await_that(bool, (self.root / "state/worker-1/checkpoint").exists, "a checkpoint")
            cluster.kill("worker-1")
            cluster.arguments["worker-1"] += ["--set", f"sync.up.k={k}", "--set", f"sync.up.codec={codec}"]
            cluster.start_again("worker-1")
            cluster.children["worker-1"].await_log("caught up: at round")
            cluster.await_rounds(len(cluster.rounds()) + 3)
        logs = self.end_equal(cluster)
        self.assertRegex(logs["worker-1"], RESUMED)

    def read_checkpoint(self, name):
        """Of the worker's folder: round, step, number of pushes, and how many steps its optimizer has taken, by AdamW's part of Muon."""
        file = (self.root / "state" / name / "checkpoint").read_bytes()
        magic, version = struct.unpack_from("<4sH", file)
        self.assertEqual((magic, version), (b"LWCP", 3))
        (round_, _, pushes), (step,) = struct.unpack_from("<3I", file, 28), struct.unpack_from("<Q", file, 40)
        coefficients, blobs, name_bytes = struct.unpack_from("<QII", file, 104)

        def aligned(size):
            return (size + 7) // 8 * 8

        at = 152 + aligned(name_bytes)
        # Finds the table of blobs, which begins after the segments' counts and the pushes.
        at = file.index(struct.pack("<I", 13) + b"muon.momentum", at) - 8
        sizes = {}
        for _ in range(blobs):
            size, name_bytes = struct.unpack_from("<QI", file, at)
            sizes[file[at + 12:at + 12 + name_bytes].decode()] = size
            at += aligned(12 + name_bytes)
        self.assertEqual(list(sizes), ["muon.momentum", "adamw.m", "adamw.v", "adamw.powers", "data-hash"])
        at += aligned(4 * coefficients) + sum(aligned(size) for size in list(sizes.values())[:-2])  # before the powers
        beta2_power = struct.unpack_from("<2d", file, at)[1]
        return round_, step, pushes, round(math.log(beta2_power, BETA2))

    def end_between_two_steps(self, cluster, name):
        """SIGTERM, until it comes between two steps of a round; returns the checkpoint, and its process's log."""
        for _ in range(15):
            cluster.children[name].process.terminate()
            _, log = self.ends(cluster.children.pop(name))
            checkpoint = self.read_checkpoint(name)
            if checkpoint[1] % SLOW_ROUNDS["sync__inner_steps"] != 0:
                return checkpoint, log
            cluster.start_again(name)
            cluster.await_members(2, rounds=2)  # the next signal, too, comes at a step of chance
        raise AssertionError("each signal came in a sync")

    def test_a_worker_told_to_end_in_a_round_comes_back_with_optimizer_and_residual(self):
        name, inner_steps = "worker-1", SLOW_ROUNDS["sync__inner_steps"]
        cluster = HandCluster(self, workers=2, **SLOW_ROUNDS, **QUICK_GRACE)
        cluster.await_rounds(3)
        taken = 0
        for _ in range(2):
            (round_, step, pushes, steps), log = self.end_between_two_steps(cluster, name)
            self.assertEqual((step // inner_steps, pushes), (round_, 0))
            self.assertIn(f"told to end: keeps a checkpoint of round {round_}, step {step}, with 0 pushes in "
                          "flight", log)
            self.assertGreater(steps, taken)  # the optimizer's count continues over the worker's processes
            taken = steps
            done = len(cluster.rounds())
            cluster.await_rounds(done + 2)  # the run does not wait for the worker
            cluster.start_again(name)
            cluster.children[name].await_log("caught up: at round")
            cluster.await_members(2, rounds=2)
            log = cluster.children[name].errors
            self.assertIn(f"resumed in round {round_}, from step {step}: nothing was in flight", log)
            at, goes_on = map(int, re.search(r"caught up: at round (\d+), .*; goes on from step (\d+)",
                                             log).groups())
            self.assertGreater(at, round_)
            self.assertEqual(goes_on, at * inner_steps)
        self.end_equal(cluster)
        cluster.replay()

    def test_a_checkpoint_of_another_release_is_refused_until_it_is_moved_away(self):
        cluster = self.cluster()
        name = "worker-1"
        cluster.kill(name)
        checkpoint = self.root / "state" / name / "checkpoint"
        with checkpoint.open("r+b") as file:
            file.write(b"LWC1" + struct.pack("<H", 2))
        _, errors = self.ends(self.start(*cluster.arguments[name]), 1)
        self.assertIn(f"{checkpoint}: checkpoint: got version 2, wanted 3: another release of Longwave wrote it; "
                      "finish the run with that release, or move the file away", errors)
        checkpoint.rename(self.root / "moved")
        cluster.start_again(name)
        cluster.await_members(4)
        self.end_equal(cluster)

    def test_all_workers_are_killed_and_come_back(self):
        self.check_all_killed()

    def test_all_workers_are_killed_while_fragments_are_under_way(self):
        # The fragments' segments close a round at different steps, so some are a round ahead.
        self.check_all_killed(sync__inner_steps=4, sync__fragments=2, sync__overlap=1)

    def check_all_killed(self, **settings):
        cluster = self.cluster(**settings)
        workers = [f"worker-{i}" for i in range(4)]
        for name in workers:
            cluster.kill(name)
        done = len(cluster.rounds())
        for name in workers:
            cluster.start_again(name)
        cluster.await_rounds(done + 10)
        logs = self.end_equal(cluster)
        for name in workers:
            self.assertRegex(logs[name], RESUMED)

    def test_a_folder_from_a_backup_is_refused(self):
        cluster = self.cluster(cluster__heartbeat_timeout_s=5)
        name = "worker-1"
        folder, backup = self.root / "state" / name, self.root / "backup"
        cluster.freeze(name)
        shutil.copytree(folder, backup)
        cluster.thaw(name)
        # Longer than any round that was not yet reported. A worker that was lost meanwhile takes part again.
        cluster.await_members(4)

        def assert_refused(state_dir):
            # A restarted copy counts on from the copy's number, and is refused each time.
            for _ in range(3):
                arguments = list(cluster.arguments[name])
                arguments[arguments.index("--state-dir") + 1] = state_dir
                _, errors = self.ends(self.start(*arguments), 1)
                self.assertRegex(errors, r"the residual in its folder accounts for \d+ rounds, wanted the \d+ "
                                 r"that it has taken part in; a folder that was restored from a backup, or "
                                 r"copied, is to be set aside")

        copy = self.root / "copy"
        shutil.copytree(backup, copy)
        assert_refused(copy)  # beside the original, which goes on
        self.assertIsNone(cluster.children[name].process.poll())
        cluster.kill(name)
        shutil.rmtree(folder)
        shutil.copytree(backup, folder)
        assert_refused(folder)
        shutil.rmtree(folder)
        del cluster.children[name]  # an expected absence
        cluster.await_members(3)  # the name is free once the worker is lost
        cluster.start_again(name)
        cluster.await_members(4)
        self.end_equal(cluster)
        cluster.replay()

    def test_a_folder_lacking_what_nobody_has_reported_is_refused_by_the_shards(self):
        # The coordinator is away while the worker sends the pushes that its folder will lack, so only the shard knows
        # of them. The shard has them from a snapshot of its state, since rounds have closed without the worker and a
        # restarted shard does not read the log from before its snapshots.
        name, other = "worker-0", "worker-1"
        cluster = HandCluster(self, workers=2, shards=1, **{
            **LONGWAVE, "sync__inner_steps": 1, "sync__quorum": 0.5, "cluster__grace_min_s": 0.1,
            "cluster__grace_max_s": 0.2, "cluster__state_rounds": 4, "cluster__snapshot_rounds": 4})
        folder, backup, newest = (self.root / place for place in (f"state/{name}", "backup", "newest"))

        def await_checkpoints(worker, count):  # each of another round
            seen = set()
            file = self.root / "state" / worker / "checkpoint"
            cluster.await_that(bool, file.exists, f"a checkpoint of {worker}")
            cluster.await_that(lambda changed: seen.add(changed) or len(seen) > count,
                               lambda: file.stat().st_mtime_ns, f"{count} checkpoints of {worker}")

        cluster.await_rounds(1)
        await_checkpoints(name, 0)
        cluster.kill("coordinator")
        del cluster.children["coordinator"]  # an expected absence
        cluster.freeze(name)
        shutil.copytree(folder, backup)
        # The other one is frozen meanwhile: none of the pushes is late, however busy the machine is.
        cluster.freeze(other)
        cluster.thaw(name)
        await_checkpoints(name, 20)
        cluster.kill(name)
        del cluster.children[name]
        cluster.thaw(other)
        await_checkpoints(other, 12)
        cluster.kill("shard-0")
        folder.rename(newest)
        shutil.copytree(backup, folder)
        for again in ("coordinator", "shard-0", name):
            cluster.start_again(again)
        copy = cluster.children.pop(name)

        def is_let_in(rounds):
            caught_up = re.search(r"caught up: at round (\d+)", copy.errors)
            return caught_up and sum(one["members"] == 2 for one in rounds[int(caught_up[1]):]) > 20

        cluster.await_that(lambda rounds: copy.process.poll() is not None or is_let_in(rounds), cluster.rounds,
                           "the copy's end")
        self.assertEqual(copy.process.poll(), 1, "a copy's contributions were merged a second time")
        self.assertRegex(copy.finish()[2], r"its residual accounts for \d+ rounds, wanted at least \d+, .* the "
                         r"worker's folder is a copy of an older time, which is to be set aside")
        # The original goes on.
        shutil.rmtree(folder)
        newest.rename(folder)
        cluster.start_again(name)
        cluster.await_members(2)
        self.end_equal(cluster)
        cluster.replay()

    def test_a_frozen_worker_stops_nobody_and_ends_equal(self):
        # The frozen worker stays a member: only the grace lets the others go on without it.
        cluster = self.cluster(**QUICK_GRACE, cluster__heartbeat_timeout_s=3600)
        frozen, other = "worker-2", "worker-0"
        cluster.freeze(frozen)
        begin = time.monotonic()
        first = cluster.worker_round(cluster.answered_status(), other)
        status = cluster.await_that(lambda status: cluster.worker_round(status, other) >= first + 15,
                                    cluster.status, "the others, who stand still")
        print(f"\n  15 rounds without it took {time.monotonic() - begin:.1f} s, with a grace of at most 0.5 s")
        cluster.thaw(frozen)
        back = cluster.worker_round(status, other)
        cluster.await_that(lambda status: cluster.worker_round(status, frozen) > back,
                           cluster.status, "the frozen worker's return")
        logs = self.end_equal(cluster)
        self.assertRegex(logs[frozen], r"caught up: at round \d+, after \d+ merged updates")

    def test_a_worker_that_was_lost_takes_part_again(self):
        cluster = self.cluster(cluster__heartbeat_timeout_s=5)  # a slow worker is not lost
        cluster.freeze("worker-2")
        cluster.await_members(3)
        cluster.thaw("worker-2")
        cluster.await_members(4)
        self.end_equal(cluster)

    def test_a_worker_that_leaves_is_not_waited_for(self):
        cluster = self.cluster()
        cluster.children["worker-3"].process.terminate()
        self.ends(cluster.children.pop("worker-3"))
        cluster.await_members(3)
        self.end_equal(cluster)

    def test_everyone_killed_at_the_end_is_compared(self):
        # The coordinator sees only the first rounds. The workers' reports of the others are lost with them.
        cluster = HandCluster(self, **{**LONGWAVE, "run__steps": 1600, "cluster__start_timeout_s": 600})
        cluster.await_rounds(3)
        cluster.freeze("worker-0")  # the run cannot end without it
        cluster.kill("coordinator")
        cluster.thaw("worker-0")
        workers = [f"worker-{i}" for i in range(4)]
        for name in workers:
            cluster.children[name].await_log("round 800/800")
        for name in workers:
            cluster.kill(name)
        for name in ("coordinator", *workers):
            cluster.start_again(name)
        for name in workers:
            self.ends(cluster.children.pop(name))
        cluster.end()
        last = cluster.rounds()[-1]
        self.assertEqual((last["round"], last["replicas_equal"]), (799, True))
        self.assertLess(len(cluster.rounds()), 400)  # otherwise the coordinator has missed no rounds
        (self.root / "summary.json").write_text(json.dumps(
            {"rounds": last["round"] + 1, "state_hash": last["state_hash"]}), encoding="utf-8")
        output = cluster.replay()
        self.assertIn("as the run's summary has it", output)

    def test_who_is_stopped_before_the_run_begins_registers_again(self):
        cluster = HandCluster(self, workers=2, started=1, cluster__heartbeat_timeout_s=3, **LONGWAVE)
        cluster.children["worker-0"].await_line("ready ")
        stopped = {"worker-0": "worker 0 (worker-0)", "shard-0": "shard 0"}
        for name in stopped:
            cluster.freeze(name)
        for place in stopped.values():
            cluster.children["coordinator"].await_log(f"{place} was not heard for")
        for name in stopped:
            cluster.thaw(name)
            cluster.children[name].await_log("registers again")
        cluster.start_worker("worker-1")
        cluster.await_members(2)
        self.end_equal(cluster)


class Refused(IntegrationTest):
    def test_nobody_joins_late_where_replicas_are_more_than_merged_updates(self):
        cluster = HandCluster(self, workers=2, run__preset="ddp", run__steps=100_000_000)
        cluster.await_rounds(5)
        cluster.start_worker("late")
        _, errors = self.ends(cluster.children.pop("late"), 1)
        self.assertIn("error: late: got no way to catch up: with sync.update inner or local", errors)
        cluster.await_rounds(len(cluster.rounds()) + 10)  # the other workers go on
        cluster.end()


class InitialWeights(IntegrationTest):
    def test_are_those_of_the_seed(self):
        files = [self.root / f"{i}.safetensors" for i in range(3)]
        for file, seed in zip(files, (7, 7, 8)):
            config = self.write_config(run__seed=seed)
            status, _, errors = self.start("longwave-worker", "--config", config,
                                           "--write-initial", file).finish()
            self.assertEqual((status, errors), (0, ""))
        self.assertEqual(files[0].read_bytes(), files[1].read_bytes())
        self.assertNotEqual(files[0].read_bytes(), files[2].read_bytes())
        tensors = formulae.read_safetensors(files[0])
        self.assertEqual({dtype for dtype, _, _ in tensors.values()}, {"F32"})

    def test_a_file_that_cannot_be_written_is_named(self):
        file = self.root / "none" / "x.safetensors"
        worker = self.start("longwave-worker", "--config", self.write_config(), "--write-initial", file)
        self.assertIn(str(file), self.closing_sentence(worker))

    def test_a_worker_needs_a_name(self):
        worker = self.start("longwave-worker", "--config", self.write_config())
        self.assertIn("--name is required", self.closing_sentence(worker))


if __name__ == "__main__":
    unittest.main()
