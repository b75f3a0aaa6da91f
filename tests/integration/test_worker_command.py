"""`longwave up --worker-command`: workers that are a command of the user's. The command is longwave-worker itself here,
told by nothing but its environment, or a program in C; tests/python has those of the package."""

import os
import shlex
import signal
import time
import unittest

from harness import BIN, DEADLINE_S, IntegrationTest, await_gone


class WorkerCommand(IntegrationTest):
    def command(self, before="", more=""):
        return shlex.join(["sh", "-c", f'''
            {before}
            echo "I am $LONGWAVE_NAME of $LONGWAVE_WORKERS"
            exec {shlex.quote(str(BIN / "longwave-worker"))} --coordinator "$LONGWAVE_COORDINATOR" \
              --name "$LONGWAVE_NAME" --state-dir "$LONGWAVE_STATE_DIR" --run-dir "$LONGWAVE_RUN_DIR" \
              --metrics "$LONGWAVE_METRICS" --threads 1 --set security.mode="$LONGWAVE_SECURITY" {more}'''])

    def up_command(self, *arguments, command=None, **settings):
        return self.up("--worker-command", self.command() if command is None else command, "--set",
                       "model.kind=gpt", *arguments, **settings)

    def test_a_command_trains_and_ends_equal(self):
        done = self.up_command()
        self.assertEqual(done.status, 0, done.output + done.errors)
        self.assertTrue(done.summary["replicas_equal"])
        self.assertTrue((done.folder / "model.safetensors").exists())
        for number in range(2):
            log = (done.folder / f"logs/worker-{number}.log").read_text(encoding="utf-8")
            self.assertIn(f"I am worker-{number} of 2\n", log)
        self.ends(self.start("longwave", "replay", done.folder))

    def test_the_targets_for_prometheus_are_there_until_the_end(self):
        run = self.start_up("--worker-command", self.command(), "--set", "model.kind=gpt", "--plain", run__steps=1_000_000)
        targets = self.root / "runs/test/prometheus-targets.json"
        end = time.monotonic() + DEADLINE_S
        while not (targets.exists() and '"process": "worker-1"' in targets.read_text(encoding="utf-8")):
            self.assertLess(time.monotonic(), end, "waited in vain")
            time.sleep(0.1)
        run.process.send_signal(signal.SIGINT)
        self.assertEqual(run.finish()[0], 130)
        self.assertFalse(targets.exists(), "the ports may be another process's by now")

    def test_a_program_in_c_trains_a_model_of_its_own(self):
        program = BIN.parent / "tests/abi_linear_model"
        if not program.exists():
            self.skipTest(f"no {program}")
        command = f"exec {shlex.quote(str(program))} $LONGWAVE_COORDINATOR $LONGWAVE_NAME $LONGWAVE_STATE_DIR"
        # The model is one tile, so one of the two shards has no segment.
        done = self.up("--worker-command", shlex.join(["sh", "-c", command]), run__preset="longwave",
                       run__shards=2, run__steps=300, sync__inner_steps=10, train__learning_rate=0.3)
        self.assertEqual(done.status, 0, done.output + done.errors)
        self.assertEqual((done.summary["params"], done.summary["replicas_equal"]), (64, True))
        # A program's standard output and its log come by two pipes: either may be written first.
        states = {line for number in range(2)
                  for line in (done.folder / f"logs/worker-{number}.log").read_text(encoding="utf-8").splitlines()
                  if line.startswith("theta ")}
        self.assertEqual(len(states), 1, states)
        self.assertRegex(done.output, r"\n *shard-1 +up +- +0 ")
        # The coordinator's record has names and shapes of such a model.
        self.ends(self.start("longwave", "replay", done.folder, "--weights", self.root / "again.safetensors"))
        self.assertIn(b'"weights"', (self.root / "again.safetensors").read_bytes()[:400])
        (done.folder / "state/coordinator/coordinator.lwlog").unlink()
        _, errors = self.ends(self.start("longwave", "replay", done.folder), 1)
        self.assertIn("the model is the workers' (model.kind: external)", errors)

    def test_a_killed_command_is_started_again_and_goes_on(self):
        child = self.start_up("--worker-command", self.command(), "--set", "model.kind=gpt", run__steps=4000,
                              sync__inner_steps=2)
        child.await_line("round ")
        os.kill(self.processes_of("--name", "worker-1")[0], signal.SIGKILL)
        child.await_line("worker-1 was killed by signal 9 (Killed) and is started again")
        self.ends(child)
        log = (self.root / "runs/test/logs/worker-1.log").read_text(encoding="utf-8")
        self.assertEqual(log.count("I am worker-1 of 2\n"), 2)
        self.assert_nothing_left()
        self.ends(self.start("longwave", "replay", self.root / "runs/test"))

    def test_what_a_shell_has_started_ends_with_a_killed_up(self):
        command = self.command(more="\n true").replace("exec ", "")  # so that the worker is the shell's child
        child = self.start_up("--worker-command", command, "--set", "model.kind=gpt", run__steps=1_000_000)
        child.await_line("round ")
        workers = self.processes_of("longwave-worker")
        self.assertEqual(len(workers), 2)
        child.process.kill()
        self.assertEqual(await_gone(workers, seconds=DEADLINE_S), [])

    def test_one_that_fails_ends_the_run_with_what_its_traceback_closes_with(self):
        fails = ("[ $LONGWAVE_NAME = worker-0 ] || { echo 'Traceback (most recent call last):' >&2; "
                 "echo '  File \"train.py\"' >&2; echo 'KeyError: loss' >&2; exit 1; }")
        self.assert_fails(self.up_command(command=self.command(before=fails)), "worker-1: KeyError: loss")

    def test_one_that_ends_before_the_run_is_named(self):
        self.assert_fails(self.up_command(command="true"), "ended (exit status 0) before the run was over")

    def test_what_no_run_can_be_made_of_is_refused(self):
        for command, wanted in (("", "got an empty command"), ("no-such-program train.py", "got no-such-program"),
                                ("sh 'x", "got a ' without a second one")):
            self.assert_fails(self.up_command(command=command), wanted)
            self.assertFalse((self.root / "runs/test").exists())
        self.assert_fails(self.up_command("--data", self.text), "--data: got one beside --worker-command")
        self.assert_fails(self.up(model__kind="external"), "wanted --worker-command beside it")


if __name__ == "__main__":
    unittest.main()
