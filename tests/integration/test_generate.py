"""Text of a model that a run has trained."""

import json
import subprocess
import unittest

from harness import BIN, IntegrationTest


class Generate(IntegrationTest):
    def generate(self, *arguments):
        return subprocess.run([BIN / "longwave", "generate", *map(str, arguments)], capture_output=True, check=False,
                              timeout=120, encoding="utf-8")

    def test_a_run_ends_with_a_sample_and_generate_writes_more(self):
        done = self.up(run__preset="longwave", run__steps=120, train__learning_rate=0.01)
        self.assertEqual(done.status, 0, done.output + done.errors)
        lines = done.output.splitlines()
        title = lines.index(f"a sample of the model (longwave generate {done.folder})")
        self.assertTrue(lines[title + 1].startswith("    "), done.output)
        self.assertTrue(lines[-1].startswith("longwave up: finished: "), "the closing line is the last one")
        self.assertEqual(json.loads((done.folder / "config.json").read_text(encoding="utf-8"))["n_embd"], 32)

        wanted = ["--prompt", "the worker", "--length", 50]
        first = self.generate(done.folder, *wanted, "--seed", 3)
        self.assertEqual((first.returncode, first.stderr), (0, ""))
        self.assertTrue(first.stdout.startswith("the worker"), first.stdout)
        self.assertEqual(self.generate(done.folder, *wanted, "--seed", 3).stdout, first.stdout)
        self.assertNotEqual(self.generate(done.folder, *wanted, "--seed", 4).stdout, first.stdout)
        # The likeliest bytes of this text are letters and spaces.
        likeliest = self.generate(done.folder, *wanted, "--temperature", 0).stdout
        self.assertEqual(len(likeliest), len("the worker") + 50 + 1, likeliest)
        self.assertEqual(self.generate(done.folder, *wanted, "--top-k", 1).stdout, likeliest)

    def test_what_is_no_run_is_refused_in_a_sentence(self):
        for arguments, words in (
                ([self.root], f"cannot read {self.root}/config.json, which describes the weights"),
                ([self.root, "--prompt", ""], "--prompt: got nothing, wanted a byte or more to go on with"),
                ([self.root, "--temperature", "-1"], "--temperature: got -1, wanted 0 or more"),
                ([self.root, "--length", "many"], "--length"), ([], "run is required")):
            with self.subTest(arguments):
                done = self.generate(*arguments)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(words, done.stderr)
                self.assertLessEqual(done.stderr.count("\n"), 2, done.stderr)


if __name__ == "__main__":
    unittest.main()
