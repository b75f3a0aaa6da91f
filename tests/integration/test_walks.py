"""The walks of docs/walks, command by command. What they are tried with: programs that are built already, a small model, and
for several machines networks of their own, in which nobody can call the workers."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import tarfile
import unittest

from harness import BIN, DEADLINE_S, Child, IntegrationTest
from pages import blocks

ROOT = pathlib.Path(__file__).parents[2]
WALKS = ROOT / "docs/walks"
SMALL = ("--set model.d_model=32 --set model.layers=1 --set model.heads=2 --set model.context=32 --set train.batch=4 "
         "--set train.warmup_steps=4 --set run.validation_batches=2 --set train.device=cpu --set sync.inner_steps=10")


class Walk(IntegrationTest):
    """A folder that looks like a checkout with its programs, and a home beside it."""

    def setUp(self):
        super().setUp()
        self.home = self.root / "home"
        self.place = self.root / "longwave"
        self.home.mkdir()
        (self.place / "build/bin").mkdir(parents=True)
        for name in ("configs", "helm"):
            (self.place / name).symlink_to(ROOT / name)
        for program in ("longwave", "longwave-server", "longwave-worker"):
            self.write_program(self.place / "build/bin" / program)
        self.environment = {**os.environ, "HOME": str(self.home), "TEXT": str(self.text), "STEPS": "60"}

    def tearDown(self):
        super().tearDown()
        for summary in self.place.glob("runs/*/summary.json"):
            self.assertEqual(json.loads(summary.read_text(encoding="utf-8"))["warnings"], [], summary)

    def write_program(self, path):
        """Shorter runs of a small model, where it is they that say so."""
        more = f"{SMALL} --set run.steps=$STEPS"
        if path.name == "longwave":
            shorter = f'case "$1 $2" in "up --resume") ;; "up "*) set -- "$@" --data $TEXT {more} ;; esac'
        else:
            shorter = f'set -- "$@" {more}' if path.name == "longwave-server" else ""
        path.write_text(f'#!/bin/sh\n{shorter}\nexec {BIN / path.name} "$@"\n', encoding="utf-8")
        path.chmod(0o755)

    def shell(self, block, prefix=(), **environment):
        """Runs a block to its end; returns its output."""
        done = subprocess.run([*map(str, prefix), "bash", "-eu"], input=block, cwd=self.place, capture_output=True, text=True,
                              env={**self.environment, **environment}, timeout=DEADLINE_S, check=False)
        self.assertEqual(done.returncode, 0, block + "\n" + done.stdout + done.stderr)
        return done.stdout

    def spawn(self, block, prefix=(), **environment):
        settings = [f"{key}={value}" for key, value in {**self.environment, **environment}.items()]
        child = Child("env", "-C", self.place, *settings, *prefix, "bash", "-euc", block)
        self.children.append(child)
        return child


class Laptop(Walk):
    def test_as_it_stands(self):
        programs, first, write, audit, second, kill, resume = blocks(WALKS / "laptop.md")
        self.assertEqual(programs, "make programs")
        self.assertIn("replicas equal", self.shell(first))
        self.assertIn("namespace std", self.shell(write))
        self.assertIn("as the run's summary has it", self.shell(audit))
        child = self.spawn("exec " + second, STEPS=4000)
        child.await_line("round ")
        self.shell(kill)
        self.assertIn("worker-1", child.await_line("is started again"))
        child.process.send_signal(signal.SIGINT)
        output, errors = self.ends(child, 130)
        self.assertIn("longwave up --resume runs/second", output + errors)
        self.assertIn("replicas equal", self.shell(resume))


@unittest.skipUnless(os.geteuid() == 0, "networks of a test's own take root")
class Machines(Walk):
    open_boxes = False

    def network(self, setup):
        """Returns how to run something in a new network, and the process that holds it."""
        holder = Child("unshare", "--net", "sh", "-c", f"ip link set lo up && {setup} && echo up && exec sleep infinity")
        self.children.append(holder)
        if holder.process.stdout.readline() != "up\n":
            self.skipTest(f"no network namespace can be made here: {holder.finish()[2].strip()}")
        return ["nsenter", f"--net=/proc/{holder.process.pid}/ns/net"], holder.process.pid

    def box(self, small, number):
        """A machine that reaches 10.0.0.5, and that nobody reaches; how to run something there."""
        box, pid = self.network("true")
        address = f"10.1.0.{number}"
        for command in ([*small, "ip", "link", "add", f"box{number}", "type", "veth", "peer", "name", "out", "netns", str(pid)],
                        [*small, "ip", "link", "set", f"box{number}", "up"],
                        [*box, "ip", "address", "add", f"{address}/32", "dev", "out"],
                        [*box, "ip", "link", "set", "out", "up"],
                        [*box, "ip", "route", "add", "10.0.0.5/32", "dev", "out"],
                        [*small, "ip", "route", "add", f"{address}/32", "dev", f"box{number}"]):
            subprocess.run(command, check=True)
        firewall = [*box, "iptables", "-A", "INPUT", "!", "-i", "lo", "-m", "state", "--state", "NEW", "-j", "DROP"]
        if subprocess.run(firewall, check=False).returncode:
            self.open_boxes = True  # a kernel without the rules
        # Root's workers keep their state in /var/lib.
        own = f'mount -t tmpfs none /var/lib && hostname box-{number} && exec "$@"'
        return [*box, "unshare", "--uts", "--mount", "sh", "-c", own, "sh"]

    def coordinate(self):
        """The small machine's part of two-boxes.md; returns how to run something there, and the page's other blocks."""
        small, _ = self.network("ip address add 10.0.0.5/32 dev lo")
        config, coordinate, serve, *others = blocks(WALKS / "two-boxes.md")
        self.shell(config)
        self.coordinator = self.spawn(coordinate, small)
        self.coordinator.await_line("ready ")
        self.spawn(serve, small).await_line("ready ")
        return small, others

    def assert_finished(self, small, status):
        said = self.shell(status, small)
        self.assertIn("finished", said)
        self.assertIn("replicas  equal", said)
        self.assertNotIn("warning", said)
        if self.open_boxes:
            self.skipTest("iptables forbids no calls to the boxes here: all but that was tested")

    def test_two_boxes(self):
        small, (token, join, status) = self.coordinate()
        workers = []
        for number in (2, 3):
            one = self.shell(token, small).strip().splitlines()[-1]
            home = self.root / f"home-{number}"
            home.mkdir()
            workers.append(self.spawn(join, self.box(small, number), TOKEN=one, HOME=home))
        for worker in workers:
            self.ends(worker)
        self.assert_finished(small, status)

    def test_slurm(self):
        """With stand-ins: `sbatch` runs the script at once, `srun` each of its tasks."""
        small, others = self.coordinate()
        token, unpack, bring_torch, submit = blocks(WALKS / "slurm.md")
        archive = self.root / "archive/longwave-worker-0"
        (archive / "bin").mkdir(parents=True)
        for program in ("longwave", "longwave-worker"):
            self.write_program(archive / "bin" / program)
        shutil.copytree(ROOT / "configs/cloud", archive / "share")
        # As an archive for GPUs has it. PyTorch itself is gigabytes: an empty folder stands for it.
        (archive / "README.md").write_text("## LibTorch\n", encoding="utf-8")
        self.assertIn("pip install torch==2.11.0", bring_torch)
        (self.place / "build/dist").mkdir()
        with tarfile.open(self.place / "build/dist/longwave-worker-0.tar.gz", "w:gz") as tar:
            tar.add(archive, archive.name)
        tools = self.root / "tools"
        tools.mkdir()
        for name, lines in {"sbatch": '[ "$1" = --ntasks ] && SLURM_NTASKS=$2 exec bash "$3"',
                            "srun": 'shift; for task in $(seq 0 $((SLURM_NTASKS - 1))); do SLURM_PROCID=$task "$@" & done; wait',
                            }.items():
            (tools / name).write_text(f"#!/bin/bash\n{lines}\n", encoding="utf-8")
            (tools / name).chmod(0o755)
        self.shell(token, small)
        self.shell(unpack)
        (self.root / "home/torch/lib/python3.11/site-packages/torch/lib").mkdir(parents=True)
        self.shell("\n".join(line for line in bring_torch.splitlines() if line.startswith("ln ")))
        self.ends(self.spawn(submit, self.box(small, 2), PATH=f"{tools}:{os.environ['PATH']}"))
        self.assert_finished(small, others[-1])


class Kubernetes(Walk):
    def test_the_commands_are_what_chart_and_kubectl_take(self):
        """tests/kube/run.sh has a real cluster; here nothing but the flags and values is tried."""
        kube = pathlib.Path(os.environ.get("KUBE_BIN", pathlib.Path.home() / ".cache/kube-from-source/bin"))
        helm = next((path for path in (ROOT / ".tools/bin/helm", kube / "helm") if path.exists()), shutil.which("helm"))
        if helm is None or not shutil.which("kubectl"):
            self.skipTest("helm or kubectl is not here (tools/helm.sh brings helm)")
        (self.place / "my_text.txt").write_text("text", encoding="utf-8")
        tools = self.root / "tools"
        tools.mkdir()
        # Neither has a cluster: the chart is rendered, and kubectl looks at its arguments alone.
        (tools / "helm").write_text(
            f'#!/bin/bash\nv=$1; shift\ncase $v in install|upgrade) set -- "${{@/--reuse-values/}}"; args=(); '
            f'for a; do [ -z "$a" ] || args+=("$a"); done; exec {helm} template --kube-version 1.31 "${{args[@]}}" ;; '
            f'*) {helm} "$v" --help | grep -q -- "$v" ;; esac\n', encoding="utf-8")
        (tools / "kubectl").write_text(
            f'#!/bin/bash\ncase " $* " in *" create "*) exec {shutil.which("kubectl")} "$@" --dry-run=client -o name ;; esac\n',
            encoding="utf-8")
        for tool in tools.iterdir():
            tool.chmod(0o755)
        for block in blocks(WALKS / "kubernetes.md"):
            with self.subTest(block):
                more = " --set images.registry=x --set workers.data.configMap=text" if "upgrade" in block else ""
                self.shell(block + more, PATH=f"{tools}:{os.environ['PATH']}")


class Picture(unittest.TestCase):
    def test_is_what_the_benchmarks_say(self):
        subprocess.run([ROOT / "docs/pictures/draw_loss.py", "--check"], check=True)


if __name__ == "__main__":
    unittest.main()
