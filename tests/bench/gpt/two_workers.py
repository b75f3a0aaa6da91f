#!/usr/bin/env python3
"""The memory of a run of GPT-2's size with two workers on this machine's CPU.

    two_workers.py BIN --data TEXT [--set key=value]...

Starts a coordinator, a shard and two workers of BIN (a folder of built programs) and waits for their ends. Prints the
largest resident size of each process (its VmHWM, which the kernel tells whoever waits for it) and the rounds' records.
Fails unless all processes end with 0 after equal replicas.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from runs import words  # noqa: E402

WORKERS = 2
GIB = 2**30
SETTINGS = {"run.steps": 2, "run.workers": WORKERS, "run.shards": 1, "run.validation_batches": 1,
            "model.size": "gpt2-124m", "train.batch": 2, "train.micro_batches": 2,
            "train.activation_checkpoints": "true", "train.warmup_steps": 1, "train.threads": 1, "train.device": "cpu",
            "sync.inner_steps": 1, "cluster.start_timeout_s": 1800, "cluster.heartbeat_timeout_s": 120,
            "cluster.grace_max_s": 1800, "sync.quorum": 1}


class Process:
    def __init__(self, folder, name, *command):
        self.name, self.log, self.resident = name, folder / f"{name}.log", None
        with self.log.open("wb") as log:
            self.popen = subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL,
                                          stdout=subprocess.PIPE, stderr=log, text=True)

    def ready(self):
        """The address where it listens, once it does."""
        for line in self.popen.stdout:
            if line.startswith("ready "):
                return line.split()[1]
        raise SystemExit(f"error: {self.name} is not ready:\n{self.log.read_text()}")

    def ended(self, status, usage):
        self.popen.returncode = os.waitstatus_to_exitcode(status)
        self.resident = usage.ru_maxrss * 1024
        if self.popen.returncode != 0:
            raise SystemExit(f"error: {self.name} ended with {self.popen.returncode}:\n{self.log.read_text()[-3000:]}")

    def kill(self):
        if self.popen.returncode is None:
            self.popen.kill()
            self.popen.wait()


def run(args, folder, processes):
    config = folder / "run.yaml"
    settings = dict(SETTINGS, **{"data.path": args.data})
    settings.update(setting.split("=", 1) for setting in args.set)
    overrides = words(settings)
    config.write_text("{}\n")

    def start(name, program, *arguments):
        processes.append(Process(folder, name, args.bin / program, "--config", config, *overrides, *arguments))
        return processes[-1]

    address = start("coordinator", "longwave-server", "--role=coordinator", "--run-dir", folder,
                    "--listen", "127.0.0.1:0", "--exit-when-done").ready()
    start("shard", "longwave-server", "--role=shard", "--shard", 0, "--coordinator", address,
          "--listen", "tcp://127.0.0.1:0").ready()
    for worker in range(WORKERS):
        start(f"worker-{worker}", "longwave-worker", "--name", f"worker-{worker}", "--coordinator", address,
              "--run-dir", folder)
    # In the order of their ends, so that a failure is told at once.
    by_pid = {process.popen.pid: process for process in processes}
    for _ in processes:
        pid, status, usage = os.wait4(-1, 0)
        by_pid[pid].ended(status, usage)
    for process in processes:
        print(f"{process.name}: at most {process.resident / GIB:.2f} GiB resident")
    print(f"all: at most {sum(process.resident for process in processes) / GIB:.2f} GiB")
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    for record in records:
        print(json.dumps(record))
    if not records or not all(record["replicas_equal"] for record in records):
        raise SystemExit("error: not all rounds end with equal replicas")
    print("all processes finished, replicas equal")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--data", required=True)
    parser.add_argument("--set", action="append", default=[])
    args = parser.parse_args()
    processes = []
    with tempfile.TemporaryDirectory() as folder:
        try:
            run(args, pathlib.Path(folder), processes)
        finally:
            for process in processes:
                process.kill()


if __name__ == "__main__":
    main()
