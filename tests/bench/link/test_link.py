"""`bench_link` as a person runs it: real processes in network namespaces over shaped links."""

import ctypes
import json
import os
import pathlib
import shutil
import signal
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[2] / "integration"))
from harness import DEADLINE_S, IntegrationTest, await_gone, processes_mentioning  # noqa: E402

CLONE_NEWNET = 0x40000000


def why_not_here():
    """Why links cannot be had here; empty if they can."""
    if os.geteuid() != 0:
        return "shaped links need root"
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    for program in ("ip", "tc", "nsenter"):
        if not shutil.which(program, path=path):
            return f"the program {program} is not here"
    child = os.fork()
    if child == 0:
        os._exit(0 if ctypes.CDLL(None).unshare(CLONE_NEWNET) == 0 else 1)
    _, status = os.waitpid(child, 0)
    return "" if status == 0 else "the kernel gives no network namespaces"


# A model of 1 M parameters would take minutes on a busy machine: a third of it, and few steps, but the same
# code. Payloads of small models have more overhead, hence the test of bytes has a model of its own.
SMALL = ["--quick", "--set", "model.layers=2", "--set", "train.batch=1", "--set", "sync.inner_steps=2",
         "--set", "train.warmup_steps=2", "--set", "run.validation_batches=1", "--set", "train.threads=1",
         "--set", "cluster.heartbeat_interval_s=0.1"]
# A million parameters.
MILLION = [part if part != "model.layers=2" else "model.layers=5" for part in SMALL]


class Link(IntegrationTest):
    def setUp(self):
        super().setUp()
        reason = why_not_here()
        if reason and "bad_command" not in self.id():
            self.skipTest(reason)

    def bench(self, *arguments, status=0):
        """Runs it to its end; its figures and its output."""
        figures = self.root / "figures.json"
        child = self.start("bench_link", "--data", self.text, "--runs-dir", self.root / "runs",
                           "--json", figures, *arguments)
        got, output, errors = child.finish(250)
        self.assertEqual(got, status, output + errors)
        self.assertEqual(processes_mentioning(str(self.root)), [])
        return (json.loads(figures.read_text(encoding="utf-8")) if figures.exists() else None), output, errors

    def check_bytes(self, figures, run):
        """Our own count, and the interface's without packets' headers, against the payload's formula. What a
        busy machine made TCP send twice is no part of the claim: a worker without that will do."""
        for way in ("up", "down"):
            self.assertAlmostEqual(run["sockets_over_formula"][way], 1, delta=0.03)
            formula = figures["formula"][way] * figures["parameters"] * run["rounds"]
            for worker in run["workers"]:
                self.assertGreater(worker[f"data_bytes_{way}"], worker[f"socket_bytes_{way}"])
            segments = min(worker[f"data_bytes_{way}"] - 66 * worker[f"data_packets_{way}"]
                           for worker in run["workers"])
            self.assertAlmostEqual(segments / formula, 1, delta=0.03, msg=way)

    def test_quick_run_has_its_figures(self):
        figures, output, _ = self.bench(*MILLION, "--set", "run.workers=2", "--rates", "400", "--rounds", "6",
                                        "--baselines", "ddp,diloco,torch-ddp")
        self.assertEqual(figures["parameters"], 1_032_576)
        self.assertEqual([run["mbit"] for run in figures["runs"]], [400, 0])
        for run in figures["runs"]:
            self.check_bytes(figures, run)
            self.assertEqual(run["rounds"], 6)
            self.assertTrue(run["replicas_equal"])
            self.assertEqual(len(run["curve"]), 6)
            self.assertEqual(len(run["workers"]), 2)
            for worker in run["workers"]:
                self.assertGreater(worker["compute_share"], 0)
                self.assertLess(worker["compute_share"], 1)
                self.assertGreater(worker["control_bytes_up"], 0)
                self.assertGreater(worker["data_bytes_up"], worker["payload_bytes_up"])
        # Links affect times of arrival, never results.
        self.assertEqual(figures["runs"][0]["state_hash"], figures["runs"][1]["state_hash"])
        self.assertEqual(figures["rounds_to_target"], 6)
        for run in figures["runs"]:  # validated at their ends, which is no part of the time
            self.assertEqual([point["round"] for point in run["curve"] if point["validation_loss"] is not None], [5])
            self.assertLess(run["seconds_to_target"], run["seconds_with_validation"])
        self.assertRegex(figures["commit"], r"^([0-9a-f]{12}\+?|unknown)$")
        self.assertRegex(figures["date"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
        self.assertEqual(figures["failure"], "")
        self.assertIs(figures["state_kept"], False)
        self.assertIs(figures["loss_probes"], True)
        self.assertEqual(list(self.root.glob("runs/**/state/worker-0")), [])
        ddp, diloco, torch = figures["baselines"]
        for baseline in (ddp, diloco):
            self.assertEqual([rate["mbit"] for rate in baseline["rates"]], [400])
            self.assertAlmostEqual(baseline["rates"][0]["data_bytes_up_per_unit"], 4 * 1_032_576, delta=200_000)
        self.assertIn("--torch-python", torch["not_measured"])
        self.assertIn(figures["bars"][0]["verdict"], ("met", "not met"))
        self.assertEqual(figures["bars"][-1]["verdict"], "not measured")
        self.assertRegex(output, r"(?m)^(met|not met): bytes up at the interface, MTU 9000: ")
        by_name = {bar["name"]: bar for bar in figures["bars"]}
        bar = by_name["bytes up at the interface, MTU 9000"]
        self.assertIn(f"\n{bar['verdict']}: {bar['name']}: {bar['measured']}", output)

    def test_state_reaches_the_run(self):
        # Some containers forbid changes of the kernel's settings, even in their own namespace.
        settable = os.access("/proc/sys/net/ipv4/tcp_early_retrans", os.W_OK)
        figures, _, _ = self.bench(*SMALL, "--set", "run.workers=2", "--rates", "400", "--rounds", "3",
                                   "--baselines", "none", "--state",
                                   *(["--no-loss-probes"] if settable else []),
                                   "--set", "sync.overlap=0", "--set", "sync.fragments=1")
        self.assertIs(figures["state_kept"], True)
        self.assertIs(figures["loss_probes"], not settable)
        self.assertEqual(len(list(self.root.glob("runs/**/state/worker-0"))), len(figures["runs"]))
        for run in figures["runs"]:
            self.assertTrue(run["replicas_equal"])

    def test_bytes_do_not_grow_with_the_workers(self):
        figures, _, _ = self.bench(*MILLION, "--set", "run.workers=8", "--rates", "400", "--rounds", "6",
                                   "--baselines", "none")
        for run in figures["runs"]:
            self.check_bytes(figures, run)

    def test_interrupt_leaves_nothing_behind(self):
        child = self.start("bench_link", "--data", self.text, "--runs-dir", self.root / "runs",
                           *SMALL, "--rounds", "100", "--rates", "10")
        child.await_line("Logs:")
        child.process.send_signal(signal.SIGINT)
        status, _, errors = child.finish()
        self.assertEqual(status, 128 + signal.SIGINT, errors)
        self.assertEqual(await_gone(processes_mentioning(str(self.root)), DEADLINE_S), [])

    def test_what_was_found_before_an_interrupt_is_written(self):
        figures = self.root / "figures.json"
        rates = range(400, 200, -10)  # enough for minutes: the signal comes before the last run's end
        child = self.start("bench_link", "--data", self.text, "--runs-dir", self.root / "runs",
                           "--json", figures, *SMALL, "--set", "run.workers=2", "--rounds", "2",
                           "--rates", ",".join(map(str, rates)), "--baselines", "none")
        child.await_line(" rounds in ")  # the first run has ended
        child.process.send_signal(signal.SIGINT)
        status, output, errors = child.finish()
        self.assertEqual(status, 128 + signal.SIGINT, output + errors)
        found = json.loads(figures.read_text(encoding="utf-8"))
        self.assertEqual(found["runs"][0]["mbit"], 400)
        self.assertLess(len(found["runs"]), len(rates))
        self.assertIn("interrupt", found["failure"])

    def test_bad_command_lines_are_refused(self):
        for arguments, wanted in ((["--rates", "0"], "--rates"), (["--baselines", "nonsense"], "--baselines"),
                                  (["--rounds", "0"], "--rounds"),
                                  (["--set", "sync.nonsense=1"], "sync.nonsense")):
            _, _, errors = self.bench(*arguments, status=1)
            self.assertIn(wanted, errors)
            self.assertEqual(len(errors.strip().splitlines()), 1, errors)


if __name__ == "__main__":
    unittest.main()
