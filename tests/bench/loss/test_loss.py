"""`bench_loss` trains what `longwave up` trains, and counts what that sends."""

import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "integration"))
from harness import IntegrationTest  # noqa: E402

FIGURES = re.compile(r"^loss (\S+)  up (\S+)  down (\S+)  (\S+) seed 0 workers 2 steps 24:(.*)$", re.M)


class Loss(IntegrationTest):
    def bench(self, *arguments):
        status, output, errors = self.start("bench_loss", *arguments).finish()
        self.assertEqual(status, 0, errors)
        found = FIGURES.search(output)
        self.assertIsNotNone(found, output)
        return found.groups()

    def test_loss_and_bytes_are_those_of_a_run(self):
        for preset in ("longwave", "ddp"):
            with self.subTest(preset):
                settings = {"run__preset": preset, "run__shards": 1, "run__seed": 0}
                done = self.up(name=preset, **settings)
                self.assertEqual(done.status, 0, done.output + done.errors)
                loss, up, down, name, differences = self.bench(self.root / "run.yaml")
                self.assertEqual((name, "model.d_model=32" in differences), (preset, True))
                summary = done.summary
                shares = summary["params"] * summary["rounds"] * summary["workers"]
                self.assertEqual(loss, f"{summary['val_loss']:.4f}")
                self.assertEqual(up, f"{summary['payload_bytes_pushed'] / shares:.4f}")
                self.assertEqual(down, f"{summary['payload_bytes_pulled'] / shares:.4f}")
