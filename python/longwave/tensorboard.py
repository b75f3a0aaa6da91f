"""Writes the records of a run's rounds as events for TensorBoard.

    python -m longwave.tensorboard RUN [--out FOLDER]

RUN is the run's folder, whose metrics.jsonl has a line for each round; the events go to FOLDER, RUN/tensorboard by default.
Needs PyPI's tensorboard.
"""

import argparse
import json
import pathlib
import sys


def main(arguments: "list[str] | None" = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m longwave.tensorboard", description="Writes the records of a run's rounds as events for TensorBoard.")
    parser.add_argument("run", type=pathlib.Path, help="the run's folder")
    parser.add_argument("--out", type=pathlib.Path, help="folder for the events [RUN/tensorboard]")
    options = parser.parse_args(arguments)
    out = options.out or options.run / "tensorboard"
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        parser.error("got no package tensorboard, wanted it: pip install tensorboard")
    # Two files of the same rounds would be drawn over each other.
    if out.exists() and any(out.iterdir()):
        parser.error(f"{out} has something in it; wanted --out of an empty folder")
    path = options.run / "metrics.jsonl"
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        parser.error(f"cannot read {path}: {error.strerror}; wanted the folder of a run that has finished a round")
    begin_s = path.stat().st_mtime
    records = []
    for line in lines:
        try:
            record = json.loads(line)
        except ValueError:
            continue  # the last one, torn
        if isinstance(record, dict) and isinstance(record.get("step"), int):
            records.append(record)
    if not records:
        parser.error(f"got no rounds in {path}, wanted a run that has finished one")
    # The records have no dates; the last one was written when the file was.
    begin_s -= records[-1].get("seconds") or 0
    with SummaryWriter(str(out)) as writer:
        for record in records:
            for name, value in record.items():
                if name != "step" and isinstance(value, (int, float)):
                    writer.add_scalar(name, float(value), record["step"], walltime=begin_s + (record.get("seconds") or 0))
    print(f"{len(records)} rounds in {out}: tensorboard --logdir '{out}'")
    return 0


if __name__ == "__main__":
    sys.exit(main())
