"""A run's result is a GPT-2 in the format of Hugging Face's transformers."""

import unittest

import torch
from safetensors.torch import load_file
from transformers import GPT2Config, GPT2LMHeadModel

from harness import TINY
from workers import WorkersTest


class Gpt2Weights(WorkersTest):
    def validation_loss(self, model):
        tokens = torch.tensor(self.validation_windows())
        with torch.no_grad():
            logits = model(tokens[:, :-1]).logits
        return torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten()).item()

    def test_from_pretrained_computes_what_was_trained(self):
        done = self.up(run__preset="longwave", run__steps=200, model__layers=2, train__learning_rate=0.01,
                       security__mode="off")
        self.assertEqual(done.status, 0, done.output + done.errors)
        model, found = GPT2LMHeadModel.from_pretrained(done.folder, output_loading_info=True)
        self.assertEqual([found[kind] for kind in ("unexpected_keys", "mismatched_keys", "error_msgs")], [[], [], []])
        self.assertFalse(set(found["missing_keys"]) - {"lm_head.weight"}, "that one is the embedding")
        self.assertEqual(sum(parameter.numel() for parameter in model.parameters()), done.summary["params"])
        self.assertAlmostEqual(self.validation_loss(model.eval()), done.summary["val_loss"], delta=1e-4)
        self.assertLess(done.summary["val_loss"], 4, "it has learnt something")

        prompt, length = b"the ", TINY["model.context"] - 4
        tokens = model.generate(torch.tensor([list(prompt)]), max_new_tokens=length, do_sample=False)[0]
        status, text, errors = self.start("longwave", "generate", done.folder, "--prompt", prompt.decode(), "--length",
                                          length, "--temperature", 0).finish()
        self.assertEqual(status, 0, errors)
        self.assertEqual(text, bytes(tokens.tolist()).decode("latin-1") + "\n")

    def test_what_transformers_save_is_begun_with(self):
        torch.manual_seed(3)
        config = GPT2Config(vocab_size=256, n_embd=32, n_layer=1, n_head=2, n_positions=32, activation_function="gelu")
        model = GPT2LMHeadModel(config)
        for dtype, options in ((torch.float32, {}), (torch.bfloat16, {}), (torch.float16, {"max_shard_size": "20KB"})):
            with self.subTest(dtype):
                folder, out = self.root / str(dtype), self.root / f"{dtype}.safetensors"
                model.to(dtype).save_pretrained(folder, **options)
                self.assertEqual((folder / "model.safetensors.index.json").exists(), bool(options))
                self.ends(self.start("longwave-worker", "--config", self.write_config(), "--start-from", folder,
                                     "--write-initial", out))
                wanted = {name: tensor.float() for name, tensor in model.transformer.state_dict().items()}
                got = load_file(out)
                self.assertEqual(sorted(got), sorted(wanted))
                self.assertTrue(all(torch.equal(got[name], wanted[name]) for name in got))


if __name__ == "__main__":
    unittest.main()
