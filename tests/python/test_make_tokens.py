"""python -m longwave.make_tokens: from text to files of tokens, and a run on them."""

import array
import pathlib
import subprocess
import sys
import unittest
from unittest import mock

import pytest

from harness import longwave
from workers import WorkersTest

tokenizers = pytest.importorskip("tokenizers", reason="tokenizers is not installed")


def make_tokens(*arguments):
    return subprocess.run([sys.executable, "-m", "longwave.make_tokens", *map(str, arguments)], capture_output=True,
                          text=True, check=False)


def read_shard(path):
    data = pathlib.Path(path).read_bytes()
    header, tokens = array.array("i", data[:1024]), array.array("H", data[1024:])
    assert list(header[:3]) == [20240520, 1, len(tokens)] and not any(header[3:])
    return list(tokens)


class MakeTokens(WorkersTest):
    def test_a_run_trains_on_the_tokens_of_a_text(self):
        out = self.root / "tokens"
        done = make_tokens(self.text, "--out", out, "--vocabulary", 512)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("data.kind=tokens", done.stdout)
        tokens = read_shard(out / "tokens_000000.bin")
        tokenizer = tokenizers.Tokenizer.from_file(str(out / "tokenizer.json"))
        self.assertEqual(tokenizer.decode(tokens), self.text.read_text(encoding="utf-8"))
        size = tokenizer.get_vocab_size()
        self.assertLess(max(tokens), size)
        run = self.up("--data", out / "*.bin", data__kind="tokens", model__vocabulary=size, sync__inner_steps=6)
        self.assertEqual(run.status, 0, run.output + run.errors)
        self.assertTrue(run.summary["replicas_equal"])
        # Text again, by the tokenizer beside the data.
        written = longwave("generate", run.folder, "--prompt", "the worker", "--length", 5)
        self.assertTrue(written.stdout.startswith("the worker"), written.stdout)
        # Another text with the same tokens.
        again = make_tokens(self.text, "--out", self.root / "again", "--tokenizer", out / "tokenizer.json")
        self.assertEqual(again.returncode, 0, again.stderr)
        self.assertEqual(read_shard(self.root / "again/tokens_000000.bin"), tokens)
        # Shards of an earlier call would be read with the new ones.
        mixed = make_tokens(self.text, "--out", out, "--vocabulary", 300)
        self.assertEqual(mixed.returncode, 2)
        self.assertIn("which has tokens_000000.bin already, wanted a folder without tokens", mixed.stderr)
        # A model with too few tokens gets an error with the place.
        short = self.up("--data", out / "*.bin", name="short", data__kind="tokens", model__vocabulary=256,
                        sync__inner_steps=6)
        self.assertNotEqual(short.status, 0)
        self.assertRegex(short.output + short.errors, r"tokens_000000\.bin: token \d+ is \d+, wanted one below "
                                                      r"model\.vocabulary \(256\)")

    def test_a_long_text_becomes_several_shards(self):
        from longwave import make_tokens as module

        text = self.root / "text.txt"
        text.write_text("one two three\n" * 1000, encoding="utf-8")
        whole, cut = self.root / "whole", self.root / "cut"
        self.assertEqual(module.main([str(text), "--out", str(whole), "--vocabulary", "300"]), 0)
        with mock.patch.multiple(module, _SHARD_TOKENS=100, _CHUNK_CHARACTERS=1000):
            self.assertEqual(module.main([str(text), str(text), "--out", str(cut), "--tokenizer", f"{whole}/tokenizer.json"]), 0)
        shards = sorted(cut.glob("*.bin"))
        self.assertGreater(len(shards), 10)
        self.assertEqual([token for shard in shards for token in read_shard(shard)], 2 * read_shard(whole / "tokens_000000.bin"))

    def test_refuses_what_has_no_place_in_16_bits(self):
        done = make_tokens(self.text, "--out", self.root / "tokens", "--vocabulary", 70000)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--vocabulary: got 70000, wanted 256 to 65536", done.stderr)


if __name__ == "__main__":
    unittest.main()
