"""python -m longwave.tensorboard: a run's records as events."""

import contextlib
import io
import json
import os
import pathlib
import sys
import tempfile
import types
import unittest
from unittest import mock

import pytest

from longwave import tensorboard

RECORDS = [{"round": 0, "step": 30, "train_loss": 3.5, "validation_loss": 3.25, "seconds": 2.0, "state_hash": "00ff",
            "replicas_equal": True},
           {"round": 1, "step": 60, "train_loss": 2.5, "validation_loss": None, "seconds": 4.0, "state_hash": "1",
            "replicas_equal": False}]


class Writer:
    """Stands for torch's, which needs PyPI's tensorboard."""

    written = []

    def __init__(self, folder):
        self.folder = folder

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        pass

    def add_scalar(self, name, value, step, walltime):
        self.written.append((self.folder, name, value, step, walltime))


class TensorBoard(unittest.TestCase):
    def setUp(self):
        temporary = tempfile.TemporaryDirectory()
        self.addCleanup(temporary.cleanup)
        self.run_folder = pathlib.Path(temporary.name)
        lines = [json.dumps(record) for record in RECORDS]
        metrics = self.run_folder / "metrics.jsonl"
        metrics.write_text("\n".join([*lines, lines[0][:20]]), encoding="utf-8")  # the last one torn
        os.utime(metrics, (1_000_000, 1_000_000))
        Writer.written = []

    def write(self, *arguments):
        stand_in = types.ModuleType("torch.utils.tensorboard")
        stand_in.SummaryWriter = Writer
        errors = io.StringIO()
        with mock.patch.dict(sys.modules, {"torch.utils.tensorboard": stand_in}), contextlib.redirect_stdout(io.StringIO()), \
                contextlib.redirect_stderr(errors):
            try:
                return tensorboard.main([str(self.run_folder), *map(str, arguments)]), ""
            except SystemExit as end:
                return end.code, errors.getvalue()

    def test_numbers_are_drawn_over_the_steps_at_the_times_of_the_rounds(self):
        self.assertEqual(self.write(), (0, ""))
        out = str(self.run_folder / "tensorboard")
        self.assertIn((out, "train_loss", 3.5, 30, 999_998.0), Writer.written)
        self.assertIn((out, "train_loss", 2.5, 60, 1_000_000.0), Writer.written)
        self.assertIn((out, "replicas_equal", 0.0, 60, 1_000_000.0), Writer.written)
        names = [(name, step) for _, name, _, step, _ in Writer.written]
        self.assertNotIn(("validation_loss", 60), names)
        self.assertFalse({"step", "state_hash"} & {name for name, _ in names})

    def test_a_folder_with_events_or_without_rounds_is_refused(self):
        (self.run_folder / "tensorboard").mkdir()
        (self.run_folder / "tensorboard/events").touch()
        status, said = self.write()
        self.assertEqual(status, 2)
        self.assertIn("has something in it; wanted --out of an empty folder", said)
        (self.run_folder / "metrics.jsonl").write_text("torn", encoding="utf-8")
        self.assertIn("got no rounds in ", self.write("--out", self.run_folder / "new")[1])
        (self.run_folder / "metrics.jsonl").unlink()
        self.assertIn("cannot read ", self.write("--out", self.run_folder / "new")[1])

    def test_torchs_writer_takes_them(self):
        pytest.importorskip("tensorboard", reason="tensorboard is not installed")
        self.assertEqual(tensorboard.main([str(self.run_folder)]), 0)
        self.assertTrue(list((self.run_folder / "tensorboard").glob("events.out.tfevents.*")))


if __name__ == "__main__":
    unittest.main()
