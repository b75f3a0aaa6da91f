"""Bad input: each ends in one clear sentence, exit status 1, and leaves no process behind."""

import pathlib
import re
import socket
import unittest

from harness import IntegrationTest


class BadInput(IntegrationTest):
    def test_unknown_key(self):
        done = self.up("--set", "sync.up.kk=3")
        self.assert_fails(done, "sync.up.kk")
        self.assertFalse(done.folder.exists())

    def test_unknown_key_in_the_file(self):
        self.assert_fails(self.up(run__wrokers=3), "run.yaml", "wrokers")

    def test_value_out_of_range(self):
        self.assert_fails(self.up(train__learning_rate=1e30), "run.yaml", "train.learning_rate",
                          "wanted")

    def test_missing_configuration(self):
        child = self.start("longwave", "up", self.root / "nowhere.yaml")
        _, errors = self.ends(child, 1)
        self.assertIn("nowhere.yaml", errors)

    def test_missing_data_file(self):
        missing = self.root / "no-such-text"
        self.assert_fails(self.up("--data", missing), str(missing), "wanted")

    def test_text_too_short(self):
        self.text.write_text("short", encoding="utf-8")
        done = self.up()
        self.assert_fails(done, "text.txt", "wanted at least")
        self.assertFalse(done.folder.exists(), "a second try may have the same name")

    def test_data_that_is_no_text(self):
        self.assert_fails(self.up("--data", "/dev/null"), "/dev/null is not a file or folder")
        self.assert_fails(self.up("--data", ""), "--data: got an empty path")

    def test_more_shards_than_tiles(self):
        done = self.up(run__shards=1000)
        self.assert_fails(done, "1000")
        self.assertFalse(done.folder.exists())

    def test_wrong_command_line(self):
        for program, prefix, *arguments, part in (
                ("longwave", "longwave: ", "subcommand"),
                ("longwave", "longwave: ", "up", "x.yaml", "--name", "--name"),
                ("longwave", "longwave: ", "--bogus", "unknown option --bogus"),
                ("longwave", "longwave: ", "up", "x.yaml", "--bogus", "unknown option --bogus"),
                ("longwave", "longwave: ", "status", "--bogus", "unknown option --bogus"),
                ("longwave", "longwave: ", "token", "create", "--bogus", "unknown option --bogus"),
                ("longwave", "longwave: ", "frobnicate", "unknown command frobnicate"),
                ("longwave-server", "error: ", "--bogus", "unknown option --bogus"),
                ("longwave-server", "error: ", "--role=shard", "--bogus", "unknown option --bogus"),
                ("longwave-server", "error: ", "--role=shard", "--config", "x", "--run-dir", "y",
                 "--run-dir is an option of --role=coordinator alone"),
                ("longwave-server", "error: ", "--role=coordinator", "--config", "x", "--shard", "0",
                 "--shard is an option of --role=shard alone"),
                ("longwave-worker", "error: longwave-worker: ", "--bogus", "unknown option --bogus"),
                ("longwave-worker", "error: longwave-worker: ", "--name", "w", "--config is required")):
            _, errors = self.ends(self.start(program, *arguments), 1)
            self.assertTrue(errors.startswith(prefix), errors)
            self.assertEqual(errors.count("\n"), 1, errors)
            self.assertIn(part, errors)

    def test_nothing_where_a_path_is_wanted(self):
        for option, *arguments in (("--resume", "up", "--worker-command", "true", "--resume", ""),
                                   ("--runs-dir", "up", "x.yaml", "--runs-dir", ""),
                                   ("--out", "weights", "127.0.0.1:1", "--out", ""),
                                   ("--folder", "certificate", "make", "--folder", ""),
                                   ("folder", "certificate", "show", ""),
                                   ("run", "logs", ""), ("run", "replay", ""), ("run", "generate", "")):
            status, _, errors = self.start("longwave", *arguments).finish()
            self.assertEqual((status, errors), (1, f"longwave: {option}: got nothing, wanted a value (--help lists "
                                                   "the options)\n"))

    def test_every_program_has_its_version(self):
        project = (pathlib.Path(__file__).parents[2] / "CMakeLists.txt").read_text(encoding="utf-8")
        version = re.search(r"VERSION ([\d.]+) LANGUAGES", project).group(1)
        for program in ("longwave", "longwave-server", "longwave-worker"):
            status, output, errors = self.start(program, "--version").finish()
            self.assertEqual((status, output, errors), (0, f"{program} {version}\n", ""))

    def test_set_without_a_key(self):
        self.assert_fails(self.up("--set", "=3"), "no key before the =; wanted key=value")

    def test_status_of_nobody(self):
        status, _, errors = self.start("longwave", "status", "bogus").finish()
        self.assertEqual((status, errors), (1, "longwave status: got bogus, wanted host:port, or the folder or name of a run of `longwave up`\n"))
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            address = f"127.0.0.1:{closed.getsockname()[1]}"
            status, _, errors = self.start("longwave", "status", address).finish()
        self.assertEqual(status, 1)
        self.assertIn(address, errors)

    def test_folder_in_use(self):
        folder = self.root / "runs" / "test"
        folder.mkdir(parents=True)
        (folder / "precious").write_text("data", encoding="utf-8")
        self.assert_fails(self.up(), str(folder), "has something in it")
        self.assertEqual([entry.name for entry in folder.iterdir()], ["precious"])

    def test_port_in_use(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            self.assert_fails(self.up(cluster__coordinator=address), "coordinator", address)

    def test_model_too_large_for_memory(self):
        done = self.up("--no-state", run__workers=1, run__shards=1, model__d_model=16384, model__layers=24,
                       model__heads=16)
        self.assert_fails(done, "worker-0", "memory")
        self.assertIn("worker-0", done.summary["failure"])

    def test_model_too_large_for_the_disk(self):
        done = self.up(run__workers=100, run__shards=1, model__d_model=16384, model__layers=256, model__heads=16)
        self.assert_fails(done, "this machine's disk: ", "two checkpoints take ", "--runs-dir")
        self.assertFalse(done.folder.exists())

    def test_a_gpu_where_there_is_none(self):
        # The worker's first sentence is its last: no coordinator is there, and the worker does not look for one.
        config = self.write_config(cluster__coordinator="127.0.0.1:1")
        worker = self.start("longwave-worker", "--config", config, "--name", "lonely", "--run-dir",
                            self.root, "--device", "cuda")
        status, _, errors = worker.finish()
        if "127.0.0.1:1 did not answer" in errors:
            self.skipTest("this machine has a GPU")
        self.assertEqual(status, 1, errors)
        self.assertEqual(errors.count("\n"), 1, errors)
        self.assertTrue(
            errors.startswith("error: lonely: train.device is cuda, got no GPU to compute on: "),
            errors)
        self.assertIn("; wanted ", errors)

    def test_a_run_on_gpus_where_there_are_none(self):
        done = self.up(train__device="cuda")
        if done.status == 0:
            self.skipTest("this machine has a GPU")
        self.assert_fails(done, "worker-", "train.device is cuda, got no GPU to compute on")

    def test_auto_without_a_gpu_says_why_it_computes_on_the_cpu(self):
        done = self.up(train__device="auto")
        self.assertEqual(done.status, 0, done.errors)
        log = (done.folder / "logs" / "worker-0.log").read_text(encoding="utf-8")
        if "backend cuda" in log:
            self.skipTest("this machine has a GPU")
        self.assertIn("train.device auto: computing on the CPU: ", log)
        self.assertIn("backend cpu", log)

    def test_loss_that_is_not_finite(self):
        # Each step multiplies every weight by 1 - 10 x 10, beyond fp32 after about twenty steps.
        done = self.up(run__preset="diloco", run__steps=60, sync__inner_steps=60,
                       train__learning_rate=10, train__weight_decay=10, train__warmup_steps=0,
                       train__final_learning_rate_share=1)
        self.assert_fails(done, "worker-", "finite")
        summary = done.summary
        self.assertEqual(summary["outcome"], "failed")
        self.assertIn(summary["failure"], done.sentence)
        # The weights learnt before are there.
        self.assertEqual(summary["model_file"], str(done.folder / "model.safetensors"))
        self.assertTrue((done.folder / "model.safetensors").exists())


class Refused(IntegrationTest):
    """Workers that a coordinator does not take, in a cluster put together by hand."""

    def setUp(self):
        super().setUp()
        self.config = self.write_config(run__shards=1)
        _, self.address = self.start_coordinator(self.config, "--run-dir", self.root)

    def start_worker(self, name, *arguments):
        return self.start("longwave-worker", "--config", self.config, "--name", name,
                          "--coordinator", self.address, "--run-dir", self.root, "--threads", 1,
                          *arguments)

    def assert_refused(self, worker, *parts):
        last = self.closing_sentence(worker)
        for part in parts:
            self.assertIn(part, last)

    def test_second_worker_with_the_same_name(self):
        self.start_worker("twin").await_line("ready ")
        self.assert_refused(self.start_worker("twin"), "twin")

    def test_configuration_that_differs(self):
        self.assert_refused(self.start_worker("other", "--set", "model.d_model=64"),
                            "other: model.d_model: got 64, wanted 32")
        shard = self.start("longwave-server", "--role=shard", "--shard", 0, "--config", self.config,
                           "--coordinator", self.address, "--set", "sync.rho=0.5")
        self.assert_refused(shard, "shard 0: sync.rho: got 0.5, wanted ")


if __name__ == "__main__":
    unittest.main()
