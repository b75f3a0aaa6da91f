"""A run's result is a GPT-2 in the format of Hugging Face's transformers."""

import unittest

import torch
from transformers import GPT2LMHeadModel

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


if __name__ == "__main__":
    unittest.main()
