"""The commands of docs/how-to/python.md and docs/tutorials/tune.md, as they stand there. What they are tried with: an environment that has its packages already,
shorter runs, and for two machines a network of one's own."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import unittest

from harness import Child
from pages import blocks
from workers import ROOT, WorkersTest

DOCS = ROOT / "docs/how-to/python.md"
FROM_DDP = ROOT / "docs/tutorials/from-ddp.md"
TUNE = ROOT / "docs/tutorials/tune.md"
TWO_BOXES = ROOT / "docs/tutorials/two-boxes.md"
STEPS = "30"  # replaces the text's number: one round


class Docs(WorkersTest):
    def setUp(self):
        super().setUp()
        self.home = self.root / "home"
        self.home.mkdir()
        self.place = self.root / "longwave"
        self.place.mkdir()
        for name in ("python", "configs", "tools"):
            (self.place / name).symlink_to(ROOT / name)
        shutil.copy(self.text, self.home / "text.txt")
        caches = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache"))
        self.environment = {**os.environ, "HOME": str(self.home), "CCACHE_DIR": os.environ.get(
            "CCACHE_DIR", str(caches / "ccache")), "TEXT": str(self.home / "text.txt"), "OMP_NUM_THREADS": "1"}

    def shorter(self, block, number, shorter):
        self.assertEqual(block.count(number), 1, block)
        return block.replace(number, shorter)

    def shell(self, block, prefix=(), wanted=0, **environment):
        """Runs a block; returns its standard output."""
        done = subprocess.run([*prefix, "bash", "-euc", block], cwd=self.place, capture_output=True, text=True,
                              env={**self.environment, **environment}, check=False)
        self.assertEqual(done.returncode, wanted, block + "\n" + done.stdout + done.stderr)
        return done.stdout

    def make_environment(self, make, install):
        self.assertEqual((make, install.split()[:4]),
                         ("python3 -m venv env", ["env/bin/pip", "install", "-v", "./python"]))
        self.shell(make)
        # The packages of this test's own environment, so that they are not fetched again.
        site = self.shell("env/bin/python -c 'import sysconfig; print(sysconfig.get_path(\"purelib\"))'").strip()
        seen = [path for path in sys.path if path.endswith("site-packages")]
        (self.place / site / "packages.pth").write_text("\n".join(seen[1:]) + "\n", encoding="utf-8")
        self.shell(install)

    def test_from_pip_install_to_two_workers_that_train_gpt2(self):
        setup, environment, run, audit = blocks(DOCS, "Two workers on this machine")
        self.assertEqual(setup, "tools/setup.sh")
        self.make_environment(*environment.splitlines())
        said = self.shell(self.shorter(run, "run.steps=600", f"run.steps={STEPS} --set train.warmup_steps=1"))
        self.assertIn("longwave up: finished: " + STEPS + " steps", said)
        for worker in range(2):
            log = (self.place / f"runs/gpt2/logs/worker-{worker}.log").read_text(encoding="utf-8")
            losses = self.losses(log)
            self.assertLess(losses[-1], losses[0] - 1, log)
        self.assertIn("as the run's summary has it", self.shell(audit))

    def test_a_loss_is_noted_before_the_step_that_it_belongs_to(self):
        programs = [DOCS, ROOT / "docs/how-to/notebooks.md", ROOT / "python/longwave/__init__.py",
                    *(ROOT / "python/examples").glob("[gint]*.py")]
        self.assertEqual(len(programs), 7)
        for program in programs:
            with self.subTest(program.name):
                text = program.read_text(encoding="utf-8")
                self.assertLess(text.index("sync.note(loss"), text.index("optimizer.step()", text.index("backward()")))

    def test_a_loop_of_ddp_and_what_it_becomes(self):
        before, after, run = blocks(FROM_DDP)
        python = pathlib.Path(sys.executable)
        (self.place / "env").symlink_to(python.parents[1])
        for name, program in (("ddp.py", before), ("train.py", after)):
            (self.place / name).write_text(program + "\n", encoding="utf-8")
        said = self.shell("env/bin/python -m torch.distributed.run --standalone --nproc-per-node 2 ddp.py")
        # A worker that comes late has to find the run still under way, also on a busy machine.
        self.assertIn("longwave up: finished: 2000 steps", self.shell(self.shorter(run, "run.steps=200", "run.steps=2000")))
        said += "".join((self.place / f"runs/mine/logs/worker-{i}.log").read_text(encoding="utf-8") for i in range(2))
        # torchrun's two processes share a line now and then.
        losses = [float(loss) for loss in re.findall(r"loss (\d\.\d{4})", said)]
        self.assertEqual(len(losses), 4, said)
        for loss in losses:
            self.assertLess(loss, 2, said)

    def test_two_machines(self):
        config, train = blocks(DOCS, "Two machines")
        self.train_on_two_machines(config, f"steps: {STEPS}", train)

    def train_on_two_machines(self, config, steps, train, **environment):
        network = self.own_network("10.0.0.5")
        machine = [*network, "unshare", "--uts", "sh", "-c", 'hostname "$0" && exec "$@"']
        coordinate, serve, token = (block.replace("build/bin/", "env/bin/") for block in blocks(TWO_BOXES)[1:4])
        config = re.sub(r"steps: \d+, start: member}", f"{steps}, start: member}}\ntrain: {{warmup_steps: 1}}", config)
        self.assertIn(steps, config)
        self.shell(config)
        if not (self.place / "env").exists():
            (self.place / "env").symlink_to(pathlib.Path(sys.executable).parents[1])
        self.spawn(network, coordinate).await_line("ready ")
        self.spawn(network, serve).await_line("ready ")
        workers = []
        for name in ("rotterdam", "singapore"):
            own = self.shell(token, network).strip().splitlines()[-1]
            home = self.root / name
            home.mkdir()
            workers.append(self.spawn([*machine, name], train, TOKEN=own, HOME=str(home), **environment))
        for worker in workers:
            status, output, errors = worker.finish()
            self.assertEqual(status, 0, output + errors)
            self.assertTrue(self.losses(output), output + errors)
        self.assertIn("each in exactly one merge",
                      self.assert_replays(self.place / "runs/mine", "--config", self.place / "my.yaml"))

    def test_an_adapter_is_tuned_on_this_machine_and_on_two(self):
        try:
            from tiny_llama import save_chats, save_tiny_llama
        except ImportError as error:
            self.skipTest(f"no transformers: {error}")
        setup, make, install = blocks(TUNE)[0].splitlines()
        self.assertEqual([setup, make], [block.splitlines()[0] for block in blocks(DOCS, "Two workers on this machine")[:2]])
        self.assertEqual(install, "env/bin/pip install -v ./python torch transformers peft")
        (self.place / "env").symlink_to(pathlib.Path(sys.executable).parents[1])
        model, rows = save_tiny_llama(self.root / "model"), save_chats(self.root / "rows.jsonl")
        environment = {"MODEL": str(model), "ROWS": str(rows)}
        run, use = blocks(TUNE, "On this machine")
        short = f"run.steps={STEPS} --set train.warmup_steps=1"
        said = self.shell(self.shorter(run.replace("lora_hf.py", "lora_hf.py --context 64"), "run.steps=300", short), **environment)
        self.assertIn("replicas equal, frozen parameters and tokenizer too", said)
        self.assertTrue(self.shell(use, **environment).startswith("<s>user\nHello</s>"))
        shutil.rmtree(self.place / "adapter")
        config, train = blocks(TUNE, "On two machines")
        # A round of so small a model may be over before the worker that came first hears that the run has begun.
        self.train_on_two_machines(config, "steps: 90", train.replace("lora_hf.py", "lora_hf.py --context 64"), **environment)
        self.assertTrue((self.place / "adapter/adapter_model.safetensors").exists())

    def spawn(self, prefix, block, **environment):
        settings = [f"{key}={value}" for key, value in {**self.environment, **environment}.items()]
        child = Child("env", "-i", "-C", self.place, *settings, *prefix, "bash", "-euc", block)
        self.children.append(child)
        return child

    def own_network(self, address):
        """Where that address is this machine's: how to run something there."""
        holder = Child("unshare", "--net", "sh", "-c",
                       f"ip link set lo up && ip address add {address}/32 dev lo && echo up && exec sleep infinity")
        self.children.append(holder)
        if holder.process.stdout.readline() != "up\n":
            self.skipTest(f"no network namespace can be made here: {holder.finish()[2].strip()}")
        return ["nsenter", f"--net=/proc/{holder.process.pid}/ns/net"]


if __name__ == "__main__":
    unittest.main()
