"""Workers of several ranks: processes of one machine that are one member of the run."""

import json
import os
import pathlib
import shutil
import signal
import sys
import time
import unittest

import formulae
from by_hand import HandCluster
from harness import IntegrationTest, await_gone
from test_metrics import scrape, total

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
from processes import children_of  # noqa: E402

# Four micro-batches of a row each, dealt to one, two or four ranks. A segment is a tile, so that all ranks have some.
SETTINGS = {"train__micro_batches": 4, "sync__segment_tiles": 1, "cluster__grace_min_s": 100,
            "cluster__heartbeat_timeout_s": 100}
ENDLESS = {"run__preset": "longwave", "run__steps": 100_000_000, "sync__inner_steps": 2, "sync__segment_tiles": 1,
           "train__micro_batches": 4, "cluster__grace_min_s": 0.2, "cluster__grace_max_s": 0.5}


class Ranks(IntegrationTest):
    def check_equal(self, preset, nodes=((1, "memory"), (2, "memory"), (4, "memory")), **settings):
        """The weights, the losses and what is sent have the same bits whatever the number of ranks, and whatever passes
        their tensors."""
        settings = {"run__preset": preset, "run__workers": 1, **SETTINGS, **settings}
        wanted = None
        for ranks, collectives in nodes:
            name = f"{preset}-{settings.get('sync__up__selection', '')}-{ranks}-{collectives}"
            done = self.up(name=name, train__ranks=ranks, train__collectives=collectives, **settings)
            if "this worker is built without gloo" in done.output + done.errors:
                self.skipTest("the worker is built without gloo")
            self.assertEqual(done.status, 0, done.output + done.errors)
            weights = formulae.read_safetensors(done.folder / "model.safetensors")
            summary = done.summary
            got = [summary[field] for field in ("state_hash", "val_loss", "tokens", "payload_bytes_pushed")]
            wanted = wanted or (got, weights)
            self.assertEqual((got, weights), wanted, f"{preset} with {ranks} ranks")
            logs = "".join(path.read_text(encoding="utf-8") for path in (done.folder / "logs").glob("worker-*"))
            self.assertNotIn(" warning ", logs)
            self.assertNotIn(" error ", logs)

    def test_muon_has_the_bits_of_one_device(self):
        self.check_equal("longwave", sync__inner_steps=6)

    def test_gloo_has_the_bits_of_one_device(self):
        self.check_equal("longwave", nodes=((1, "memory"), (2, "gloo"), (4, "gloo")), sync__inner_steps=6)

    def test_adamw_has_the_bits_of_one_device(self):
        self.check_equal("longwave_adamw", sync__inner_steps=6)

    def test_a_gradient_method_has_the_bits_of_one_device(self):
        self.check_equal("demo")

    def test_flexdemos_replicators_have_the_bits_of_one_device(self):
        for selection in ("random", "stride", "all"):
            self.check_equal("flexdemo", sync__up__selection=selection)

    def test_merged_gradients_have_the_bits_of_one_device(self):
        self.check_equal("ddp")

    def test_fragments_and_an_overlap_have_the_bits_of_one_device(self):
        self.check_equal("longwave", sync__inner_steps=8, sync__overlap=3, sync__fragments=2)

    def test_sgd_without_a_clip_has_the_bits_of_one_device(self):
        self.check_equal("diloco", sync__inner_steps=6, train__optimizer="sgd", train__clip_norm=0,
                         train__learning_rate=0.1)

    def test_micro_batches_that_cannot_be_dealt_are_refused(self):
        done = self.up(train__ranks=3, train__micro_batches=4)
        self.assert_fails(done, "train.micro_batches: got 4, wanted a multiple of train.ranks (3)")

    def start_node(self, cluster, name, ranks, *arguments):
        cluster.start(name, "longwave-worker", "--name", name, "--coordinator", cluster.address, "--run-dir",
                      self.root, "--threads", 1, "--ranks", ranks, *arguments)
        cluster.children[name].await_line("ready ")

    def end_equal(self, cluster, node):
        """Rounds of both members with equal replicas, and an end by SIGTERM to rank 0 alone."""
        cluster.await_members(2)
        others = children_of(cluster.pid(node))
        logs = cluster.end()
        self.assertEqual(await_gone(others, 0), [], "rank 0 has ended before them")
        self.assertTrue(cluster.rounds()[-1]["replicas_equal"])
        cluster.assert_equal_replicas()
        return logs

    def test_a_killed_rank_ends_its_node_which_comes_back_with_other_ranks(self):
        cluster = HandCluster(self, workers=2, started=1, **ENDLESS)
        self.start_node(cluster, "worker-1", 4)
        for victim, ranks in ((1, 2), (0, 1), (None, 4)):
            cluster.await_members(2)
            pid = cluster.pid("worker-1")
            others = children_of(pid)
            if victim is None:
                self.assertEqual(others, [])
                cluster.children["worker-1"].process.terminate()
            else:
                os.kill(others[victim], signal.SIGKILL)
            status, _, log = cluster.children.pop("worker-1").finish()
            self.assertEqual(await_gone(others, 0), [], "rank 0 has ended before them")
            if victim is not None:
                self.assertEqual(status, 1, log)
                self.assertEqual(log.strip().splitlines()[-1], f"error: worker-1: node: rank {victim + 1} has ended")
            self.start_node(cluster, "worker-1", ranks)
            cluster.children["worker-1"].await_log("resumed")
        logs = self.end_equal(cluster, "worker-1")
        self.assertNotIn("no use of the last checkpoint", logs["worker-1"])

    def test_other_ranks_end_with_rank_0(self):
        cluster = HandCluster(self, workers=1, started=0, **ENDLESS)
        self.start_node(cluster, "worker-0", 4)
        cluster.await_rounds(3)
        others = children_of(cluster.pid("worker-0"))
        self.assertEqual(len(others), 3)
        cluster.kill("worker-0")
        self.assertEqual(await_gone(others, 10), [])

    def test_a_frozen_rank_ends_its_node_within_the_heartbeat_timeout(self):
        cluster = HandCluster(self, workers=1, started=0, cluster__heartbeat_timeout_s=4, **ENDLESS)
        self.start_node(cluster, "worker-0", 2)
        cluster.await_rounds(3)
        others = children_of(cluster.pid("worker-0"))
        begin = time.monotonic()
        os.kill(others[0], signal.SIGSTOP)
        status, _, log = cluster.children.pop("worker-0").finish()
        print(f"\n  ended {time.monotonic() - begin:.1f} s after the freeze")
        self.assertEqual(status, 1, log)
        # A checkpoint that is being written has some milliseconds more.
        self.assertRegex(log, r"error: worker-0: node: rank 1 has not come within 4(\.0\d*)?s")
        # The elements of rank 1 are missing.
        self.assertEqual(log.count("the weights are not written: node: rank 1 has not come within 4"), 1, log)
        self.assertFalse((self.root / "model.safetensors").exists())
        self.assertEqual(await_gone(others, 0), [], "rank 0 has ended before it")
        cluster.end()

    def test_a_node_whose_coordinator_is_gone_for_good_writes_the_weights_of_one_device(self):
        weights = []
        for ranks in (1, 2):
            cluster = HandCluster(self, workers=1, shards=1, started=0, run__steps=200, **SETTINGS)
            self.start_node(cluster, f"ranks-{ranks}", ranks, "--set", "cluster.start_timeout_s=3")
            cluster.children[f"ranks-{ranks}"].await_log(" loss ")
            cluster.kill("coordinator")
            status, _, log = cluster.children.pop(f"ranks-{ranks}").finish()
            self.assertEqual(status, 1, log)
            self.assertIn("did not answer for 3s (cluster.start_timeout_s); wanted the run's end", log)
            self.assertEqual(log.count("the model after step 200"), 1, log)
            weights.append(formulae.read_safetensors(self.root / "model.safetensors"))
            (self.root / "model.safetensors").unlink()
            cluster.kill("shard-0")
            shutil.rmtree(self.root / "state")
        self.assertEqual(*weights)

    def test_a_stop_ends_a_validation_at_all_ranks_which_lose_nothing(self):
        cluster = HandCluster(self, workers=1, started=0, run__validation_batches=1_000_000, run__validate_every=2,
                              cluster__checkpoint_rounds=3, **ENDLESS)
        for words in ("keeps a checkpoint of round 2, step 4, with 0 pushes", "resumed in round 2, from step 4: nothing was"):
            self.start_node(cluster, "worker-0", 2)
            cluster.await_that(lambda status: "validating" in status["workers"].get("worker-0", []), cluster.status,
                               "a validation")
            begin = time.monotonic()
            others = children_of(cluster.pid("worker-0"))
            cluster.children["worker-0"].process.terminate()
            status, _, log = cluster.children.pop("worker-0").finish()
            self.assertEqual(status, 0, log)
            self.assertLess(time.monotonic() - begin, 20)
            self.assertNotIn("still busy", log)
            self.assertEqual(await_gone(others, 0), [], "rank 0 has ended before it")
            self.assertIn(words, log)
        cluster.end()

    def test_a_node_is_shown_with_its_ranks(self):
        cluster = HandCluster(self, workers=2, started=1, metrics__peak_tflops=2, **ENDLESS)
        cluster.start("node", "longwave-worker", "--name", "node", "--coordinator", cluster.address, "--run-dir",
                      self.root, "--threads", 1, "--ranks", 2, "--metrics", "127.0.0.1:0")
        cluster.children["node"].await_line("ready ")
        where = cluster.children["node"].await_line("metrics ").split()[1]
        cluster.await_members(2)

        def ask(*options):
            return self.start("longwave", "status", cluster.address, *options).finish()[1]
        self.assertRegex(ask(), r"(?m)^worker .* ranks$[^$]*^node .* 2$[^$]*^worker-0 .* 1$")
        ranks = {worker["name"]: worker["ranks"] for worker in json.loads(ask("--json"))["workers"]}
        self.assertEqual(ranks, {"node": 2, "worker-0": 1})
        page = scrape(where)
        self.assertEqual(total(page, "longwave_worker_ranks"), 2)
        self.assertEqual(total(page, "longwave_worker_peak_flops"), 4e12)
        self.assertGreater(total(page, "longwave_worker_meeting_seconds_count"), 0)
        moving = total(page, "longwave_worker_node_tensors_seconds_total")
        self.assertTrue(0 < moving < total(page, "longwave_worker_phase_seconds_total"), moving)
        logs = self.end_equal(cluster, "node")
        self.assertIn("threads in each of the ranks, 2", logs["node"])

    def test_the_doctor_measures_the_link_between_ranks(self):
        status, output, errors = self.start("longwave", "doctor", "--device", "cpu", "--ranks", 3).finish()
        self.assertEqual(status, 0, output + errors)
        # A machine that is busy has a slow link, which is a warning.
        self.assertRegex(output, r"(?m)^(ok|warning) +node +3 ranks, a meeting takes \d+ us, a gradient is summed at "
                                 r"\d+\.\d GB/s, weights are gathered at \d+\.\d GB/s")
        status, output, errors = self.start("longwave-worker", "--check-device", "cpu", "--ranks", 65).finish()
        self.assertEqual(status, 0, output + errors)
        self.assertRegex(output, r"(?m)^device cpu\nwhy no node .*train\.ranks: got 65, wanted .*64")

    def test_what_a_rank_lacks_is_said_by_rank_0(self):
        done = self.up(train__ranks=2, train__micro_batches=2, data__path=str(self.root / "nowhere"))
        self.assert_fails(done, "nowhere")


if __name__ == "__main__":
    unittest.main()
