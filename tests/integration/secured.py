"""A secured run of real processes on this machine: its coordinator's own authority, credentials made by hand, tokens."""

import os
import subprocess

from harness import BIN, DEADLINE_S, TINY, IntegrationTest


def certify(state, name):
    """Credentials in the state folder of a process that is called shard-0 or worker-0, by the coordinator's authority."""
    kind, _, place = name.partition("-")
    subprocess.run([BIN / "longwave", "certificate", "make", "--authority", state / "coordinator/security", "--folder",
                    state / name / "security", "--role", f"shard/{place}" if kind == "shard" else f"worker/{name}", "--ip",
                    "127.0.0.1"], check=True, stdout=subprocess.DEVNULL)


class SecuredTest(IntegrationTest):
    def start_run(self, name="run", **settings):
        """Coordinator and shards; everything else here is of the run that was started last."""
        self.place = self.root / name
        self.place.mkdir()
        self.config = self.write_config(f"{name}.yaml", security__mode="on", cluster__start_timeout_s=DEADLINE_S,
                                        **settings)
        self.state = self.place / "state"
        self.coordinator = self.start(
            "longwave-server", "--role=coordinator", "--config", self.config, "--listen",
            "127.0.0.1:0", "--state-dir", self.state / "coordinator", "--run-dir", self.place)
        self.address = self.coordinator.await_line("ready ").split()[1]
        self.operator = self.state / "coordinator" / "security" / "operator"
        for shard in range(settings.get("run__shards", TINY["run.shards"])):
            self.start("longwave-server", "--role=shard", "--shard", shard, "--config", self.config,
                       "--coordinator", self.address, "--state-dir", self.state / f"shard-{shard}",
                       "--set", f"security.folder={self.credentials(f'shard/{shard}')}"
                       ).await_line("ready ")

    def run_longwave(self, *arguments, **environment):
        """Runs it to its end; returns exit status, output and errors."""
        done = subprocess.run([str(BIN / "longwave"), *map(str, arguments)], capture_output=True,
                              text=True, timeout=DEADLINE_S, stdin=subprocess.DEVNULL,
                              env={**os.environ, **environment})
        return done.returncode, done.stdout, done.stderr

    def credentials(self, role):
        """A folder of credentials by the coordinator's own authority, as an operator makes them."""
        folder = self.place / "credentials" / role
        status, _, errors = self.run_longwave(
            "certificate", "make", "--authority", self.state / "coordinator" / "security",
            "--folder", folder, "--role", role, "--ip", "127.0.0.1")
        self.assertEqual(status, 0, errors)
        return folder

    def token(self, *arguments):
        status, output, errors = self.run_longwave("token", "create", self.address, "--security",
                                                   self.operator, *arguments)
        self.assertEqual(status, 0, errors)
        return output.strip()
