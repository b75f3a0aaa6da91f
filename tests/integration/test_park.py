"""Ctrl-C of `longwave up` parks a run, and `up --resume` goes on with it."""

import json
import os
import re
import shutil
import signal
import subprocess
import unittest

from harness import BIN, DEADLINE_S, IntegrationTest, longwave

# So many that the run does not end before a signal that comes seconds late.
ROUNDS = 1000
LONG = {"run__steps": 4 * ROUNDS, "sync__inner_steps": 4}


class Park(IntegrationTest):
    def park(self, *arguments, number=signal.SIGINT, status_wanted=130, **settings):
        child = self.start_up(*arguments, **{**LONG, **settings})
        for _ in range(3):
            child.await_line("round ")
        child.process.send_signal(number)
        output, _ = self.ends(child, status_wanted)
        self.assert_nothing_left()
        return output

    def resume(self, run, *arguments, wanted=0):
        child = self.start("longwave", "up", "--resume", run, "--runs-dir", self.root / "runs", *arguments)
        output, errors = self.ends(child, wanted)
        self.assert_nothing_left()
        return output, errors

    def summary(self, folder):
        return json.loads((folder / "summary.json").read_text(encoding="utf-8"))

    def test_a_parked_run_goes_on_to_its_end(self):
        folder = self.root / "runs/test"
        output = self.park()
        self.assertIn(f"it goes on with: longwave up --resume {folder}\n", output)
        parked = self.summary(folder)
        self.assertEqual(parked["outcome"], "parked")
        self.assertGreater(parked["rounds"], 0)
        self.assertLess(parked["rounds"], ROUNDS)
        # The weights can be had meanwhile, from where `longwave weights` points to.
        refused = longwave("weights", "127.0.0.1:1", cwd=self.root, wanted=1)
        self.assertIn("longwave replay FOLDER --weights FILE makes them", refused.stderr)
        self.make_weights(folder, parked["rounds"])
        self.assertEqual(longwave("generate", folder, "--prompt", "the ", "--length", 8).stdout[:4], "the ")
        self.assertFalse((folder / "model.safetensors").exists())
        self.resume("test")
        finished = self.summary(folder)
        self.assertEqual((finished["outcome"], finished["rounds"], finished["replicas_equal"]),
                         ("finished", ROUNDS, True))
        rounds = [json.loads(line)["round"] for line in
                  (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
        self.assertEqual(rounds, sorted(set(rounds)))
        self.assertGreaterEqual(len(rounds), parked["rounds"])
        longwave("replay", folder)
        # No state is left to continue from.
        self.assertIn("has finished, wanted one that was parked or has failed", self.resume("test", wanted=1)[1])

    def test_a_parked_run_goes_on_with_the_interval_that_it_had_fitted(self):
        folder = self.root / "runs/test"
        self.park(sync__inner_steps="auto", sync__inner_steps_max=8)
        parked = self.summary(folder)
        longwave("replay", folder)
        self.resume("test")
        finished = self.summary(folder)
        self.assertEqual((finished["outcome"], finished["steps"], finished["replicas_equal"]),
                         ("finished", 4 * ROUNDS, True))
        self.assertGreater(finished["rounds"], parked["rounds"])
        # A round has two to eight steps, and the last one the rest. Rounds that all have skipped have no record.
        records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text(encoding="utf-8").splitlines()]
        self.assertEqual(records[-1]["step"], 4 * ROUNDS)
        for before, after in zip(records, records[1:-1]):
            steps, rounds = after["step"] - before["step"], after["round"] - before["round"]
            self.assertTrue(2 * rounds <= steps <= 8 * rounds, (before, after))
        self.assertIn(finished["state_hash"], longwave("replay", folder).stdout)

    def make_weights(self, folder, rounds):
        """From the folders of a run that has ended early, with at least so many rounds."""
        file = self.root / "again" / "model.safetensors"
        file.parent.mkdir()
        made = longwave("replay", folder, "--weights", file)
        self.assertGreaterEqual(int(re.search(r"(?m)^model +after (\d+) rounds", made.stdout)[1]), rounds)
        longwave("generate", file.parent, "--length", 8)

    def test_a_parked_run_goes_on_where_its_folder_was_moved_to(self):
        self.park(number=signal.SIGTERM, status_wanted=143, security__mode="on")
        moved = self.root / "elsewhere" / "named anew"  # which is no name for a run
        moved.parent.mkdir()
        shutil.move(self.root / "runs/test", moved)
        text = self.root / "moved.txt"
        self.text.rename(text)
        output, errors = self.resume(f"{moved}/", "--data", text)
        self.assertNotIn("warning", errors, "the text is the same, at another place")
        self.assertIn(f"run       {moved}\n", output)
        self.assertEqual(self.summary(moved)["outcome"], "finished")
        self.assertFalse((self.root / "runs/test").exists())

    def test_other_data_are_told(self):
        self.park()
        self.text.write_text(self.text.read_text(encoding="utf-8").replace("shard", "drahs"), encoding="utf-8")
        _, errors = self.resume("test")
        self.assertIn("warning: the data are not those that the run had before", errors)

    def test_other_settings_are_refused_and_leave_the_folder_as_it_was(self):
        self.park()
        config = self.root / "runs/test/config.yaml"
        before = config.read_bytes()
        _, errors = self.resume("test", "--set", "run.seed=77", wanted=1)
        self.assertRegex(errors, r"--resume: got run\.seed: 77; wanted run\.seed: \d+, as the run in")
        self.assertEqual(config.read_bytes(), before)
        longwave("up", "--resume", ".", cwd=self.root / "runs/test")

    def test_it_can_be_made_longer(self):
        folder = self.root / "runs/test"
        self.park()
        _, errors = self.resume("test", "--set", "run.steps=400", wanted=1)
        self.assertRegex(errors, r"--resume: got run\.steps: 400; wanted run\.steps: 4000, as the run in")
        output, _ = self.resume("test", "--set", f"run.steps={4 * ROUNDS + 32}")
        self.assertRegex(output, r"run\.steps: 4000 -> 4032: the learning rate of step \d+ is [\d.e-]+, no longer [\d.e-]+;")
        finished = self.summary(folder)
        self.assertEqual((finished["outcome"], finished["rounds"], finished["steps"], finished["replicas_equal"]),
                         ("finished", ROUNDS + 8, 4 * ROUNDS + 32, True))
        longwave("replay", folder)

    def test_a_second_up_leaves_the_first_ones_folder_alone(self):
        child = self.start_up(**LONG)
        child.await_line("round ")
        _, errors = self.ends(self.start("longwave", "up", "--resume", self.root / "runs/test"), 1)
        self.assertIn("runs/test/lock: another process holds this lock", errors)
        self.assertTrue((self.root / "runs/test/prometheus-targets.json").exists())
        self.assertFalse((self.root / "runs/test/summary.json").exists())
        child.process.send_signal(signal.SIGINT)
        self.assertEqual(child.finish()[0], 130)

    def test_a_reader_of_the_output_may_go_before_the_run_is_parked(self):
        config = self.write_config(**LONG)
        with subprocess.Popen([BIN / "longwave", "up", config, "--name", "test", "--runs-dir", self.root / "runs"],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as up:
            for line in up.stdout:
                if "round " in line:
                    break
            up.stdout.close()
            up.send_signal(signal.SIGINT)
            self.assertEqual(up.wait(DEADLINE_S), 130)
        self.assertEqual(self.summary(self.root / "runs/test")["outcome"], "parked")
        self.assert_nothing_left()

    def test_a_second_interrupt_ends_what_hangs(self):
        child = self.start_up(**LONG)
        child.await_line("round ")
        os.kill(self.processes_of("--name", "worker-0")[0], signal.SIGSTOP)
        child.process.send_signal(signal.SIGINT)
        child.await_line("parking")
        child.process.send_signal(signal.SIGINT)
        output, _ = self.ends(child, 130)
        self.assertIn("longwave up: parked: ", output)
        self.assert_nothing_left()
        self.resume("test")

    def test_a_run_without_state_is_stopped_and_leaves_its_weights(self):
        output = self.park("--no-state")
        self.assertIn("longwave up: stopped: ", output)
        folder = self.root / "runs/test"
        self.assertEqual(self.summary(folder)["model_file"], str(folder / "model.safetensors"))
        self.assertTrue((folder / "model.safetensors").exists())
        self.assertIn("wanted the folder of a run of `longwave up` that keeps state", self.resume("test", wanted=1)[1])

    def test_what_cannot_go_on_is_refused(self):
        for arguments, wanted in ((["nothing"], "there is no nothing/config.yaml"),
                                  (["nothing", "--name", "x"], "excludes"),
                                  (["nothing", "--no-state"], "excludes"),
                                  (["nothing", "configs/demo.yaml"], "excludes")):
            self.assertIn(wanted, longwave("up", "--resume", *arguments, wanted=1).stderr)


if __name__ == "__main__":
    unittest.main()
