"""The common part of the tests of Python workers."""

import os
import pathlib
import re
import shlex
import subprocess
import sys

from harness import TINY, IntegrationTest

ROOT = pathlib.Path(__file__).parents[2]
EXAMPLES = ROOT / "python/examples"
TEXT = ROOT.parent / "shared/data/tinyshakespeare.txt"
IMAGES = ROOT.parent / "shared/data/mnist10k"


class WorkersTest(IntegrationTest):
    def setUp(self):
        super().setUp()
        if TEXT.exists():
            self.text = TEXT  # else the harness's own

    def example(self, name, *arguments):
        """The worker's command line."""
        return [sys.executable, str(EXAMPLES / name), *map(str, arguments)]

    def alone(self, command):
        environment = {key: value for key, value in os.environ.items() if not key.startswith("LONGWAVE_")}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def up_workers(self, command, **settings):
        """A run of `longwave up` whose workers are the command."""
        done = self.up("--worker-command", shlex.join(command),
                       **{"run__preset": "longwave", "sync__inner_steps": 10, **settings})
        logs = {path.stem: path.read_text(encoding="utf-8") for path in (done.folder / "logs").glob("worker-*.log")}
        self.assertEqual(done.status, 0, done.output + done.errors + "".join(logs.values()))
        self.assertTrue(done.summary["replicas_equal"], done.summary)
        return done, logs

    def losses(self, output):
        return [float(loss) for loss in re.findall(r"^step \d+ +loss ([\d.]+)$", output, re.MULTILINE)]

    def validation_windows(self):
        """Tokens of longwave-worker's validation and their successors: windows spread over the last tenth."""
        text = self.text.read_bytes()
        part = text[int(len(text) * 0.9):]
        length, windows = TINY["model.context"], TINY["run.validation_batches"] * TINY["train.batch"]
        starts = [window * (len(part) - length) // windows for window in range(windows)]
        return [list(part[start:start + length + 1]) for start in starts]

    def assert_replays(self, *arguments):
        """Nothing lost, nothing twice: returns what `longwave replay` says."""
        status, output, errors = self.start("longwave", "replay", *arguments).finish()
        self.assertEqual(status, 0, output + errors)
        self.assertNotIn("problem", output)
        return output
