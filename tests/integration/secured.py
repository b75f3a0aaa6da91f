"""A secured run of real processes on this machine: its coordinator's own authority, credentials made by hand, tokens."""

from harness import DEADLINE_S, TINY, IntegrationTest, longwave


def make_certificate(state, folder, role):
    """By the authority of the coordinator whose state is in that folder."""
    longwave("certificate", "make", "--authority", state / "coordinator/security", "--folder", folder, "--role", role,
             "--ip", "127.0.0.1")


def certify(state, name):
    """Credentials in the state folder of a process that is called shard-0 or worker-0."""
    kind, _, place = name.partition("-")
    make_certificate(state, state / name / "security", f"shard/{place}" if kind == "shard" else f"worker/{name}")


class SecuredTest(IntegrationTest):
    def start_run(self, name="run", **settings):
        """Coordinator and shards; everything else here is of the run that was started last."""
        self.place = self.root / name
        self.place.mkdir()
        self.config = self.write_config(f"{name}.yaml", security__mode="on", cluster__start_timeout_s=DEADLINE_S,
                                        **settings)
        self.state = self.place / "state"
        _, self.address = self.start_coordinator(self.config, "--state-dir", self.state / "coordinator", "--run-dir",
                                                 self.place)
        self.operator = self.state / "coordinator" / "security" / "operator"
        for shard in range(settings.get("run__shards", TINY["run.shards"])):
            self.start("longwave-server", "--role=shard", "--shard", shard, "--config", self.config,
                       "--coordinator", self.address, "--state-dir", self.state / f"shard-{shard}",
                       "--set", f"security.folder={self.credentials(f'shard/{shard}')}"
                       ).await_line("ready ")

    def credentials(self, role):
        """A folder of credentials by the coordinator's own authority, as an operator makes them."""
        folder = self.place / "credentials" / role
        make_certificate(self.state, folder, role)
        return folder

    def token(self, *arguments):
        return longwave("token", "create", self.address, "--security", self.operator, *arguments).stdout.strip()
