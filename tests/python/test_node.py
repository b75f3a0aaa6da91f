"""Workers of several processes under torchrun: one worker each, and in one run with workers of one process."""

import os
import pathlib
import re
import signal
import sys
import unittest

from harness import Child
from sync_case import SyncCase

PROGRAM = pathlib.Path(__file__).with_name("node_worker.py")
ROOT = pathlib.Path(__file__).parents[2]


class NodeCase(SyncCase):
    def cluster(self, *arguments, **settings):
        """Every rank has segments, each of a tile, unless the test says otherwise."""
        return super().cluster(*arguments, **{"sync__segment_tiles": 1, **settings})

    def node(self, ranks, *arguments, restarts=0, program=PROGRAM):
        """A process, or torchrun with so many of them."""
        command = [sys.executable]
        if ranks > 1:
            # Otherwise the processes of a restart read the addresses of those before.
            command = ["env", "TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1", sys.executable]
            command += ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", ranks, "--monitor-interval",
                        "0.1", "--max-restarts", restarts]
        child = Child(*command, program, *arguments)
        self.children.append(child)
        return child

    def digests(self, *nodes):
        """Waits for their ends; returns the weights of each rank."""
        found = []
        for node in nodes:
            status, output, errors = node.finish()
            self.assertEqual(status, 0, output + errors)
            found.append(re.findall(r"rank \d+ ends \d+ weights (\w+)", output))
            self.assertTrue(found[-1], output + errors)
        return found

    def assert_one_model(self, *nodes, ranks):
        """All ranks of all nodes end with the same weights; returns their hash."""
        digests = self.digests(*nodes)
        self.assertEqual([len(each) for each in digests], ranks)
        self.assertEqual(len({digest for each in digests for digest in each}), 1, digests)
        self.hand.assert_equal_replicas()
        return digests[0][0]


class Node(NodeCase):
    def test_ranks_that_have_the_model_whole_and_a_single_process_are_two_workers_of_a_run(self):
        for kind in ("ddp", "plain"):
            with self.subTest(kind):
                address = self.cluster(workers=2, run__start="member")
                self.assert_one_model(self.node(2, address, "node", f"{kind}-own"), self.node(1, address, "one", "plain"),
                                      ranks=[2, 1])

    def test_ranks_that_have_shards_and_a_single_process_are_two_workers_of_a_run(self):
        for ranks in (2, 3):
            with self.subTest(ranks=ranks):
                address = self.cluster(workers=2, run__start="member")
                self.assert_one_model(self.node(ranks, address, "node", "fsdp-own"),
                                      self.node(1, address, "one", "plain"), ranks=[ranks, 1])

    def test_with_equal_gradients_a_node_is_a_single_process_bit_for_bit(self):
        for settings in ({}, {"run__preset": "longwave_adamw", "sync__fragments": 3, "sync__overlap": 2}):
            with self.subTest(**settings):
                digests = []
                for ranks, kind in ((1, "plain"), (2, "ddp"), (2, "plain"), (2, "fsdp")):
                    address = self.cluster(run__start="member", **settings)
                    digests.append(self.assert_one_model(self.node(ranks, address, "one", kind), ranks=[ranks]))
                self.assertEqual(len(set(digests)), 1, digests)

    def test_methods_that_sync_gradients(self):
        for preset, option in (("flexdemo", "gradient"), ("demo", "gradient"), ("ddp", "inner")):
            with self.subTest(preset):
                settings = {"run__preset": preset, "sync__inner_steps": 1}
                if preset != "ddp":
                    settings["run__start"] = "member"
                digests = []
                for ranks, kind in ((1, "plain"), (2, "ddp")):
                    address = self.cluster(**settings)
                    digests.append(self.assert_one_model(self.node(ranks, address, "one", f"{kind}-{option}"),
                                                         ranks=[ranks]))
                self.assertEqual(len(set(digests)), 1, digests)
                address = self.cluster(workers=2, **settings)
                self.assert_one_model(self.node(3, address, "node", f"fsdp-{option}-own"),
                                      self.node(1, address, "one", f"plain-{option}"), ranks=[3, 1])

    def test_the_example_trains_under_torchrun(self):
        address = self.cluster(run__start="member", run__preset="longwave_adamw", run__steps=30, model__context=64)
        example = ROOT / "python/examples/nanogpt.py"
        node = self.node(2, "--data", self.text, "--address", address, "--name", "node", "--layers", 2, "--width", 64,
                         "--heads", 2, "--context", 64, "--batch", 4, "--warmup", 5, "--learning-rate", 0.006, program=example)
        status, output, errors = node.finish()
        self.assertEqual(status, 0, output + errors)
        losses = [float(loss) for loss in re.findall(r"loss (\d\.\d{4})", output)]
        self.assertLess(losses[-1], 0.95 * losses[0], output)
        self.hand.assert_equal_replicas()

    def test_ranks_that_are_no_worker_are_told_in_a_sentence(self):
        node = self.node(2, program=PROGRAM.with_name("node_errors.py"))
        status, output, errors = node.finish()
        self.assertEqual(status, 0, output + errors)
        for sentence in (
            "name: got 'b' at rank 1 and 'a' at rank 0, wanted one for all: the ranks of a process group are one worker",
            "model: got 4 trained parameters at rank 1 and 2 at rank 0, wanted the same model",
            "model: got other names or shapes of parameters at rank 1 than at rank 0, wanted the same model",
            "state_dir: got '/one' at rank 1 and none at rank 0, wanted one folder, which all ranks can read",
            "state_dir: got '/other' at rank 1 and '/one' at rank 0, wanted one folder, which all ranks can read",
            "keep: got none at rank 1 and 'ema', 'loader' at rank 0, wanted the same names",
            "weight: got a DTensor on a mesh of 2 dimensions and 2 ranks, wanted one dimension with all 2 ranks of the process "
            "group: between machines, Longwave is the dimension that replicates",
            "0.weight: got a whole tensor beside DTensors, wanted fully_shard of the whole model: it shards what the calls for "
            "its parts have left",
            "alias: got 0.weight, a DTensor of fully_shard, wanted whole parameters: fully_shard has the memory of its shards",
            "model: got DTensors and no process group, wanted torch.distributed.init_process_group before Sync",
        ):
            self.assertEqual(output.count(f": {sentence}\n"), 2, output + errors)


class Ranks(NodeCase):
    """Ranks that end or hang."""

    def pids(self, child, ranks=2):
        """By rank, and the steps at which they begin."""
        found = {}
        while len(found) < ranks:
            rank, pid, step = map(int, re.match(r"rank (\d+) pid (\d+) began (\d+)", child.await_line(" began ")).groups())
            found[rank] = pid, step
        return [found[rank][0] for rank in range(ranks)], found[0][1]

    def come_back(self, kind, end=None, **settings):
        """The node's run, in which `end` is called with rank 1's process once it is well under way, or which the
        kind ends by itself."""
        address = self.cluster(run__start="member", run__steps=400, cluster__heartbeat_timeout_s=5, **settings)
        node = self.node(2, address, "node", kind, self.root / "kept", restarts=1)
        pids, _ = self.pids(node)
        if end is not None:
            node.await_line("rank 1 round 5")
            end(pids[1])
        again, step = self.pids(node)
        self.assertEqual(set(pids) & set(again), set())
        self.assertGreaterEqual(step, 40)  # not from the beginning
        status, output, errors = node.finish()
        self.assertEqual(status, 0, errors)
        self.assertEqual(len(set(re.findall(r"rank \d+ ends 400 weights (\w+)", output))), 1, output)
        self.hand.assert_equal_replicas()
        self.hand.end()
        status, output, errors = self.start("longwave", "replay", self.root, "--config", self.hand.config).finish()
        self.assertEqual(status, 0, output + errors)
        self.assertIn("each in exactly one merge", output)
        return node.errors

    def test_a_node_whose_rank_is_killed_comes_back_from_its_checkpoint(self):
        self.come_back("ddp", lambda pid: os.kill(pid, signal.SIGKILL))

    def test_a_node_of_shards_whose_rank_is_killed_comes_back_from_its_checkpoint(self):
        self.come_back("fsdp", lambda pid: os.kill(pid, signal.SIGKILL))

    def test_a_node_whose_first_rank_has_no_segment_comes_back_from_its_checkpoint(self):
        self.come_back("ddp", lambda pid: os.kill(pid, signal.SIGKILL), sync__segment_tiles=256)

    def test_a_rank_that_hangs_ends_its_node_which_comes_back(self):
        self.come_back("ddp", lambda pid: os.kill(pid, signal.SIGSTOP))

    def test_the_first_step_which_may_compile_and_what_follows_the_run_have_the_loops_own_timeout(self):
        address = self.cluster(run__start="member", cluster__heartbeat_timeout_s=5)
        status, output, errors = self.node(2, address, "node", "ddp-patience").finish()
        self.assertEqual(status, 0, output + errors)
        for rank in range(2):
            self.assertIn(f"rank {rank} waits 1800 s at first\n", output)
            self.assertIn(f"rank {rank} waits 5 s\n", output)
            self.assertIn(f"rank {rank} waits 1800 s at last\n", output)

    def test_a_node_that_comes_to_a_finished_run_is_done_at_all_ranks(self):
        address = self.cluster(run__start="member")
        self.assert_one_model(self.node(2, address, "node", "ddp"), ranks=[2])
        late = self.node(2, address, "late", "ddp")
        status, output, errors = late.finish()
        self.assertEqual(status, 0, output + errors)
        self.assertEqual(len(re.findall(r"rank \d ends 40 weights", output)), 2, output)
        self.assertEqual(errors.count("the run is finished: the parameters are this process's own"), 2, errors)

    def test_a_pause_may_take_longer_than_the_heartbeat_timeout(self):
        address = self.cluster(run__start="member", cluster__heartbeat_timeout_s=3)
        self.assert_one_model(self.node(2, address, "node", "plain-alone-pause"), ranks=[2])

    def test_of_a_rank_that_raises_in_a_pause_the_others_hear(self):
        for raises, late in ((0, ""), (1, ""), (1, "-late")):
            with self.subTest(rank=raises, late=late):
                address = self.cluster(run__start="member", cluster__heartbeat_timeout_s=3)
                node = self.node(2, address, "node", f"plain-alone-pause-raises{raises}{late}")
                status, output, errors = node.finish(timeout=60)
                self.assertEqual(status, 0, output + errors)
                self.assertIn(f"rank {raises} raises ZeroDivisionError: division by zero\n", output)
                hears = f"rank {raises} has failed in a pause" + ("|a rank has ended in a pause: " if late else "")
                self.assertRegex(output, f"rank {1 - raises} raises LongwaveError: node: ({hears})")
                self.await_coordinator("ZeroDivisionError: division by zero" if raises == 0 else "(node) leaves")

    def test_a_rank_that_fails_alone_in_an_exchange_of_tensors_aborts_no_process(self):
        node = self.node(2, program=PROGRAM.with_name("node_alone.py"))
        status, output, errors = node.finish()
        self.assertEqual(status, 0, output + errors)
        self.assertCountEqual(output.splitlines(), ["rank 0 raises RuntimeError", "rank 1 raises LongwaveError"])

    def test_ranks_that_leave_at_different_steps_say_so_and_come_back(self):
        errors = self.come_back("plain-alone-leaves1")
        self.assertRegex(errors, r"node: the ranks are not at the same point: rank \d is at .+ and rank \d at .+, wanted the same calls")

    def test_a_rank_that_leaves_while_another_averages_gradients_ends_its_node_which_comes_back(self):
        errors = self.come_back("ddp-leaves1")
        self.assertRegex(errors, "a rank of this node hangs|has not come within 5 s|Timed out waiting 5000ms")

    def test_a_rank_that_dies_in_an_exchange_of_tensors_is_no_failure_of_the_worker(self):
        for kind in ("ddp-dies1", "fsdp-dies1"):
            with self.subTest(kind):
                self.come_back(kind)


if __name__ == "__main__":
    unittest.main()
