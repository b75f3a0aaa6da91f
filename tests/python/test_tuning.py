"""Pretrained models: the tuning examples as the workers of runs, and what all workers must have alike."""

import json
import subprocess
import sys
import time
import unittest

import torch
from harness import BIN
from sync_case import SyncCase
from workers import ROOT, WorkersTest

import longwave

try:
    import peft
    import transformers
    from tiny_llama import save_chats, save_tiny_llama, save_tokenizer
except ImportError as error:
    raise unittest.SkipTest(f"no transformers or no peft: {error}") from None

LORA = {"r": 4, "target_modules": ["q_proj", "v_proj"], "task_type": "CAUSAL_LM"}


class Examples(WorkersTest):
    def setUp(self):
        super().setUp()
        self.base = save_tiny_llama(self.root / "base")
        self.rows = save_chats(self.root / "rows.jsonl")

    def tune(self, script, *arguments, **settings):
        command = self.example(script, "--model", self.base, "--data", self.rows, "--context", 64, "--out",
                               self.root / "out", *arguments)
        done, logs = self.up_workers(command, run__steps=60, run__preset="longwave_adamw", **settings)
        self.assertEqual(done.summary["warnings"], [])
        for log in logs.values():
            before, after = (float(line.split()[-1]) for line in log.splitlines() if line.startswith("held-out loss"))
            self.assertLess(after, 0.97 * before, log)
        return done, after

    def test_lora_ends_with_an_adapter_that_peft_reads(self):
        done, _ = self.tune("lora_hf.py", "--learning-rate", 0.005, "--merged", self.root / "merged")
        self.assertIn("replicas equal, frozen parameters and tokenizer too", done.output)
        base = transformers.AutoModelForCausalLM.from_pretrained(self.base)
        adapted = peft.PeftModel.from_pretrained(base, self.root / "out")
        merged = transformers.AutoModelForCausalLM.from_pretrained(self.root / "merged")
        tokens = torch.arange(64)[None] + 30
        with torch.no_grad():
            self.assertTrue(torch.allclose(adapted(tokens).logits, merged(tokens).logits, atol=1e-4))
            with adapted.disable_adapter():
                self.assertFalse(torch.allclose(adapted(tokens).logits, merged(tokens).logits, atol=1e-2))

    def test_the_base_may_be_in_4_bit(self):
        try:
            import bitsandbytes  # noqa: F401
        except ImportError as error:
            self.skipTest(f"no bitsandbytes: {error}")
        done, _ = self.tune("lora_hf.py", "--learning-rate", 0.005, "--four-bit")
        self.assertIn("replicas equal, frozen parameters and tokenizer too", done.output)

    def test_all_weights_are_tuned(self):
        _, after = self.tune("full_hf.py", "--learning-rate", 0.003, "--checkpointing")
        self.assertLess(after, 4.5)
        transformers.AutoModelForCausalLM.from_pretrained(self.root / "out")

    def test_the_bench_compares_a_method_with_a_process_alone(self):
        done = subprocess.run([sys.executable, ROOT / "tests/bench/lora.py", BIN.parent, "--model", self.base, "--rows", self.rows,
                               *"--steps 20 --inner-steps 10 --context 64 --rank 4 --rate 0.005 --only adamw".split()],
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        alone, synced = ([cell.strip() for cell in line.strip("|").split("|")] for line in done.stdout.splitlines()[2:])
        self.assertEqual((alone[:2], synced[:2]), (["alone", "1"], ["longwave_adamw", "1"]))
        above, up, down, times = (float(cell.removesuffix(" %")) for cell in synced[3:7])
        self.assertAlmostEqual(above, 100 * (float(synced[2]) / float(alone[2]) - 1), delta=0.02)
        self.assertAlmostEqual(up, 0.032, delta=0.004)  # the preset's, and a last tile that is padded
        self.assertAlmostEqual(times, 1.001 / (up + down), delta=0.1)

    def test_a_row_that_is_none_is_named(self):
        for row, error in (({"txt": "x"}, 'got the keys \'txt\', wanted "messages", "text", or "prompt" and "completion"'),
                           ({"text": 5}, "got the keys 'text'"), ("no json", "Expecting value")):
            bad = self.root / "bad.jsonl"
            bad.write_text(json.dumps({"text": "a"}) + "\n" + (row if isinstance(row, str) else json.dumps(row)) + "\n")
            with self.subTest(row), self.assertRaises(AssertionError) as failure:
                self.alone(self.example("lora_hf.py", "--model", self.base, "--data", bad))
            self.assertIn(f"error: {bad}:2: {error}", str(failure.exception))


class Alike(SyncCase):
    """Two workers of one run; the second has something else than the first."""

    def setUp(self):
        super().setUp()
        self.base = save_tiny_llama(self.root / "base")

    def model(self, folder=None, **lora):
        base = transformers.AutoModelForCausalLM.from_pretrained(folder or self.base)
        return peft.get_peft_model(base, peft.LoraConfig(**{**LORA, **lora}))

    def train(self, address, model, name, tokenizer=None):
        text = transformers.AutoTokenizer.from_pretrained(tokenizer or self.base).backend_tokenizer.to_str()
        optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
        sync = longwave.Sync(model, optimizer, address, name=name, alike={"tokenizer": text})
        tokens = torch.randint(256, (2, 16), generator=torch.Generator().manual_seed(sync.worker))
        while not sync.done:
            model(input_ids=tokens, labels=tokens).loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        sync.finish()

    def assert_refused(self, pattern, model, tokenizer=None):
        """Within 10 s; with the right model the same worker then takes part."""
        address = self.cluster(workers=2, run__start="member")

        def second():
            self.await_coordinator("worker 0 (first) registered")
            began = time.monotonic()
            with self.assertRaisesRegex(longwave.LongwaveError, pattern):
                self.train(address, model, "second", tokenizer)
            self.assertLess(time.monotonic() - began, 10)
            self.train(address, self.model(), "second")

        self.in_parallel(lambda: self.train(address, self.model(), "first"), second)

    def test_another_base_is_refused(self):
        other = save_tiny_llama(self.root / "other", seed=2)
        self.assert_refused(r"worker second: frozen parameters: got 94,\d+ of float32 in \d+ tensors \(hash \w+\), wanted "
                            r"what first has, 94,\d+ of float32", self.model(other))

    def test_a_base_of_another_type_is_refused(self):
        model = self.model()
        for parameter in model.parameters():
            parameter.data = parameter.data.bfloat16() if not parameter.requires_grad else parameter.data
        self.assert_refused(r"frozen parameters: got 94,\d+ of bfloat16 .*, wanted what first has, 94,\d+ of float32", model)

    def test_another_tokenizer_is_refused(self):
        other = self.root / "tokenizer"
        save_tokenizer(other, first=7)
        self.assert_refused(r"worker second: tokenizer: got [\d,]+ bytes \(hash \w+\), wanted what first has", self.model(),
                            other)

    def test_another_vocabulary_rank_or_target_is_refused(self):
        larger = save_tiny_llama(self.root / "larger", vocabulary=384)
        self.assert_refused("frozen parameters: got ", self.model(larger))
        self.assert_refused(r"model of worker second differs: .*lora_A.*\[8, 64\].*\[4, 64\]", self.model(r=8))
        self.assert_refused(r"model of worker second differs: .*", self.model(target_modules=["q_proj", "k_proj"]))

    def test_adapters_that_come_after_sync_are_refused(self):
        model = transformers.AutoModelForCausalLM.from_pretrained(self.base)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        sync = longwave.Sync(model, optimizer, self.cluster(), name="one")
        peft.get_peft_model(model, peft.LoraConfig(**LORA))
        with self.assertRaisesRegex(ValueError, "what the run trains has been frozen, and 8 other parameters are trained: "
                                                ".*lora_A.*Wanted adapters before Sync: get_peft_model, then the optimizer"):
            while not sync.done:
                pass
        sync.finish()

    def test_what_is_no_text_is_refused(self):
        model = self.model()
        optimizer = torch.optim.AdamW(model.parameters())
        with self.assertRaisesRegex(TypeError, r"alike\['tokenizer'\]: got a int, wanted a str or bytes"):
            longwave.Sync(model, optimizer, "127.0.0.1:1", alike={"tokenizer": 5})
        with self.assertRaisesRegex(ValueError, "alike: got 'frozen parameters', wanted at most 15 names other than"):
            longwave.Sync(model, optimizer, "127.0.0.1:1", alike={"frozen parameters": ""})

    def test_trls_trainer_trains_an_adapter(self):
        try:
            import datasets
            import trl
        except ImportError as error:
            self.skipTest(f"no trl: {error}")
        from longwave.hf import LongwaveCallback

        rows = datasets.Dataset.from_json(str(save_chats(self.root / "rows.jsonl")))
        options = trl.SFTConfig(output_dir=str(self.root / "out"), max_steps=1000, per_device_train_batch_size=2, max_length=64,
                                report_to=[], save_strategy="no", use_cpu=True, disable_tqdm=True, bf16=False,
                                learning_rate=0.01, logging_steps=5)
        callback = LongwaveCallback(self.cluster(), name="one")
        trainer = trl.SFTTrainer(str(self.base), args=options, train_dataset=rows, peft_config=peft.LoraConfig(**LORA),
                                 callbacks=[callback])
        with callback:
            trainer.train()
        self.assertEqual((trainer.state.global_step, callback.sync.step_number), (40, 40))
        losses = [entry["loss"] for entry in trainer.state.log_history if "loss" in entry]
        self.assertLess(losses[-1], losses[0])

    def test_accelerates_loop_trains_an_adapter(self):
        try:
            import accelerate
        except ImportError as error:
            self.skipTest(f"no accelerate: {error}")
        import longwave.accelerate

        accelerator = accelerate.Accelerator(cpu=True, gradient_accumulation_steps=2)
        model = self.model()
        model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=0.01))
        sync = longwave.accelerate.join(accelerator, model, optimizer, self.cluster(), name="one")
        tokens, passes, losses = torch.arange(64).view(2, 32), 0, []
        while not sync.done:
            with accelerator.accumulate(model):
                loss = model(input_ids=tokens, labels=tokens).loss
                accelerator.backward(loss)
                optimizer.step()
                optimizer.zero_grad()
            losses.append(loss.item())
            passes += 1
        sync.finish()
        self.assertEqual((passes, sync.step_number), (80, 40))
        self.assertLess(losses[-1], losses[0])


if __name__ == "__main__":
    unittest.main()
