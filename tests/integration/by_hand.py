"""A cluster put together by hand, whose processes are killed, frozen and started again."""

import json
import os
import signal
import time

from harness import DEADLINE_S
from secured import certify


class HandCluster:
    """Coordinator, shards and workers of `test` (an IntegrationTest), each with a state folder. A
    process that is started again gets the arguments and the port that it had before."""

    def __init__(self, test, workers=4, shards=2, started=None, **settings):
        """started: how many of the workers are started at once; None: all."""
        self.test, self.root = test, test.root
        self.config = test.write_config(run__workers=workers, run__shards=shards, **settings)
        self.secured = settings.get("security__mode") == "on"
        self.children, self.arguments = {}, {}
        self.address = None
        self.start("coordinator", "longwave-server", "--role=coordinator", "--run-dir", self.root,
                   "--listen", "127.0.0.1:0")
        self.address = self.await_ready("coordinator")
        for shard in range(shards):
            self.start(f"shard-{shard}", "longwave-server", "--role=shard", "--shard", shard,
                       "--coordinator", self.address, "--listen", "tcp://127.0.0.1:0")
        for shard in range(shards):
            self.await_ready(f"shard-{shard}")
        for worker in range(workers if started is None else started):
            self.start_worker(f"worker-{worker}")

    def start_worker(self, name):
        self.start(name, "longwave-worker", "--name", name, "--coordinator", self.address,
                   "--run-dir", self.root, "--threads", 1)

    def start(self, name, program, *arguments):
        if self.secured and "--coordinator" in arguments:
            certify(self.root / "state", name)
        self.arguments[name] = [*self.command(name, program), "--config", self.config, "--state-dir",
                                self.root / "state" / name, *arguments]
        self.children[name] = self.test.start(*self.arguments[name])

    def command(self, _name, program):
        return [program]

    def await_ready(self, name):
        """Waits until it listens; it will do so at the same place when it is started again."""
        place = self.children[name].await_line("ready ").split()[1]
        arguments = self.arguments[name]
        arguments[arguments.index("--listen") + 1] = place
        return place

    def pid(self, name):
        return self.children[name].process.pid

    def kill(self, name):
        """kill -9; returns what it had written to its log."""
        child = self.children[name]
        child.process.kill()
        child.close()
        return child.errors

    def start_again(self, name):
        self.children[name] = self.test.start(*self.arguments[name])
        if "--listen" in self.arguments[name]:
            self.await_ready(name)

    def freeze(self, name):
        os.kill(self.pid(name), signal.SIGSTOP)

    def thaw(self, name):
        os.kill(self.pid(name), signal.SIGCONT)

    def end(self):
        """Ends everything as a person would; returns the logs by process."""
        logs = {}
        for name in sorted(self.children, key=lambda name: name == "coordinator"):
            self.children[name].process.terminate()
        for name, child in self.children.items():
            logs[name] = child.finish()[2]
        return logs

    def replay(self):
        """Audits the logs that the run has left; returns what the audit says, which finds nothing wrong."""
        return self.test.ends(self.test.start("longwave", "replay", self.root, "--config", self.config))[0]

    def end_audited(self):
        """Ends everything after rounds that all had equal replicas; returns the logs by process."""
        self.assert_equal_replicas()
        logs = self.end()
        self.replay()
        return logs

    def rounds(self):
        """The finished rounds, as the coordinator writes them down."""
        try:
            text = (self.root / "metrics.jsonl").read_text(encoding="utf-8")
        except FileNotFoundError:
            return []
        return [json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")]

    def status(self):
        """The most of `longwave status --json`, with the columns of `workers` by name; empty without an answer."""
        secure = ["--security", self.root / "state/coordinator/security/operator"] if self.secured else []
        status, output, _ = self.test.start("longwave", "status", self.address, "--json", *secure).finish()
        self.test.children.pop()
        return self.read_status(output) if status == 0 else {"workers": {}}

    def answered_status(self):
        """The status, as soon as somebody answers: a coordinator that is busy may not."""
        return self.await_that(lambda status: "run" in status, self.status, "an answer")

    def read_status(self, output):
        known = json.loads(output)
        found = {"run": f"{known['phase']} {known['failure']}", "rounds": str(known["rounds"]),
                 "replicas": "equal" if known["replicas_equal"] else "not equal",
                 "workers": {worker["name"]: [str(worker[key]) for key in ("state", "step", "rounds")]
                             for worker in known["workers"]}}
        if known["trouble"]:
            found["trouble"] = " ".join(known["trouble"])
        return found

    def worker_round(self, status, name):
        """How many rounds the worker has done, or -1."""
        fields = status["workers"].get(name, [])
        return int(fields[2]) if len(fields) > 2 and fields[2].isdigit() else -1

    def await_that(self, wanted, ask, what):
        """Asks until what was answered is as wanted; returns it."""
        end = time.monotonic() + DEADLINE_S
        while True:
            answer = ask()
            if wanted(answer):
                return answer
            for name, child in self.children.items():
                if child.process.poll() is not None:
                    child.close()
                    raise AssertionError(f"{name} ended while waiting for {what}:\n{child.errors}")
            if time.monotonic() > end:
                raise AssertionError(f"waited in vain for {what}; last: {str(answer)[-2000:]}")

    def await_trouble(self, *parts):
        return self.await_that(lambda status: all(part in status.get("trouble", "") for part in parts), self.status,
                               f"trouble with {parts}")

    def go_on(self, count=5):
        """Waits for the trouble's end, and for so many more rounds."""
        self.await_that(lambda status: "run" in status and "trouble" not in status, self.status, "the trouble's end")
        self.await_rounds(len(self.rounds()) + count)

    def await_rounds(self, count):
        return self.await_that(
            lambda status: int(status.get("rounds", "0 of").split()[0]) >= count,
            self.status, f"{count} rounds")

    def await_members(self, count, rounds=5):
        """Waits for `rounds` more finished rounds of so many members."""
        begin = len(self.rounds())
        return self.await_that(
            lambda records: sum(record["members"] == count for record in records[begin:]) >= rounds,
            self.rounds_after_status, f"{rounds} rounds of {count} members")

    def rounds_after_status(self):
        self.status()  # takes a moment
        return self.rounds()

    def assert_equal_replicas(self, since=0):
        for record in self.rounds()[since:]:
            self.test.assertTrue(record["replicas_equal"], record)
