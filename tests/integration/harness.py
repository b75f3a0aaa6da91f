"""Real processes for the integration tests: starting them, waiting for what they say, finding those that
were left behind. Nothing here sleeps: waits end with a line, the end of a process, or a deadline."""

import contextlib
import functools
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import tempfile
import threading
import time
import unittest

import formulae

BIN = pathlib.Path(os.environ.get("LONGWAVE_BIN", pathlib.Path(__file__).parents[2] / "build/bin"))
# Far above the duration of any step here, even on a busy machine: a test that reaches it hangs.
DEADLINE_S = 240

# A GPT that trains quickly on few cores, with frequent heartbeats so that tests need not wait for them.
TINY = {
    "run.steps": 24, "run.workers": 2, "run.shards": 2, "run.validation_batches": 2,
    "model.d_model": 32, "model.layers": 1, "model.heads": 2, "model.context": 32,
    "train.batch": 4, "train.warmup_steps": 4, "train.threads": 1, "train.device": "cpu",
    "cluster.heartbeat_interval_s": 0.05,
}


@functools.lru_cache(None)
def resolved_preset(name):
    """"a.b.c" -> text of each value of the preset's configuration."""
    done = subprocess.run([BIN / "longwave", "config", "print", "--set", f"preset={name}"], capture_output=True, text=True,
                          check=True)
    return formulae.read_config(done.stdout)


def write_text(path, length=60_000):
    """English-like text, the same every time: words drawn by a linear congruential generator."""
    words = "the a of to and in worker shard round merge slow link sends few bytes far away".split()
    state, parts, size = 1, [], 0
    while size < length:
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        parts.append(words[(state >> 33) % len(words)])
        size += len(parts[-1]) + 1
    # `up` shows the first line, which has no word that a test waits for.
    path.write_text("a text\n" + " ".join(parts), encoding="utf-8")


def processes_mentioning(*texts):
    """Ids of the processes with all of `texts` in their command line, ours excepted; zombies have none."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            command = pathlib.Path("/proc", entry, "cmdline").read_bytes()
        except OSError:
            continue
        if all(text.encode() in command for text in texts):
            found.append(int(entry))
    return sorted(found)


def await_gone(pids, seconds):
    """Waits until none of `pids` runs any more; returns those that still do after `seconds`."""
    end = time.monotonic() + seconds
    left = []
    for pid in pids:
        try:
            descriptor = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            readable, _, _ = select.select([descriptor], [], [], max(0, end - time.monotonic()))
            if not readable:
                left.append(pid)
        finally:
            os.close(descriptor)
    return left


class Child:
    """A process whose standard output is read line by line as it comes."""

    def __init__(self, *command):
        self.process = subprocess.Popen([str(part) for part in command], stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.errors = ""
        self._more_errors = threading.Condition()
        # A thread reads the pipe, so that a full one never stops the process.
        self._reader = threading.Thread(target=self._read_errors, daemon=True)
        self._reader.start()

    def _read_errors(self):
        for line in self.process.stderr:
            with self._more_errors:
                self.errors += line
                self._more_errors.notify_all()

    def await_log(self, wanted):
        """Waits until the log, which is standard error, has `wanted`."""
        with self._more_errors:
            if not self._more_errors.wait_for(lambda: wanted in self.errors, DEADLINE_S):
                raise AssertionError(f"nothing of {wanted!r} in {self.errors}")

    @contextlib.contextmanager
    def _limited(self):
        """Kills the process if what is waited for takes too long. A process may well live longer than that."""
        timer = threading.Timer(DEADLINE_S, self.process.kill)
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def await_line(self, wanted):
        """Reads up to a line that contains `wanted`; fails at the end of the output."""
        seen = []
        with self._limited():
            for line in self.process.stdout:
                seen.append(line)
                if wanted in line:
                    return line.strip()
        self._reader.join()
        raise AssertionError(f"no line with {wanted!r}; got {''.join(seen)}{self.errors}")

    def finish(self, timeout=DEADLINE_S):
        """Waits for the end; returns exit status, the rest of the output, the errors."""
        with self._limited():
            output = self.process.stdout.read()
            status = self.process.wait(timeout)
        self._reader.join()
        self.close()
        return status, output, self.errors

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join()
        self.process.stdout.close()
        self.process.stderr.close()


def longwave(*arguments, wanted=0, text="", **options):
    """Runs it to its end, with `text` on its standard input; the exit status is the wanted one."""
    done = subprocess.run([BIN / "longwave", *map(str, arguments)], capture_output=True, encoding="utf-8",
                          timeout=DEADLINE_S, input=text, check=False, **options)
    if done.returncode != wanted:
        raise AssertionError(f"longwave {arguments}: status {done.returncode}, wanted {wanted}: {done.stdout}{done.stderr}")
    return done


def plan_of(config, *arguments):
    """The figures of `longwave plan` for one method, over links and kernels that are given."""
    done = longwave("plan", config, "--json", "--up", "100Mbit", "--down", "100Mbit", "--step", "0.1s",
                    "--kernels", "encode=100,decode=100,merge=100", "--disk", "rate=200,sync=2ms", *arguments)
    method, = json.loads(done.stdout)["methods"]
    return method


class Finished:
    """The result of a run of `longwave up`."""

    def __init__(self, folder, status, output, errors):
        self.folder, self.status, self.output, self.errors = folder, status, output, errors

    @property
    def summary(self):
        return json.loads((self.folder / "summary.json").read_text(encoding="utf-8"))

    @property
    def sentence(self):
        """The closing line of a failed run."""
        lines = [line for line in self.errors.splitlines() if line.startswith("longwave up: ")]
        return lines[-1] if lines else self.errors


class IntegrationTest(unittest.TestCase):
    """A folder of its own for each test, with a text and a configuration; nothing outlives it."""

    maxDiff = None

    def setUp(self):
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="longwave-test-"))
        self.addCleanup(shutil.rmtree, self.root, ignore_errors=True)
        self.text = self.root / "text.txt"
        write_text(self.text)
        self.children = []
        self.addCleanup(self._end_children)

    def _end_children(self):
        for child in self.children:
            child.close()
        for pid in processes_mentioning(str(self.root)):
            with contextlib.suppress(ProcessLookupError):  # it may have ended since
                os.kill(pid, signal.SIGKILL)

    def write_config(self, name="run.yaml", **settings):
        """A configuration file of TINY, `settings` ("sync__up__k") over it."""
        values = dict(TINY)
        values["data.path"] = str(self.text)
        values.update({key.replace("__", "."): value for key, value in settings.items()})
        # More than one round; each step of a method that sends gradients is a round.
        if resolved_preset(values.get("run.preset", "longwave"))["sync.signal"] != "gradient":
            values.setdefault("sync.inner_steps", 8)
        tree = {}
        for key, value in values.items():
            *sections, last = key.split(".")
            node = tree
            for section in sections:
                node = node.setdefault(section, {})
            node[last] = value
        path = self.root / name
        path.write_text(json.dumps(tree), encoding="utf-8")  # JSON is YAML
        return path

    def start(self, program, *arguments):
        child = Child(BIN / program, *arguments)
        self.children.append(child)
        return child

    def start_up(self, *arguments, name="test", **settings):
        config = self.write_config(**settings)
        return self.start("longwave", "up", config, "--name", name, "--runs-dir",
                          self.root / "runs", *arguments)

    def up(self, *arguments, name="test", **settings):
        """Runs `longwave up` to its end and holds it to leaving no process behind."""
        child = self.start_up(*arguments, name=name, **settings)
        done = Finished(self.root / "runs" / name, *child.finish())
        self.assert_nothing_left()
        return done

    def ends(self, child, wanted=0):
        """Output and errors of a process, which ends with this exit status."""
        status, output, errors = child.finish()
        self.assertEqual(status, wanted, output + errors)
        return output, errors

    def closing_sentence(self, child):
        """The last line of a process's log, which ends with status 1."""
        last = self.ends(child, 1)[1].strip().splitlines()[-1]
        self.assertTrue(last.startswith("error: "), last)
        return last

    def start_coordinator(self, config, *arguments):
        """A coordinator on a port of its own, and its address."""
        coordinator = self.start("longwave-server", "--role=coordinator", "--config", config, "--listen", "127.0.0.1:0",
                                 *arguments)
        return coordinator, coordinator.await_line("ready ").split()[1]

    def processes_of(self, *words):
        """Ids of the processes of this test that have these arguments one after the other, or the program."""
        return processes_mentioning(str(self.root), "\0".join(words) + "\0")

    def assert_nothing_left(self):
        left = processes_mentioning(str(self.root))
        self.assertEqual(left, [], "processes left behind")

    def assert_fails(self, done, *parts):
        """Exit status 1, and one closing sentence with all of `parts` in it."""
        self.assertEqual(done.status, 1, done.output + done.errors)
        self.assertTrue(done.sentence.startswith("longwave up: failed: "), done.errors)
        self.assertEqual(done.errors.count("longwave up: failed: "), 1, done.errors)
        for part in parts:
            self.assertIn(part, done.sentence)
