"""The benches of our GPT say what they measure, at sizes that take a second."""

import pathlib
import re
import struct
import subprocess
import sys

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parents[1] / "integration"))
from harness import BIN, DEADLINE_S, IntegrationTest  # noqa: E402

SIZES = {"model.d_model": 16, "model.layers": 2, "model.heads": 2, "model.context": 8}


class Benches(IntegrationTest):
    def settings(self, more):
        return [part for key, value in {**SIZES, **more}.items() for part in ("--set", f"{key}={value}")]

    def run_bench(self, *command, wanted=0, said=""):
        done = subprocess.run([str(part) for part in command], input=said, capture_output=True, text=True,
                              timeout=DEADLINE_S, check=False)
        self.assertEqual(done.returncode, wanted, done.stdout + done.stderr)
        return done.stdout + done.stderr

    def test_steps_are_taken_and_the_first_weights_written(self):
        batches, weights = self.root / "batches", self.root / "weights"
        batches.write_bytes(struct.pack("<36q", *(ord(c) for c in "a text that is long enough for these")))
        command = [BIN / "bench_gpt", "--batches", batches, "--weights", weights,
                   *self.settings({"train.batch": 2, "train.optimizer": "adamw", "train.device": "cpu"})]
        parameters, first, second = self.run_bench(*command, said="1\n30\n").splitlines()
        self.assertEqual(parameters, f"{weights.stat().st_size // 4} parameters")
        self.assertAlmostEqual(float(first.split()[2]), 5.545, delta=0.1)  # ln 256
        self.assertLess(float(second.split()[2]), 4.5)
        batches.write_bytes(batches.read_bytes()[8:])
        self.assertIn("no whole batches", self.run_bench(*command, wanted=1))

    def test_two_workers_tell_their_memory_and_end(self):
        command = [sys.executable, "-B", HERE / "two_workers.py", BIN, "--data", self.text]
        output = self.run_bench(*command, *self.settings({"model.size": "custom"}))
        for name in ("coordinator", "shard", "worker-0", "worker-1", "all"):
            self.assertRegex(output, rf"(?m)^{name}: at most \d+\.\d\d GiB")
        self.assertEqual(len(re.findall('"round"', output)), 2, output)
        self.assertIn("all processes finished, replicas equal", output)

    def test_a_worker_that_fails_fails_the_bench(self):
        command = [sys.executable, "-B", HERE / "two_workers.py", BIN, "--data", self.root / "nowhere"]
        output = self.run_bench(*command, *self.settings({"model.size": "custom"}), wanted=1)
        self.assertRegex(output, r"worker-[01] ended with 1:")  # Whichever is seen first.
