"""Surroundings that a program may find: a terminal that goes, no standard output, data that are no text."""

import os
import signal
import subprocess
import unittest

from by_hand import HandCluster
from harness import BIN, DEADLINE_S, IntegrationTest

ENDLESS = {"run__preset": "longwave", "run__steps": 100_000_000, "sync__inner_steps": 2}


class Data(IntegrationTest):
    def assert_refused(self, path, *parts):
        done = self.up("--data", path)
        self.assert_fails(done, str(path), *parts)
        self.assertFalse(done.folder.exists())

    def test_an_empty_file(self):
        path = self.root / "empty"
        path.touch()
        self.assert_refused(path, "holds no bytes; wanted text")

    def test_an_empty_folder(self):
        path = self.root / "folder"
        path.mkdir()
        self.assert_refused(path, "holds no bytes; wanted text")

    def test_a_pipe(self):
        path = self.root / "pipe"
        os.mkfifo(path)
        self.assert_refused(path, "is not a file or folder")

    def test_a_device(self):
        self.assert_refused("/dev/zero", "is not a file or folder")

    def test_a_text_beyond_the_limit(self):
        path = self.root / "large"
        with path.open("wb") as file:
            file.truncate((1 << 30) + 1)
        self.assert_refused(path, "more than 1 GiB of text")

    def test_a_hundred_thousand_files(self):
        """LONGWAVE_FILES=1000000 is for a person's patience."""
        count = int(os.environ.get("LONGWAVE_FILES", 100_000))
        path = self.root / "many"
        for folder in range(count // 1000):
            (path / f"{folder:02}").mkdir(parents=True)
            for file in range(1000):
                # Files of equal content that are held out would be left out of the others.
                (path / f"{folder:02}" / f"{file:03}").write_text(f"{folder * 1000 + file:05x}", encoding="ascii")
        done = self.up("--data", path, run__preset="longwave", run__shards=1)
        self.assertEqual(done.status, 0, done.output + done.errors)
        # A tenth of the five bytes of each is held out.
        self.assertIn(f"on {count * 5 * 9 // 10} bytes of text", (done.folder / "logs/worker-0.log").read_text(encoding="utf-8"))


class Terminals(IntegrationTest):
    def test_a_hangup_parks_a_run(self):
        child = self.start_up(**ENDLESS)
        child.await_line("round ")
        child.process.send_signal(signal.SIGHUP)
        # The kernel's, after the shell's.
        child.await_line("parking")
        child.process.send_signal(signal.SIGHUP)
        output, errors = self.ends(child, 129)
        # A killed worker would not say so.
        self.assertRegex((self.root / "runs/test/logs/worker-0.log").read_text(encoding="utf-8"),
                         "told to end: keeps a checkpoint of round|stopping: a signal asked for it")
        self.assertIn("longwave up --resume", output + errors)
        self.assert_nothing_left()

    def test_a_run_under_nohup_outlives_its_terminal(self):
        config = self.write_config(run__preset="longwave", run__steps=1000, sync__inner_steps=2)
        with subprocess.Popen(["nohup", BIN / "longwave", "up", config, "--name", "test", "--runs-dir",
                               self.root / "runs"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True) as up:
            seen = []
            for line in up.stdout:
                seen.append(line)
                if "round " in line:
                    up.send_signal(signal.SIGHUP)
                    break
            seen += up.stdout.readlines()
            self.assertEqual(up.wait(DEADLINE_S), 0, "".join(seen))

    def test_a_hangup_ends_a_worker_as_sigterm_does(self):
        cluster = HandCluster(self, workers=2, **ENDLESS)
        cluster.await_rounds(3)
        for name in ("worker-0", "shard-0", "coordinator"):
            cluster.children[name].process.send_signal(signal.SIGHUP)
            _, errors = self.ends(cluster.children[name])
            if name.startswith("worker"):
                self.assertRegex(errors, "told to end: keeps a checkpoint of round|stopping: a signal asked for it")
            cluster.start_again(name)
            cluster.await_members(2, rounds=2)
        cluster.assert_equal_replicas()
        cluster.end()

    def test_servers_under_nohup_outlive_their_terminal(self):
        config = self.write_config(**ENDLESS)
        with subprocess.Popen(["nohup", BIN / "longwave-server", "--role=coordinator", "--config", config, "--listen",
                               "127.0.0.1:0"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.DEVNULL, text=True) as server:
            address = server.stdout.readline().split()[1]
            server.send_signal(signal.SIGHUP)
            self.ends(self.start("longwave", "status", address))
            server.terminate()
            self.assertEqual(server.wait(DEADLINE_S), 0)

    def test_a_run_without_terminal_or_standard_streams(self):
        config = self.write_config(run__preset="longwave")
        for redirect in ("<&- >&- 2>&-", "</dev/null >/dev/full 2>/dev/null", ">&-", "2>&-"):
            with self.subTest(redirect):
                name = f"test-{abs(hash(redirect))}"
                done = subprocess.run(
                    ["setsid", "--wait", "sh", "-c", f'exec "$0" "$@" {redirect}', BIN / "longwave", "up", config,
                     "--name", name, "--runs-dir", self.root / "runs"], timeout=DEADLINE_S, check=False)
                self.assertEqual(done.returncode, 0)
                summary = self.root / "runs" / name / "summary.json"
                self.assertIn('"finished"', summary.read_text(encoding="utf-8"))
                self.assertTrue((summary.parent / "logs/coordinator.log").read_bytes())
                self.assert_nothing_left()

    def test_output_that_cannot_be_written(self):
        for program, *arguments in (("longwave", "config", "print"), ("longwave", "config", "schema"),
                                    ("longwave", "completion", "bash"), ("longwave", "--help"),
                                    ("longwave-server", "--version")):
            with self.subTest(arguments), open("/dev/full", "w", encoding="utf-8") as full:
                done = subprocess.run([BIN / program, *arguments], stdout=full, stderr=subprocess.PIPE, text=True,
                                      timeout=DEADLINE_S, check=False)
                self.assertEqual((done.returncode, done.stderr),
                                 (1, f"{program}: cannot write the output: No space left on device\n"))

    def test_a_parent_that_ignores_the_end_of_children(self):
        config = self.write_config(run__preset="longwave")
        done = subprocess.run([BIN / "longwave", "up", config, "--name", "test", "--runs-dir", self.root / "runs"],
                              preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN), timeout=DEADLINE_S,
                              capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)

    def test_no_place_for_temporary_files(self):
        run = self.up(run__preset="longwave")
        done = subprocess.run([BIN / "longwave", "replay", run.folder], env={**os.environ, "TMPDIR": "/nonexistent"},
                              timeout=DEADLINE_S, capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("got no folder for temporary files", done.stderr)

    def test_a_signal_ends_up_while_it_waits_for_its_configuration(self):
        pipe = self.root / "pipe"
        os.mkfifo(pipe)
        child = self.start("longwave", "up", pipe)
        with pipe.open("w", encoding="utf-8"):  # opens once `up` has
            child.process.terminate()
            self.assertEqual(child.finish()[0], -signal.SIGTERM)


if __name__ == "__main__":
    unittest.main()
