"""longwave-worker trains TorchScript modules of files: those of python/examples/models."""

import importlib.util
import sys
import unittest

import torch
from safetensors.torch import load_file

from by_hand import HandCluster
from workers import EXAMPLES, IMAGES, WorkersTest

MODELS = EXAMPLES / "models"


class ModelFile(WorkersTest):
    def make(self, name, *arguments, out="model.pt"):
        file = self.root / out
        self.alone([sys.executable, str(MODELS / f"{name}.py"), "--out", str(file), *map(str, arguments)])
        return file

    def module(self, name):
        sys.path.insert(0, str(MODELS))
        self.addCleanup(sys.path.remove, str(MODELS))
        spec = importlib.util.spec_from_file_location(f"example_{name}", MODELS / f"{name}.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    def validation_loss(self, model):
        tokens = torch.tensor(self.validation_windows())
        with torch.no_grad():
            return model(tokens[:, :-1], tokens[:, 1:]).item()

    def test_an_lstm_learns_text_and_its_weights_are_the_modules(self):
        file = self.make("lstm", "--width", 32)
        done = self.up(run__preset="longwave", run__steps=120, sync__inner_steps=10, train__learning_rate=0.01,
                       model__kind="file", model__file=str(file))
        self.assertEqual(done.status, 0, done.output + done.errors)
        self.assertTrue(done.summary["replicas_equal"])
        weights = load_file(done.folder / "model.safetensors")
        model = self.module("lstm").Lstm(256, 32, 1)
        first = torch.jit.load(file).state_dict()
        model.load_state_dict(first)
        before = self.validation_loss(model)
        model.load_state_dict(weights)
        self.assertAlmostEqual(self.validation_loss(model), done.summary["val_loss"], delta=1e-4)
        self.assertLess(done.summary["val_loss"], 0.7 * before)
        for name, value in weights.items():
            self.assertGreater((value - first[name]).abs().max(), 1e-3, name)
        self.assert_replays(done.folder)

    def test_a_vision_transformer_learns_images(self):
        if not IMAGES.is_dir():
            self.skipTest(f"no images in {IMAGES}")
        file = self.make("vit", "--width", 32, "--layers", 2)
        done = self.up(run__preset="longwave", run__steps=150, sync__inner_steps=10, train__batch=16,
                       model__kind="file", model__file=str(file), data__kind="images", data__path=str(IMAGES),
                       model__channels=1, model__image_size=28)
        self.assertEqual(done.status, 0, done.output + done.errors)
        self.assertTrue(done.summary["replicas_equal"])
        self.assertLess(done.summary["val_loss"], 1.8, "ln 10 is 2.3")

    def test_a_worker_whose_file_has_other_values_or_shapes_is_refused(self):
        first, other, wide = (self.make("lstm", "--width", width, "--seed", seed, out=f"{width}-{seed}.pt")
                              for width, seed in ((16, 1), (16, 2), (24, 1)))
        # The run does not end while it is looked at.
        cluster = HandCluster(self, workers=2, started=1, run__preset="longwave", run__steps=100_000_000,
                              sync__inner_steps=4, model__kind="file", model__file=str(first))
        cluster.children["worker-0"].await_line("ready ")
        for file, sentence in ((other, "begins with other weights than the run"), (wide, "wanted embedding.weight [256, 16]")):
            cluster.start("stranger", "longwave-worker", "--name", "stranger", "--coordinator", cluster.address,
                          "--set", f"model.file={file}")
            status, _, errors = cluster.children.pop("stranger").finish()
            self.assertNotEqual(status, 0)
            self.assertIn(sentence, errors)
        cluster.end()

    def test_what_is_no_module_is_refused_before_anything_starts(self):
        done = self.up(model__kind="file", model__file=str(self.root / "none.pt"))
        self.assertNotEqual(done.status, 0)
        self.assertIn("none.pt, which is no file on this machine", done.errors)
        done = self.up(model__kind="file", model__file=str(self.text))
        self.assertNotEqual(done.status, 0)
        self.assertIn("wanted a TorchScript module with forward", done.output + done.errors)


if __name__ == "__main__":
    unittest.main()
