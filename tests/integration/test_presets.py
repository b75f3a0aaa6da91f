"""Every preset from its start to its end, and what it leaves behind held against the formulae."""

import json
import math
import pathlib
import unittest

import formulae
from harness import TINY, IntegrationTest, plan_of, resolved_preset

ROOT = pathlib.Path(__file__).parents[2]
INNER_STEPS = 6
# Each round waits for both workers, however late: the figures below are those of all pushes.
PATIENT = {"cluster__grace_min_s": 100, "cluster__heartbeat_timeout_s": 100}
STEPS, WORKERS = TINY["run.steps"], TINY["run.workers"]
FIELDS = {"preset", "workers", "shards", "params", "steps", "rounds", "tokens", "val_loss",
          "wall_seconds", "bytes_pushed", "bytes_pulled", "payload_bytes_pushed",
          "payload_bytes_pulled", "bytes_ddp_fp32", "bytes_diloco_fp32", "replicas_equal",
          "state_hash", "outcome", "failure"}


class Presets(IntegrationTest):
    def check(self, preset):
        wanted = resolved_preset(preset)
        inner_steps = 1 if wanted["sync.signal"] == "gradient" else INNER_STEPS
        done = self.up(run__preset=preset, sync__inner_steps=inner_steps, **PATIENT)
        self.assertEqual(done.status, 0, done.output + done.errors)
        self.assertTrue(done.output.strip().splitlines()[-1].startswith(
            f"longwave up: finished: {STEPS} steps, {STEPS // inner_steps} rounds, validation loss"),
            done.output)

        summary = done.summary
        self.assertLessEqual(FIELDS, set(summary))
        self.check_weights(done, summary)
        if wanted["sync.update"] not in ("inner", "local"):  # the model depends on the merged updates alone
            self.check_replay(done)
        config = formulae.read_config((done.folder / "config.yaml").read_text(encoding="utf-8"))
        rounds = STEPS // inner_steps
        self.assertEqual((summary["outcome"], summary["failure"]), ("finished", ""))
        self.assertEqual(summary["preset"], preset)
        self.assertEqual((summary["workers"], summary["shards"]), (WORKERS, TINY["run.shards"]))
        self.assertEqual((summary["steps"], summary["rounds"]), (STEPS, rounds))
        self.assertEqual(summary["tokens"],
                         STEPS * WORKERS * TINY["train.batch"] * TINY["model.context"])
        self.assertEqual(summary["bytes_ddp_fp32"], STEPS * 4 * summary["params"] * WORKERS)
        self.assertEqual(summary["bytes_diloco_fp32"], rounds * 4 * summary["params"] * WORKERS)
        self.assertTrue(0 < summary["val_loss"] < 2 * math.log(256), summary["val_loss"])
        self.assertEqual(summary["replicas_equal"], wanted["sync.update"] != "local")
        self.assertRegex(summary["state_hash"], "^[0-9a-f]{16}$")
        self.check_bytes(summary, config, rounds)
        self.check_metrics(done, rounds, summary)
        self.check_plan(done, summary)

    def check_plan(self, done, summary):
        """`longwave plan` says the bytes at the sockets beforehand."""
        plan = plan_of(done.folder / "config.yaml", "--methods", summary["preset"])
        self.assertEqual(plan["method"], summary["preset"])
        self.assertEqual((plan["parameters"], plan["rounds"]), (summary["params"], summary["rounds"]))
        self.assertEqual(plan["snapshot_bytes_run"], 0)
        planned = plan["bytes_run"]
        # A connection that breaks has a second hello.
        self.assertAlmostEqual(summary["bytes_pushed"], planned["up"], delta=0.01 * planned["up"])
        if plan["bytes_down_are_a_bound"]:
            self.assertLess(summary["bytes_pulled"], 1.01 * planned["down"])
            self.assertGreater(summary["bytes_pulled"], planned["down"] / 2)
        else:
            self.assertAlmostEqual(summary["bytes_pulled"], planned["down"], delta=0.01 * planned["down"])

    def check_replay(self, done):
        """The shards' folders give exactly the weights that the worker wrote."""
        again = self.root / "again.safetensors"
        output, _ = self.ends(self.start("longwave", "replay", done.folder, "--weights", again))
        self.assertIn("as the run's summary has it", output)
        self.assertEqual(again.read_bytes(), (done.folder / "model.safetensors").read_bytes())

    def check_weights(self, done, summary):
        tensors = formulae.read_safetensors(done.folder / "model.safetensors")
        self.shapes = [shape for _, shape, _ in tensors.values()]
        self.assertEqual({dtype for dtype, _, _ in tensors.values()}, {"F32"})
        self.assertEqual(sum(math.prod(shape) for shape in self.shapes), summary["params"])

    def check_bytes(self, summary, config, rounds):
        up = formulae.round_payload_bytes(config, self.shapes, "up")
        self.assertEqual(summary["payload_bytes_pushed"], rounds * WORKERS * up)
        if (config["sync.up.selection"], config["sync.up.codec"]) == ("all", "fp32"):
            # DiLoCo's stated bytes, plus the padding of the tiles.
            self.assertGreaterEqual(summary["payload_bytes_pushed"], summary["bytes_diloco_fp32"])
        if config["sync.down.selection"] == "topk" or config["sync.up.selection"] == "all":
            down = formulae.round_payload_bytes(config, self.shapes, "down")
            self.assertEqual(summary["payload_bytes_pulled"], rounds * WORKERS * down)
        else:
            # The size of the union of the workers' choices is between one worker's choice and everything.
            config["sync.up.codec"] = config["sync.down.codec"]
            least = formulae.round_payload_bytes(config, self.shapes, "up")
            most = formulae.round_payload_bytes(config, self.shapes, "down")
            self.assertLessEqual(rounds * WORKERS * least, summary["payload_bytes_pulled"])
            self.assertLessEqual(summary["payload_bytes_pulled"], rounds * WORKERS * most)
        # The socket's bytes include a header of 64 bytes and framing for each payload, and the answers.
        for way in ("pushed", "pulled"):
            self.assertGreater(summary[f"bytes_{way}"], summary[f"payload_bytes_{way}"])

    def check_metrics(self, done, rounds, summary):
        lines = (done.folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
        self.assertEqual(len(lines), rounds)
        records = [json.loads(line) for line in lines]
        self.assertEqual([record["round"] for record in records], list(range(rounds)))
        self.assertEqual(records[-1]["step"], STEPS)

    def test_one_seed_gives_one_state(self):
        first = self.up(name="a", run__preset="longwave", sync__inner_steps=8, **PATIENT)
        second = self.up(name="b", run__preset="longwave", sync__inner_steps=8, **PATIENT)
        self.assertEqual(first.summary["state_hash"], second.summary["state_hash"])
        self.assertEqual(first.summary["val_loss"], second.summary["val_loss"])

    def test_other_optimizers_train_and_keep_the_replicas_equal(self):
        for optimizer, rate in (("muon", 0.003), ("sgd", 0.1)):
            # Merged gradients work, too, since equal processors give equal products.
            for preset, inner_steps in (("longwave", 6), ("ddp", 1)):
                done = self.up(name=f"{optimizer}-{preset}", run__preset=preset, sync__inner_steps=inner_steps,
                               train__optimizer=optimizer, train__learning_rate=rate)
                self.assertEqual(done.status, 0, done.output + done.errors)
                self.assertTrue(done.summary["replicas_equal"])
                self.assertLess(done.summary["val_loss"], math.log(256), (optimizer, preset))

    def test_overlap_fragments_connections_and_limits(self):
        settings = {"run__preset": "longwave", "sync__inner_steps": 8, "sync__overlap": 3,
                    "sync__fragments": 2, "sync__segment_tiles": 1, **PATIENT}
        first = self.up(name="plain", **settings)
        self.assertEqual(first.status, 0, first.output + first.errors)
        second = self.up(name="limited", cluster__connections=2, cluster__max_upload_mbit=4,
                         cluster__max_download_mbit=4, **settings)
        self.assertEqual(second.status, 0, second.output + second.errors)
        for summary in (first.summary, second.summary):
            self.assertTrue(summary["replicas_equal"])
            self.assertEqual((summary["steps"], summary["rounds"]), (STEPS, STEPS // 8))
        # The transport of the bytes does not affect the results.
        for field in ("state_hash", "val_loss", "payload_bytes_pushed", "payload_bytes_pulled"):
            self.assertEqual(first.summary[field], second.summary[field], field)


def test_of(preset):
    return lambda self: self.check(preset)


for _file in (ROOT / "configs/presets").glob("*.yaml"):
    setattr(Presets, f"test_{_file.stem}", test_of(_file.stem))


if __name__ == "__main__":
    unittest.main()
