"""`longwave status --json`, `top`, `logs`, `stop`, `weights`, `config` and `completion`, with real processes."""

import json
import math
import pathlib
import re
import struct
import subprocess
import unittest

from harness import DEADLINE_S, IntegrationTest, longwave, plan_of
from secured import SecuredTest

ROOT = pathlib.Path(__file__).parents[2]
# A run that ends only when told to.
LONG = {"run__steps": 1_000_000, "sync__inner_steps": 4}


def read_safetensors(path):
    """The tensors' values by name."""
    data = path.read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8:8 + size])
    header.pop("__metadata__", None)
    tensors = {}
    for name, tensor in header.items():
        begin, end = (8 + size + offset for offset in tensor["data_offsets"])
        tensors[name] = struct.unpack(f"<{(end - begin) // 4}f", data[begin:end])
    return tensors


class Commands(IntegrationTest):
    def start_long(self, *arguments, **settings):
        """A run that trains, and its coordinator's address."""
        child = self.start_up(*arguments, **{**LONG, **settings})
        address = re.search(r"coordinator at (\S+)", child.await_line("training "))[1]
        child.await_line("round ")
        return child, address

    def test_status_tells_programs_what_the_documentation_says(self):
        _, address = self.start_long()
        status = json.loads(longwave("status", address, "--json").stdout)
        documented = (ROOT / "docs/reference/commands.md").read_text(encoding="utf-8").split("## For programs\n")[1]
        fields = re.findall(r"^- `(\w+(?:\[\]\.\w+)?)`:", documented, re.MULTILINE)
        listed = set(status) | {f"{part}[].{key}" for part in ("workers", "shards") for key in status[part][0]}
        self.assertEqual(sorted(fields), sorted(listed))
        self.assertEqual(status["phase"], "training")
        self.assertEqual((status["rounds_of"], status["steps_of"]), (250_000, 1_000_000))
        self.assertGreater(status["rounds"], 0)
        self.assertGreater(status["seconds_left"], 0)
        self.assertGreater(status["train_loss"], 0)
        self.assertEqual(sorted(worker["name"] for worker in status["workers"]), ["worker-0", "worker-1"])
        for part in ("bytes_pushed", "bytes_pulled"):
            self.assertGreater(status[part], 0)
            self.assertEqual(status[part], sum(worker[part] for worker in status["workers"]))
        people = longwave("status", address)
        self.assertRegex(people.stdout, r"(?m)^progress .* round \d+/250000\nelapsed .* left \d+:\d\d.*\n"
                                        r"loss .*\nstate     training, epoch 1$")

    def test_a_run_on_this_machine_has_a_name(self):
        child, _ = self.start_long(security__mode="on")  # its folder has the operator's credentials, too
        runs = ("--runs-dir", self.root / "runs")
        self.assertEqual(json.loads(longwave("status", "test", *runs, "--json").stdout)["phase"], "training")
        self.assertRegex(longwave("runs", *runs).stdout, r"(?m)^test +running +\d+/250000 ")
        longwave("stop", self.root / "runs/test/")
        self.ends(child, 1)
        self.assertRegex(longwave("runs", *runs).stdout, r"(?m)^test +stopped +\d+/250000 ")
        self.assertIn("does not run here (stopped), wanted one that does", longwave("top", "test", *runs, wanted=1).stderr)
        lines = longwave("metrics", "test", *runs).stdout.splitlines()
        self.assertTrue(lines[0].startswith("round,step,train_loss,"), lines[0])
        self.assertTrue(lines[1].startswith("0,4,"), lines[1])
        longwave("generate", "test", *runs, "--length", 8)
        longwave("replay", "test", *runs)

    def test_plan_says_a_runs_bytes_beforehand(self):
        # Encrypted, and with snapshots, whose compression no plan knows.
        done = self.up(security__mode="on", run__preset="longwave", cluster__snapshot_rounds=2, sync__inner_steps=2,
                       cluster__grace_min_s=100, cluster__heartbeat_timeout_s=100)
        self.assertEqual(done.status, 0, done.errors)
        plan = plan_of(done.folder / "config.yaml", "--methods", "longwave")
        planned, summary = plan["bytes_run"], done.summary
        self.assertGreater(plan["snapshot_bytes_run"], 0.1 * planned["up"])
        # A run as short as this may end before a segment's turn: then no snapshot is asked for, nor sent.
        for way, counted in (("up", summary["bytes_pushed"]), ("down", summary["bytes_pulled"])):
            without = plan["rounds"] * plan["workers"] * plan["bytes_round_worker"][way]
            self.assertGreater(counted, 0.99 * without)
            self.assertLess(counted, 1.01 * planned[way])
        # The run's own step; it is too short to show its links.
        people = longwave("plan", "--from", "test", "--runs-dir", self.root / "runs", "--methods", "longwave,ddp", "--up", "10Mbit",
                          "--down", "10Mbit").stdout
        self.assertRegex(people, r"(?s)^longwave, H 2: .*\nddp, H 1: .*The run itself, seconds a round and worker: .*computing \d")

    def test_plan_refuses_what_it_cannot_compute(self):
        links = ("--up", "1Mbit", "--down", "1Mbit", "--step", "1s")
        for arguments, wanted in (
                ((), "got no time of an inner step, wanted --step"),
                (("--step", "1s"), "got no rate of a worker's link, wanted --up and --down"),
                ((*links, "--methods", "nothing"), "nothing"),
                ((*links, "--rtt", "40"), "--rtt: got 40, wanted a time such as 40ms"),
                ((*links, "--parameters", "many"), "--parameters: got many, wanted a number"),
                ((*links, "--parameters", "1e12"), "wanted at most 1e+11"),
                ((*links, "--set", "model.kind=external"), "wanted --parameters N"),
                ((*links, "--tokens", "0"), "--tokens: got 0, wanted"),
                ((*links, "--from", "nowhere"), "--from: nowhere has no config.yaml, wanted the folder"),
                (("--worker", "count=2", "--workers", "2"), "--workers excludes --worker")):
            done = longwave("plan", *arguments, cwd=self.root, wanted=1)
            self.assertIn(wanted, done.stderr)
            self.assertEqual((done.stdout, done.stderr.count("\n")), ("", 1))

    def test_nobody_at_an_address_is_said(self):
        for command in ("top", "stop", "weights"):
            for address, wanted in (("nowhere", f"longwave {command}: got nowhere, wanted host:port, or the folder or name of a run of `longwave up`\n"),
                                    ("127.0.0.1:1", f"longwave {command}: failed: ")):
                done = longwave(command, address, cwd=self.root, wanted=1)
                self.assertTrue(done.stderr.startswith(wanted), done.stderr)

    def test_stop_ends_a_run_and_its_weights_are_written(self):
        up, address = self.start_long()
        longwave("stop", address)
        output, _ = self.ends(up, 1)
        self.assertIn("longwave up: stopped: ", output)
        self.assert_nothing_left()
        folder = self.root / "runs/test"
        summary = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
        self.assertEqual(summary["outcome"], "stopped")
        self.assertEqual(summary["model_file"], str(folder / "model.safetensors"))
        longwave("generate", folder, "--length", 8)

    def test_weights_are_those_that_the_members_have(self):
        _, address = self.start_long()
        for name in ("first", "second"):  # under the same name
            out = self.root / f"{name}.safetensors"
            done = longwave("weights", address, "--out", out)
            said = re.search(r"the model after round (\d+) of 250000, state (\w{16})\n", done.stdout)
            self.assertIsNotNone(said, done.stdout)
            record = self.record(int(said[1]) - 1)
            self.assertEqual(record["state_hash"], said[2])
            self.assertEqual(record["members"], 2)  # the run did not wait for the fetching process
            tensors = read_safetensors(out)
            self.assertEqual(len(tensors["wte.weight"]), 256 * 32)
            self.assertTrue(all(map(math.isfinite, tensors["wte.weight"])))

    def record(self, number):
        """A round's line of metrics.jsonl, once it is there: rounds go on, and the file grows."""
        file = self.root / "runs/test/metrics.jsonl"
        while True:
            for line in file.read_text(encoding="utf-8").splitlines(keepends=True):
                if line.endswith("\n") and json.loads(line)["round"] == number:
                    return json.loads(line)
            self.assertEqual(self.children[0].process.poll(), None)

    def test_logs_are_those_of_all_processes_by_time(self):
        self.assertEqual(self.up().status, 0)
        lines = longwave("logs", "test", cwd=self.root).stdout.splitlines()
        times = [line[:23] for line in lines if re.match(r"\d{4}-\d\d-\d\d ", line)]
        self.assertEqual(times, sorted(times))
        for process in ("coordinator", "shard-0", "shard-1", "worker-0", "worker-1"):
            self.assertTrue(any(f" {process} info " in line for line in lines), process)
        one = longwave("logs", self.root / "runs/test", "worker-1").stdout
        self.assertIn("round 3/3 ", one)
        self.assertNotIn(" worker-0 ", one)
        wrong = longwave("logs", self.root / "runs/test", "worker-7", wanted=1)
        self.assertIn("wanted one of coordinator, shard-0, shard-1, worker-0, worker-1", wrong.stderr)

    def test_logs_are_followed(self):
        up, _ = self.start_long()
        logs = self.start("longwave", "logs", self.root / "runs/test", "worker-0", "--follow")
        logs.await_line(" round ")
        logs.await_line(" round ")
        up.process.terminate()
        logs.await_line("stopping: a signal asked for it")
        logs.process.terminate()
        self.assertEqual(logs.finish()[0], 0)

    def test_config_is_checked_and_printed(self):
        config = self.write_config()
        good = longwave("config", "check", config)
        self.assertEqual(good.stderr, "")
        self.assertIn("good: preset longwave, 24 steps in 3 rounds", good.stdout)
        printed = longwave("config", "print", config, "--set", "run.seed=7")
        whole = self.root / "whole.yaml"
        whole.write_text(printed.stdout, encoding="utf-8")
        self.assertEqual(longwave("config", "print", whole).stdout, printed.stdout)
        self.assertIn("  seed: 7\n", printed.stdout)
        for arguments, wanted in (
                ([config, "--set", "train.lr=1"], "did you mean train.learning_rate?"),
                ([self.root / "none.yaml"], "No such file"),
                ([config, "--set", "data.path=/nowhere"], "/nowhere"),
                ([config, "--set", "run.shards=4000"], "shards")):
            bad = longwave("config", "check", *arguments, wanted=1)
            self.assertTrue(bad.stderr.startswith("longwave config check: "), bad.stderr)
            self.assertIn(wanted, bad.stderr)

    def test_a_configuration_for_other_machines_is_checked_without_their_data(self):
        config = ROOT / "configs/two-boxes.yaml"
        bad = longwave("config", "check", config, wanted=1)
        self.assertIn("/srv/text does not exist", bad.stderr)
        self.assertIn("--elsewhere", bad.stderr)
        good = longwave("config", "check", config, "--elsewhere")
        self.assertIn("667 rounds; not looked at: the data, /srv/text", good.stdout)
        bad = longwave("config", "check", config, "--elsewhere", "--set", "run.shards=4000", "--set", "model.d_model=32",
                       "--set", "model.layers=1", wanted=1)
        self.assertIn("shards", bad.stderr)

    def test_data_are_shown_as_up_would_read_them(self):
        tokens = self.root / "tokens"
        tokens.mkdir()
        (tokens / "train.bin").write_bytes(struct.pack("<5000H", *range(5000)))
        (tokens / "val.bin").write_bytes(struct.pack("<500H", *range(100, 600)))
        (tokens / "meta.pkl").write_bytes(b"x")
        (tokens / ".DS_Store").write_bytes(b"x")
        wanted = (f"data      tokens, 1 file, 5000 tokens to train on, the largest 4999\n"
                  f"held out  500 tokens of 1 file, {tokens}/val.bin\n"
                  f"left out  {tokens}/.DS_Store: a hidden name\n"
                  f"left out  {tokens}/meta.pkl: not named *.bin\n")
        self.assertEqual(longwave("data", tokens, "--set", "data.kind=tokens").stdout, wanted)
        done = self.up("--data", tokens, "--set", "data.kind=tokens", "--set", "model.vocabulary=5000")
        self.assertEqual(done.status, 0, done.output + done.errors)
        self.assertTrue(done.output.startswith(wanted), done.output)
        self.assertIn("the largest 4999", (done.folder / "logs/worker-0.log").read_text(encoding="utf-8"))
        bad = longwave("data", tokens, "--config", self.write_config(), "--set", "data.kind=tokens", wanted=1)
        self.assertIn("train.bin: token 256 is 256, wanted one below model.vocabulary (256)", bad.stderr)

    def test_a_shell_completes_commands_options_and_keys(self):
        script = longwave("completion", "bash")

        def complete(*words):
            done = subprocess.run(
                ["bash", "--norc", "-c", 'eval "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _longwave; '
                 'echo "${COMPREPLY[@]}"', "bash", script.stdout, "longwave", *words],
                capture_output=True, text=True, timeout=DEADLINE_S, check=False)
            return done.stdout.split()

        self.assertEqual(complete("st"), ["status", "stop"])
        self.assertEqual(complete("config", ""), ["check", "print", "schema", "--help"])
        self.assertEqual(complete("status", "127.0.0.1:1", "--js"), ["--json"])
        self.assertEqual(complete("token", "create", "--us"), ["--uses"])
        self.assertEqual(complete("up", "--set", "train.learn"), ["train.learning_rate="])
        self.assertEqual(complete("up", "configs/"), [])  # files
        help_text = longwave("--help").stdout
        for command in re.findall(r"^  ([a-z]+)  ", help_text, re.MULTILINE):
            self.assertIn(command, complete(""))


class SecuredCommands(SecuredTest):
    def start_workers(self):
        return [self.start("longwave-worker", "--coordinator", self.address, "--run-dir", self.root / name,
                           "--name", name, "--set", "security.mode=on", "--set",
                           f"security.folder={self.credentials(f'worker/{name}')}", "--set", "train.threads=1")
                for name in ("alone", "other")]

    def test_top_is_the_live_view_of_any_run(self):
        self.start_run(run__steps=2000, sync__inner_steps=4)
        workers = self.start_workers()
        top = self.start("longwave", "top", self.address, "--security", self.operator)
        self.assertIn("preset longwave", top.await_line("preset"))
        top.await_line("round ")
        for worker in workers:
            self.assertEqual(worker.finish()[0], 0)
        output, _ = self.ends(top)
        self.assertRegex(output, r"round 500/500  step 2000/2000 ")
        self.assertIn("longwave top: the run is finished", output)

    def test_weights_and_a_stop_are_an_operators(self):
        self.start_run(**LONG)
        workers = self.start_workers()
        folder = self.place / "credentials/worker/alone"
        workers[0].await_log("round ")
        out = self.root / "now.safetensors"
        for command in (["note", self.address, "a new link"], ["weights", self.address, "--out", out],
                        ["stop", self.address]):
            self.assertIn("operator", longwave(*command, "--security", folder, wanted=1).stderr)
            longwave(*command, "--security", self.operator)
        self.assertTrue(out.exists())
        for worker in workers:
            self.ends(worker)
        self.assertEqual([(self.root / name / "model.safetensors").exists() for name in ("alone", "other")].count(True), 1)


if __name__ == "__main__":
    unittest.main()
