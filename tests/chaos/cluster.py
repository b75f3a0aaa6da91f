"""Processes of a run that are killed, frozen and started again at will, and the folder that they leave."""

import ctypes
import json
import os
import pathlib
import select
import signal
import subprocess
import sys
import time

from proxy import owner_of

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
import held_ports  # noqa: E402

PR_SET_PDEATHSIG = 1
LIBC = ctypes.CDLL(None, use_errno=True)
READY_S = 60
STOP_S = 30
CONTROL = "control"  # the other end of a link to the coordinator


class Failure(Exception):
    """Ends the test with one sentence."""


def now():
    """Seconds of the clock that the workers' journals have too."""
    return time.clock_gettime(time.CLOCK_MONOTONIC)


class Process:
    """A process of the run through all its lives. States: up, down, frozen, ended (by itself)."""

    def __init__(self, name, command, log):
        self.name, self.command, self.log = name, [str(part) for part in command], log
        self.popen, self.state, self.due = None, "down", None
        self.lives, self.status, self.up_since = 0, None, None

    def start(self):
        environment = dict(os.environ, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1")
        with open(self.log, "ab") as log:
            self.popen = subprocess.Popen(
                self.command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=log,
                env=environment, start_new_session=True,
                # No process outlives the test, however it ends.
                preexec_fn=lambda: LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL))
        self.state, self.due, self.up_since = "up", None, now()
        self.lives += 1

    def await_ready(self):
        """The rest of the line "ready …" on standard output."""
        end, text = now() + READY_S, b""
        while b"\n" not in text:
            readable, _, _ = select.select([self.popen.stdout], [], [], max(0, end - now()))
            part = os.read(self.popen.stdout.fileno(), 4096) if readable else b""
            if not part:
                raise Failure(f"{self.name} did not become ready: {self.last_words()}")
            text += part
        return text.decode().split("ready ", 1)[1].split()[0]

    def set(self, option, value):
        """From its next start on."""
        self.command[self.command.index(option) + 1] = str(value)

    def get(self, option):
        return self.command[self.command.index(option) + 1]

    def signal(self, number):
        os.killpg(self.popen.pid, number)

    def kill(self):
        self.signal(signal.SIGKILL)
        self.popen.wait()
        self.popen.stdout.close()
        self.state = "down"

    def freeze(self):
        self.signal(signal.SIGSTOP)
        self.state = "frozen"

    def thaw(self):
        self.signal(signal.SIGCONT)
        self.state, self.due, self.up_since = "up", None, now()

    def look(self):
        """Notes an end that nobody asked for."""
        if self.state not in ("down", "ended") and self.popen.poll() is not None:
            self.popen.stdout.close()
            self.state, self.status = "ended", self.popen.returncode
        return self.state

    def stop(self, seconds):
        """SIGTERM, and SIGKILL to what is still there after a while."""
        if self.state == "frozen":
            self.thaw()
        if self.look() != "up":
            return
        self.signal(signal.SIGTERM)
        try:
            self.popen.wait(seconds)
        except subprocess.TimeoutExpired:
            self.signal(signal.SIGKILL)
            self.popen.wait()
        self.popen.stdout.close()
        self.state, self.status = "ended", self.popen.returncode

    def last_words(self):
        lines = pathlib.Path(self.log).read_text(errors="replace").splitlines()
        errors = [line for line in lines if line.startswith("error: ")]
        return (errors or lines or ["nothing"])[-1]


class Cluster:
    """Coordinator, shards and workers over one run folder. proxies: on every link, where they are given.
    secured: each process has a certificate, of the authority that the coordinator makes."""

    def __init__(self, folder, binaries, worker_command, workers, shards, proxies=None, secured=False):
        self.folder, self.binaries = folder, binaries
        self.proxies, self.secured = proxies, secured
        for part in ("logs", "state", "archive", "journal", "final"):
            (folder / part).mkdir(parents=True)
        # Held, so that nobody else gets the port of a server that was killed before it is back.
        self.held = [held_ports.hold() for _ in range(1 + shards)]
        places = [f"127.0.0.1:{holder.getsockname()[1]}" for holder in self.held]
        self.coordinator = self._server("coordinator", "--run-dir", folder, "--listen", places[0])
        self.shards = [self._server("shard", "--shard", i, "--listen", f"tcp://{places[1 + i]}",
                                    number=i) for i in range(shards)]
        self.workers = [Process(f"worker-{i}", worker_command(f"worker-{i}"),
                                folder / "logs" / f"worker-{i}.log") for i in range(workers)]
        self.linked = {shard.name: set() for shard in self.shards}

    def _server(self, role, *arguments, number=None):
        name = role if number is None else f"{role}-{number}"
        return Process(name, [self.binaries / "longwave-server", f"--role={role}", "--config",
                              self.folder / "config.yaml", "--state-dir",
                              self.folder / "state" / name, *arguments],
                       self.folder / "logs" / f"{name}.log")

    def all(self):
        return [self.coordinator, *self.shards, *self.workers]

    def start(self):
        self.coordinator.start()
        address = self.coordinator.await_ready()
        self.coordinator.set("--listen", address)
        for process in self.shards + self.workers:
            if self.secured:
                self._certify(process)
            process.command += ["--coordinator", self._through_proxy(process, address)]
        data_ports = {}
        if self.proxies is not None:
            for shard in self.shards:
                set_target, announced = self.proxies.listen(
                    lambda port, shard=shard: f"{owner_of(port, self._worker_pids())} {shard.name}")
                data_ports[shard.name] = set_target
                shard.command += ["--advertise", announced]
        for shard in self.shards:
            shard.start()
        for shard in self.shards:
            shard.set("--listen", shard.await_ready())
            if self.proxies is not None:
                data_ports[shard.name](shard.get("--listen").removeprefix("tcp://"))
        for worker in self.workers:
            worker.start()

    def _through_proxy(self, process, address):
        """Where the process finds the coordinator."""
        if self.proxies is None:
            return address
        set_target, proxy = self.proxies.listen(lambda _: f"{process.name} {CONTROL}")
        set_target(address)
        return proxy

    def _worker_pids(self):
        return {worker.name: worker.popen.pid for worker in self.workers if worker.popen is not None}

    def _certify(self, process):
        role, _, place = process.name.partition("-")
        subprocess.run([str(self.binaries / "longwave"), "certificate", "make", "--authority",
                        str(self.folder / "state" / "coordinator" / "security"), "--folder",
                        str(self.folder / "state" / process.name / "security"), "--role",
                        f"shard/{place}" if role == "shard" else f"worker/{process.name}"],
                       check=True, stdout=subprocess.DEVNULL)

    def archive(self):
        """Keeps every log file that a shard has, also after the shard has dropped it: a second name for
        the same file. What is written to it later is seen under both names."""
        for shard in self.shards:
            log = self.folder / "state" / shard.name / "log"
            kept = self.folder / "archive" / shard.name
            kept.mkdir(exist_ok=True)
            try:
                names = {name for name in os.listdir(log) if name.endswith(".lwlog")}
            except FileNotFoundError:
                continue
            for name in names - self.linked[shard.name]:
                try:
                    os.link(log / name, kept / name)
                except FileNotFoundError:
                    continue
                self.linked[shard.name].add(name)

    def rounds(self):
        """The coordinator's records, by round."""
        records = {}
        try:
            lines = (self.folder / "metrics.jsonl").read_text().splitlines()
        except FileNotFoundError:
            return records
        for line in lines:
            try:
                record = json.loads(line)
            except ValueError:
                continue  # torn by a kill
            records[record["round"]] = record
        return records

    def stop(self):
        for process in self.workers + self.shards:
            process.stop(STOP_S)
        self.coordinator.stop(STOP_S)
        for holder in self.held:
            holder.close()
