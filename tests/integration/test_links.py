"""Links that stall, cut, delay, flip bits, or accept without answering, between the processes of a secured run."""

import pathlib
import socket
import sys
import time
import unittest

from by_hand import HandCluster
from harness import IntegrationTest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "chaos"))
from proxy import Proxies  # noqa: E402  pylint: disable=wrong-import-position

SETTINGS = {"run__preset": "longwave", "run__steps": 100_000_000, "sync__inner_steps": 2, "sync__quorum": 0.5,
            "cluster__grace_min_s": 0.2, "cluster__grace_max_s": 0.5, "cluster__heartbeat_timeout_s": 3,
            "security__mode": "on"}
CONTROL, DATA = "control", "data"
HARM_S = 8  # longer than the heartbeats' timeout and than a worker waits for a shard that is silent


class ProxiedCluster(HandCluster):
    """A secured one; all that goes between its processes goes through proxies."""

    def __init__(self, test, **settings):
        self.proxies = Proxies(seed=1)
        test.addCleanup(self.proxies.close)
        self.targets = {}
        super().__init__(test, **settings)

    def start(self, name, program, *arguments):
        arguments = list(arguments)
        if "--coordinator" in arguments:
            set_target, proxy = self.proxies.listen(lambda _: f"{name} {CONTROL}")
            set_target(self.address)
            arguments[arguments.index("--coordinator") + 1] = proxy
        if "--shard" in arguments:
            self.targets[name], announced = self.proxies.listen(lambda _: f"{name} {DATA}")
            arguments += ["--advertise", announced]
        super().start(name, program, *arguments)

    def await_ready(self, name):
        place = super().await_ready(name)
        if name in self.targets:
            self.targets[name](place.removeprefix("tcp://"))
        return place

    def links(self, which):
        return [name for name in list(self.proxies.links) if name.endswith(which)]


class Links(IntegrationTest):
    def check(self, which, what, seconds=HARM_S, cut=False):
        cluster = ProxiedCluster(self, workers=2, **SETTINGS)
        cluster.await_rounds(3)
        for link in cluster.links(which):
            cluster.proxies.harm(link, what, seconds)
            if cut:
                cluster.proxies.harm(link, "cut")
        end = time.monotonic() + seconds
        # Whoever is asked meanwhile answers, and nobody ends.
        cluster.await_that(lambda _: time.monotonic() > end, cluster.status, "the harm's end")
        cluster.proxies.heal()
        cluster.await_members(2)
        cluster.end_audited()

    def test_control_stalls(self):
        self.check(CONTROL, "stall")

    def test_data_stall(self):
        self.check(DATA, "stall")

    def test_control_is_delayed(self):
        self.check(CONTROL, "delay")

    def test_data_are_delayed(self):
        self.check(DATA, "delay")

    def test_control_is_accepted_and_never_answered(self):
        self.check(CONTROL, "mute", cut=True)

    def test_data_are_accepted_and_never_answered(self):
        self.check(DATA, "mute", cut=True)

    def test_control_breaks_and_flips(self):
        self.check(CONTROL, "flip", seconds=2, cut=True)

    def test_data_break_and_flip(self):
        self.check(DATA, "flip", seconds=2, cut=True)

    def test_a_program_that_joins_by_a_link_that_never_answers_says_so(self):
        proxies = Proxies(seed=1)
        self.addCleanup(proxies.close)
        set_target, address = proxies.listen(lambda _: CONTROL)
        set_target("127.0.0.1:1")
        proxies.harm(CONTROL, "mute", 600)
        config = self.write_config(cluster__start_timeout_s=2)
        for command in (["longwave", "status", address],
                        ["longwave-worker", "--config", config, "--name", "w", "--coordinator", address, "--run-dir",
                         self.root],
                        ["longwave-server", "--role=shard", "--shard", 0, "--config", config, "--coordinator", address]):
            _, errors = self.ends(self.start(*command), 1)
            self.assertIn(address, errors.strip().splitlines()[-1])

    def test_slow_readers_stop_nobody(self):
        """Strangers that connect to a metrics page or to the data port and neither say nor take anything."""
        cluster = HandCluster(self, workers=2, **{**SETTINGS, "security__mode": "off"})
        cluster.await_rounds(3)
        held = []
        self.addCleanup(lambda: [one.close() for one in held])
        cluster.children["coordinator"].await_log("metrics http://")
        page = cluster.children["coordinator"].errors.split("metrics http://")[1].split("/")[0]
        data = cluster.arguments["shard-0"][cluster.arguments["shard-0"].index("--listen") + 1].removeprefix("tcp://")
        for place in (page, data, cluster.address):
            host, port = place.rsplit(":", 1)
            for _ in range(20):
                one = socket.create_connection((host, int(port)))
                held.append(one)
                if place == page:
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
                    one.sendall(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n" * 20)  # and never read
        cluster.await_rounds(len(cluster.rounds()) + 10)
        cluster.assert_equal_replicas()
        cluster.end()


if __name__ == "__main__":
    unittest.main()
