"""Where a run's first weights come from, and workers that have nothing but an address."""

import re
import struct
import unittest

from by_hand import HandCluster
from harness import IntegrationTest
from test_commands import read_safetensors

SHORT = {"run__preset": "longwave", "run__steps": 120, "sync__inner_steps": 4}


class Start(IntegrationTest):
    def initial(self, seed):
        """A file of the weights that a seed gives."""
        file = self.root / f"initial-{seed}.safetensors"
        self.ends(self.start("longwave-worker", "--config", self.write_config("initial.yaml"),
                             "--set", f"run.seed={seed}", "--write-initial", file))
        return file

    def start_from(self, cluster, name, file):
        cluster.start(name, "longwave-worker", "--name", name, "--coordinator", cluster.address,
                      "--run-dir", self.root, "--threads", 1, "--start-from", file)

    def test_workers_with_other_weights_fetch_those_of_the_first(self):
        cluster = HandCluster(self, workers=2, started=0, run__start="member", **SHORT)
        self.start_from(cluster, "worker-0", self.initial(7))
        cluster.children["worker-0"].await_line("ready ")
        self.start_from(cluster, "worker-1", self.initial(8))
        first, second = (cluster.children.pop(name).finish() for name in ("worker-0", "worker-1"))
        self.assertEqual((first[0], second[0]), (0, 0), first[2] + second[2])
        self.assertIn("caught up: at round", second[2])
        self.assertNotIn("caught up: at round", first[2])
        cluster.end()
        cluster.assert_equal_replicas()
        # The audit begins with the shards' kept start, and does not draw the weights again.
        for shard in range(2):
            kept = list((self.root / "state" / f"shard-{shard}" / "snap").glob("start-*.lwsnap"))
            self.assertTrue(kept, shard)
        output = cluster.replay()
        self.assertRegex(output, r"(?m)^model +after \d+ rounds ")
        compared = int(re.search(r"(?m)^rounds +(\d+) compared", output).group(1))
        self.assertGreaterEqual(compared, len(cluster.rounds()) - 1)

    def test_up_begins_with_the_weights_that_it_is_given(self):
        file = self.initial(7)
        # Nothing is learnt.
        done = self.up("--start-from", file, train__learning_rate=0)
        self.assertEqual(done.status, 0, done.output + done.errors)
        tensors = read_safetensors(file)
        self.assertEqual(read_safetensors(done.folder / "model.safetensors"), tensors)
        self.assertNotEqual(read_safetensors(self.initial(1)), tensors)

    def test_up_refuses_weights_that_it_cannot_begin_with(self):
        file = self.initial(7)
        self.assert_fails(self.up("--start-from", file, model__d_model=64), str(file), "tensor wte.weight: got ")
        self.assert_fails(self.up("--start-from", self.text), str(self.text), "got no safetensors header")
        self.assert_fails(self.up("--start-from", self.root), str(self.root), "got a folder without model.safetensors")
        data = bytearray(file.read_bytes())
        data[-4:] = struct.pack("<f", float("nan"))
        file.write_bytes(data)
        done = self.up("--start-from", file)
        self.assert_fails(done, str(file), "tensor ln_f.bias: element 31 is nan")
        self.assertFalse(done.folder.exists())

    def test_a_seeds_run_refuses_other_weights(self):
        # The run does not end while it is looked at.
        cluster = HandCluster(self, workers=2, started=1, **{**SHORT, "run__steps": 100_000_000})
        cluster.children["worker-0"].await_line("ready ")
        self.start_from(cluster, "worker-1", self.initial(8))
        _, errors = self.ends(cluster.children.pop("worker-1"), 1)
        self.assertIn("worker worker-1 begins with other weights than the run: segment 0: got hash",
                      errors)
        # Weights equal to the run's are accepted from any source.
        self.start_from(cluster, "worker-1", self.initial(1))
        cluster.await_rounds(2)
        cluster.end()

    def test_an_address_is_all_that_a_worker_needs(self):
        cluster = HandCluster(self, workers=2, started=1, **SHORT)
        other = self.start("longwave-worker", "--coordinator", cluster.address, "--name", "other",
                           "--run-dir", self.root, "--set", "train.threads=1")
        for child in (cluster.children.pop("worker-0"), other):
            self.ends(child)
        cluster.end()
        cluster.assert_equal_replicas()
        self.assertTrue(all(record["members"] == 2 for record in cluster.rounds()))

    def test_what_a_worker_sets_over_the_runs_configuration_binds_as_in_a_file(self):
        cluster = HandCluster(self, workers=1, shards=1, started=0, **SHORT)
        other = self.start("longwave-worker", "--coordinator", cluster.address, "--name", "other", "--set", "sync.rho=0.123")
        self.assertIn("sync.rho: got 0.123", self.closing_sentence(other))
        cluster.end()

    def test_a_shard_of_a_members_start_needs_a_folder(self):
        config = self.write_config(run__start="member")
        shard = self.start("longwave-server", "--role=shard", "--shard", 0, "--config", config, "--listen",
                           "tcp://127.0.0.1:0")
        self.assertIn("run.start: member: got no --state-dir", self.closing_sentence(shard))


if __name__ == "__main__":
    unittest.main()
