"""Trains a small model with a real Prometheus beside it, and draws every dashboard as it looks then.

    tools/dashboards.sh draw [--seconds N] [--bin build/bin] [--out docs/pictures]

A worker is killed on the way, so that there is something to see; `longwave up` starts it again.
"""

import argparse
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from PIL import Image

sys.path.append(str(pathlib.Path(__file__).parents[2] / "tests/dashboards"))
import drawing  # noqa: E402
import metrics  # noqa: E402

SETTINGS = {
    "run.workers": 4, "run.shards": 2, "run.steps": 1_000_000, "run.validation_batches": 2, "run.validate_every": 2,
    "model.d_model": 48, "model.layers": 2, "model.heads": 4, "model.context": 32,
    "train.batch": 2, "train.threads": 1, "train.device": "cpu", "train.warmup_steps": 30,
    "sync.inner_steps": 15, "cluster.snapshot_rounds": 60, "cluster.state_rounds": 10,
    "cluster.start_timeout_s": 600, "metrics.listen": "127.0.0.1:0",
}
RUN = "picture"
INTERVAL_S = 2
BYTES_MAX = 200_000


def shrink(path):
    """A few colours suffice for these pictures, and quarter the file."""
    with Image.open(path) as picture:
        picture.convert("RGB").quantize(64, dither=Image.Dither.NONE).save(path, optimize=True)
    if path.stat().st_size > BYTES_MAX:
        sys.exit(f"draw: {path} has {path.stat().st_size} bytes, wanted at most {BYTES_MAX}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=240, help="how long to train [240]")
    parser.add_argument("--bin", type=pathlib.Path, default=metrics.ROOT / "build/bin")
    parser.add_argument("--out", type=pathlib.Path, default=metrics.ROOT / "docs/pictures")
    arguments = parser.parse_args()
    if reason := metrics.missing_program():
        sys.exit(f"draw: {reason}")
    root = pathlib.Path(tempfile.mkdtemp(prefix="longwave-draw-"))
    settings = [text for key, value in SETTINGS.items() for text in ("--set", f"{key}={value}")]
    run = subprocess.Popen([arguments.bin / "longwave", "up", metrics.ROOT / "configs/presets/longwave.yaml",
                            *settings, "--name", RUN, "--runs-dir", root / "runs", "--plain"],
                           stdout=subprocess.DEVNULL)
    folder = root / "runs" / RUN
    try:
        with metrics.Prometheus(root / "prometheus", folder / "prometheus-targets.json",
                                INTERVAL_S, metrics.RULES) as prometheus:
            metrics.wait_for(lambda: prometheus.now(f'longwave_coordinator_round{{run="{RUN}"}} > 0'),
                             "the first round", 900)
            began = time.time()
            metrics.wait_for(lambda: time.time() > began + 0.6 * arguments.seconds, "", 3600)
            if not metrics.kill_worker(folder, "worker-3"):
                sys.exit("draw: found no worker to kill")
            metrics.wait_for(lambda: time.time() > began + arguments.seconds, "", 3600)
            arguments.out.mkdir(exist_ok=True)
            for name, board in metrics.boards().items():
                path = arguments.out / f"{name}.png"
                drawing.Drawing(prometheus, board, RUN, began, time.time(), INTERVAL_S,
                                5 * INTERVAL_S).save(path)
                shrink(path)
                print(f"draw: {path}")
    finally:
        run.send_signal(signal.SIGINT)
        run.wait()
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
