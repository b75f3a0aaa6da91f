"""How runs begin and end: signals, processes that die, workers that come late, terminals."""

import json
import os
import pty
import re
import resource
import signal
import subprocess
import time
import unittest

from by_hand import HandCluster
from harness import BIN, DEADLINE_S, IntegrationTest, await_gone, processes_mentioning
from test_metrics import scrape, total

ENDLESS = {"run__steps": 100_000_000, "sync__inner_steps": 2}


class Signals(IntegrationTest):
    def start_and_train(self, *arguments, **settings):
        child = self.start_up(*arguments, **{**ENDLESS, **settings})
        child.await_line("round ")
        return child

    def stop(self, child, number):
        """Sends the signal and waits for the end. How long it took is said, and that it ends though a process never
        would is what is held."""
        begin = time.monotonic()
        child.process.send_signal(number)
        status, output, errors = child.finish()
        print(f"\n  ended {time.monotonic() - begin:.1f} s after the signal")
        self.assert_nothing_left()
        return status, output, errors

    def check_stops(self, number, status_wanted):
        status, output, errors = self.stop(self.start_and_train(), number)
        self.assertEqual(status, status_wanted, output + errors)
        self.assertIn("longwave up: parked: ", output)
        self.assertTrue((self.root / "runs/test/summary.json").exists())

    def test_interrupt_ends_everything(self):
        self.check_stops(signal.SIGINT, 130)

    def test_terminate_ends_everything(self):
        self.check_stops(signal.SIGTERM, 143)

    def test_interrupt_while_one_process_hangs(self):
        self.check_stops_despite_a_hung_process("longwave-worker")

    def test_interrupt_while_the_coordinator_hangs(self):
        self.check_stops_despite_a_hung_process("--role=coordinator")

    def check_stops_despite_a_hung_process(self, flag):
        child = self.start_and_train()
        os.kill(self.processes_of(flag)[0], signal.SIGSTOP)
        status, output, errors = self.stop(child, signal.SIGINT)
        self.assertEqual(status, 130, output + errors)

    def test_a_kill_of_up_takes_its_children_along(self):
        child = self.start_and_train()
        pids = [pid for pid in processes_mentioning(str(self.root)) if pid != child.process.pid]
        self.assertEqual(len(pids), 5)  # coordinator, two shards, two workers
        child.process.kill()
        self.assertEqual(await_gone(pids, seconds=DEADLINE_S), [])

    def check_death(self, flag, name):
        child = self.start_and_train("--no-state", cluster__heartbeat_timeout_s=5)
        os.kill(self.processes_of(flag)[0], signal.SIGKILL)
        output, errors = self.ends(child, 1)
        self.assertIn(f"longwave up: failed: {name}", errors)
        self.assertIn("signal 9", errors)
        self.assert_nothing_left()
        # The weights are all that is left of what was trained.
        folder = self.root / "runs/test"
        summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
        self.assertEqual(summary["outcome"], "failed")
        self.assertEqual(summary["model_file"], str(folder / "model.safetensors"), output + errors)
        self.assertTrue((folder / "model.safetensors").exists())

    def check_revival(self, flag, name):
        # A long run with a line every hundred rounds.
        child = self.start_and_train(run__steps=20_000)
        os.kill(self.processes_of(flag)[0], signal.SIGKILL)
        self.assertRegex(child.await_line("is started again"), name + ".* was killed by signal 9")
        for _ in range(2):
            child.await_line("round ")
        child.process.send_signal(signal.SIGINT)
        self.ends(child, 130)
        summary = json.loads((self.root / "runs/test/summary.json").read_text(encoding="utf-8"))
        self.assertTrue(summary["replicas_equal"], summary)
        self.assert_nothing_left()

    def check_early_end(self, flag, sentence):
        child = self.start_and_train()
        os.kill(self.processes_of(flag)[0], signal.SIGTERM)
        output, errors = self.ends(child, 1)
        self.assertRegex(errors, f"longwave up: failed: {sentence} before the run was over")
        self.assertEqual(output.count("before the run was over"), 0, output)
        self.assert_nothing_left()
        # The weights are in the state that is left.
        weights = self.root / "weights.safetensors"
        self.ends(self.start("longwave", "replay", self.root / "runs/test", "--weights", weights))
        self.assertGreater(weights.stat().st_size, 0)

    def test_a_worker_told_to_end_leaves_the_others_to_train(self):
        child = self.start_and_train(run__steps=20_000)
        os.kill(self.processes_of("longwave-worker")[0], signal.SIGTERM)
        self.assertRegex(child.await_line("has left the run"), r"worker-\d has left the run")
        for _ in range(2):
            child.await_line("round ")
        # Without a training worker there is no run.
        os.kill(self.processes_of("longwave-worker")[0], signal.SIGTERM)
        _, errors = self.ends(child, 1)
        self.assertRegex(errors, r"worker-\d ended \(exit status 0\) before the run was over")
        self.assert_nothing_left()

    def test_a_shard_told_to_end_fails_the_run(self):
        self.check_early_end("--role=shard", r"shard-\d ended \(exit status 0\)")

    def test_a_coordinator_told_to_end_fails_the_run(self):
        self.check_early_end("--role=coordinator",
                             r"coordinator (ended \(exit status 0\)|was told to end)")

    def test_a_killed_worker_fails_a_run_without_state(self):
        self.check_death("longwave-worker", "worker-")

    def test_a_killed_shard_fails_a_run_without_state(self):
        self.check_death("--role=shard", "shard-")

    def test_a_killed_coordinator_fails_a_run_without_state(self):
        self.check_death("--role=coordinator", "coordinator")

    def test_a_killed_worker_is_started_again(self):
        self.check_revival("longwave-worker", "worker-")

    def test_a_killed_shard_is_started_again(self):
        self.check_revival("--role=shard", "shard-")

    def test_a_killed_coordinator_is_started_again(self):
        self.check_revival("--role=coordinator", "coordinator")


class Terminal(IntegrationTest):
    def up_in_a_terminal(self, kind, environment=(), **settings):
        """The output on a terminal of that kind."""
        config = self.write_config(run__preset="longwave", sync__inner_steps=6, **settings)
        leader, follower = pty.openpty()
        process = subprocess.Popen(
            [BIN / "longwave", "up", config, "--name", "test", "--runs-dir", self.root / "runs"],
            stdin=subprocess.DEVNULL, stdout=follower, stderr=follower,
            env={**os.environ, "TERM": kind, **dict(environment)})
        os.close(follower)
        shown = b""
        while True:
            try:
                piece = os.read(leader, 65536)
            except OSError:  # the peer has closed
                break
            if not piece:
                break
            shown += piece
        os.close(leader)
        self.assertEqual(process.wait(), 0, shown)
        return shown.decode("utf-8")

    def test_a_terminal_gets_the_live_view(self):
        text = self.up_in_a_terminal("xterm")
        self.assertIn("bytes a worker", text)
        self.assertIn("100 %  step 24/24  round 4/4", text)
        self.assertIn("longwave up: finished: 24 steps, 4 rounds", text)
        self.assertIn("\033[?25h", text[text.rindex("\033[?25l"):], "the cursor is back")
        self.assertIn("\033[32mlongwave up: finished", text)

    def test_a_terminal_without_colours_gets_none(self):
        text = self.up_in_a_terminal("xterm", {"NO_COLOR": "1"})
        self.assertIn("longwave up: finished: 24 steps, 4 rounds", text)
        self.assertNotRegex(text, "\033\\[[0-9;]*m")

    def test_a_dumb_terminal_gets_no_escape_sequences(self):
        # The shards are also bound at a name here.
        text = self.up_in_a_terminal("dumb", cluster__shard_host="localhost")
        self.assertIn("longwave up: finished: 24 steps, 4 rounds", text)
        self.assertNotIn("\033", text)


class ByHand(IntegrationTest):
    """A cluster without `longwave up`: how workers on other machines take part."""

    def test_workers_that_come_one_after_the_other_end_equal(self):
        config = self.write_config(run__preset="longwave", run__shards=1, sync__inner_steps=6)
        coordinator, address = self.start_coordinator(config, "--run-dir", self.root)
        arguments = ["--config", config, "--coordinator", address]
        workers = []
        for name in ("early", "late"):
            workers.append(self.start("longwave-worker", *arguments, "--name", name, "--run-dir",
                                      self.root, "--threads", 1))
            workers[-1].await_line("ready ")
        shard = self.start("longwave-server", "--role=shard", "--shard", 0, *arguments, "--listen",
                           "tcp://127.0.0.1:0")
        shard.await_line("ready ")
        for worker in workers:
            self.ends(worker)
        output, _ = self.ends(self.start("longwave", "status", address))
        self.assertIn("finished", output)
        self.assertIn("replicas  equal", output)
        for server in (shard, coordinator):
            server.process.terminate()
            self.ends(server)

    def test_a_server_outlives_who_reads_its_output(self):
        config = self.write_config(run__preset="longwave")
        nobody, output = os.pipe()
        os.close(nobody)
        with subprocess.Popen([BIN / "longwave-server", "--role=coordinator", "--config", config,
                               "--listen", "127.0.0.1:0"], stdout=output, stderr=subprocess.PIPE) as server:
            os.close(output)
            server.stderr.readline()  # the server listens, and prints its address next
            server.terminate()
            self.assertEqual(server.wait(DEADLINE_S), 0)

    def test_a_worker_that_is_told_to_end_says_so_if_it_is_to(self):
        """To a Job of Kubernetes a pod that ends well has done its work, though its node was drained."""
        for more, wanted in (["--fail-when-told-to-end"], 143), ([], 0):
            config = self.write_config(run__preset="longwave", run__shards=1, run__workers=1, **ENDLESS)
            common = ["--config", config, "--coordinator", self.start_coordinator(config)[1]]
            self.start("longwave-server", "--role=shard", "--shard", 0, *common).await_line("ready ")
            worker = self.start("longwave-worker", *common, "--name", "w", "--run-dir", self.root, *more)
            worker.await_line("ready ")
            worker.process.terminate()
            self.ends(worker, wanted)

    def test_what_stays_when_done_stays_and_comes_back_to_stay(self):
        """As pods, which are started again whenever they end."""
        config = self.write_config(run__preset="longwave", run__shards=1, run__workers=1,
                                   sync__inner_steps=6)
        coordinator, address = self.start_coordinator(config, "--state-dir", self.root / "c")
        common = ["--config", config, "--coordinator", address, "--stay-when-done"]
        worker = ["longwave-worker", *common, "--name", "w", "--run-dir", self.root, "--state-dir",
                  self.root / "w"]
        shard = ["longwave-server", "--role=shard", "--shard", 0, *common, "--state-dir",
                 self.root / "s", "--health", "127.0.0.1:0", "--advertise", "127.0.0.1:"]
        # An address without a port is refused before any port or file is opened.
        _, errors = self.ends(self.start(*shard), 1)
        self.assertIn("--advertise: endpoint", errors)
        shard = shard[:-2]
        for _ in range(2):
            children = [self.start(*shard), self.start(*worker)]
            for child in children:
                child.await_log("stays until it is told to end")
            for child in children:
                child.process.terminate()
                self.ends(child)
        coordinator.process.terminate()
        self.ends(coordinator)

    def test_a_coordinator_that_is_told_to_end_comes_back_to_its_run(self):
        config = self.write_config(run__preset="longwave", run__shards=1, run__workers=1,
                                   run__steps=4000, sync__inner_steps=4)
        serve = ["longwave-server", "--role=coordinator", "--config", config, "--state-dir",
                 self.root / "c", "--run-dir", self.root, "--listen"]
        coordinator = self.start(*serve, "127.0.0.1:0")
        address = coordinator.await_line("ready ").split()[1]
        common = ["--config", config, "--coordinator", address]
        shard = self.start("longwave-server", "--role=shard", "--shard", 0, *common)
        worker = self.start("longwave-worker", *common, "--name", "w", "--run-dir", self.root)
        worker.await_log("training ")
        coordinator.process.terminate()
        _, errors = self.ends(coordinator)
        self.assertIn("the run goes on when it is started again", errors)
        coordinator = self.start(*serve, address)
        coordinator.await_line("ready ")
        for child in (worker, shard):
            self.ends(child)
        status, output, errors = self.start("longwave", "status", address).finish()
        self.assertIn("finished", output, errors)

    def test_workers_of_different_batches_train_one_model(self):
        settings = {"train__batch": 4, "model__context": 16, "sync__inner_steps": 5, "run__steps": 60,
                    "sync__quorum": 1}
        cluster = HandCluster(self, workers=2, started=0, run__preset="longwave", **settings)

        def start_worker(name, batch):
            cluster.start(name, "longwave-worker", "--name", name, "--coordinator", cluster.address,
                          "--run-dir", self.root, "--threads", 1, "--set", f"train.batch={batch}",
                          "--set", f"run.workers={batch}")
            return cluster.children.pop(name)

        _, errors = self.ends(start_worker("too-large", 5), 1)
        self.assertIn("worker too-large: train.batch: got 5, wanted at most 4 as the coordinator has it: "
                      "by it the shards bound what a contribution may weigh", errors)
        for child in [start_worker("small", 1), start_worker("large", 4)]:
            _, errors = self.ends(child)
            self.assertNotIn("rejected", errors)
        self.assertIn("finished", cluster.answered_status()["run"])
        self.assertEqual(len(cluster.rounds()), 12)
        for number, record in enumerate(cluster.rounds(), 1):
            self.assertEqual(record["members"], 2, record)
            self.assertEqual(record["tokens"], number * 5 * (1 + 4) * 16, record)
        cluster.assert_equal_replicas()
        cluster.end()
        output = cluster.replay()
        self.assertIn(cluster.rounds()[-1]["state_hash"], output)

    def test_a_coordinator_that_cannot_write_says_so_where_people_look(self):
        cluster = HandCluster(self, workers=1, shards=1, run__preset="longwave", metrics__listen="127.0.0.1:0",
                              **ENDLESS)
        cluster.await_rounds(2)
        coordinator = cluster.children["coordinator"]
        coordinator.await_log("metrics http://")
        address = re.search(r"metrics http://([^/\s]+)", coordinator.errors).group(1)
        # Limits the size of the process's files to a few bytes.
        limits = resource.prlimit(coordinator.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(coordinator.process.pid, resource.RLIMIT_FSIZE, (16, limits[1]))
        cluster.await_trouble("the coordinator's state, which it must keep before it answers anybody, cannot be written: ")
        page = cluster.await_that(lambda page: total(page, "longwave_coordinator_waiting") == 1,
                                  lambda: scrape(address), "the page of one that waits")
        self.assertGreater(total(page, "longwave_coordinator_save_failures_total"), 0)
        resource.prlimit(coordinator.process.pid, resource.RLIMIT_FSIZE, limits)
        cluster.go_on()
        cluster.await_that(lambda page: page and total(page, "longwave_coordinator_waiting") == 0,
                           lambda: scrape(address), "the page of one that does not wait")
        cluster.end()


if __name__ == "__main__":
    unittest.main()
