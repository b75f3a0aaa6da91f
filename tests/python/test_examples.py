"""python/examples: each trains alone, and as the workers of a run."""

import pathlib
import unittest

from workers import EXAMPLES, IMAGES, WorkersTest

SMALL = ["--layers", 2, "--width", 64, "--heads", 2, "--context", 64, "--batch", 4]


class Examples(WorkersTest):
    def check(self, name, *arguments, steps=60, **settings):
        """Alone its loss is said; as two workers their loss falls, and their replicas are equal."""
        command = self.example(name, *arguments)
        self.assertEqual(len(self.losses(self.alone([*command, "--steps", "2"]))), 1)
        done, logs = self.up_workers(command, run__steps=steps, **settings)
        self.assertEqual(len(logs), 2)
        for log in logs.values():
            losses = self.losses(log)
            self.assertLess(losses[-1], 0.95 * losses[0], log)
        self.assertLess(done.summary["train_loss"], losses[0])
        self.assertEqual(done.summary["warnings"], [])
        return logs

    def test_gpt2_of_transformers(self):
        self.check("gpt2_hf.py", "--data", self.text, *SMALL)

    def test_a_gpt_of_plain_pytorch_in_a_secured_run(self):
        self.check("nanogpt.py", "--data", self.text, "--warmup", 5, *SMALL, security__mode="on")

    def test_a_lightning_module(self):
        self.check("lightning_gpt.py", "--data", self.text, *SMALL)

    def check_images(self, *arguments, steps):
        if not IMAGES.is_dir():
            self.skipTest(f"no images in {IMAGES}")
        logs = self.check("images.py", "--data", IMAGES, *arguments, steps=steps)
        for log in logs.values():
            self.assertIn("held-out images are right", log)

    def test_a_resnet_on_images(self):
        self.check_images("--learning-rate", 0.005, steps=210)

    def test_a_vision_transformer_on_images(self):
        self.check_images("--model", "vit", "--width", 32, "--layers", 2, "--optimizer", "muon", "--learning-rate", 0.015,
                          steps=150)

    def test_images_that_are_none_are_refused_with_a_sentence(self):
        with self.assertRaises(AssertionError) as failure:
            self.alone(self.example("images.py", "--data", self.root))
        self.assertIn("has no IDX file of unsigned bytes in 3 dimensions; wanted MNIST's two files",
                      str(failure.exception))

    def test_each_marks_the_three_lines_that_are_longwaves(self):
        for path in sorted(pathlib.Path(EXAMPLES).glob("*.py")):
            if path.name in ("common.py", "lora_hf.py", "full_hf.py"):  # the latter two have tuning.py's
                continue
            marks = [f"# Longwave, {number} of 3" for number in (1, 2, 3)]
            with self.subTest(path.name):
                text = path.read_text(encoding="utf-8")
                self.assertEqual([text.count(mark) for mark in marks], [1, 1, 1])


if __name__ == "__main__":
    unittest.main()
