"""Every query of every dashboard, asked of a real Prometheus that scrapes pages of metrics: those of a real
training, and those of a run that has everything (tests/dashboards/synthetic.py)."""

import math
import os
import signal
import sys
import time
import unittest

import metric_table
import metrics
import synthetic

sys.path.insert(0, str(metric_table.ROOT / "tests/integration"))
import harness  # noqa: E402

# A training is watched for as long as this at most.
harness.DEADLINE_S = 240
# Queries without data in the training below, which Prometheus must still accept.
NOT_HERE = {
    "workers: GPU memory (A)": "the training is on the CPU",
    "workers: GPU memory free (A)": "the training is on the CPU",
    "workers: Meetings of ranks (A)": "no worker has several ranks",
    "workers: Model FLOPs utilisation (A)": "nobody has said what the CPU can do",
}
# Number of scrapes that a query of rates over ten of them needs.
SCRAPES = 12


def without_data(prometheus, run, start, end, namespace=""):
    """Which queries return no finite value in that time, by dashboard and panel."""
    empty = set()
    for name, board in metrics.boards().items():
        for whose, expr, _ in metrics.queries(board):
            found = prometheus.over(metrics.chosen(expr, run, namespace=namespace), start, end, 1)
            if not any(math.isfinite(value) for _, _, values in found for value in values):
                empty.add(whose if whose.startswith("annotation") else f"{name}: {whose}")
        for variable, series, label in metrics.variables(board):
            if not prometheus.now(f"count by ({label}) ({metrics.chosen(series, run, namespace=namespace)})"):
                empty.add(f"{name}: variable {variable}")
    return empty


def rules_state(prometheus):
    """Which rules Prometheus could not evaluate, with its sentences, and which alerts fire."""
    rules = [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]
    broken = {rule["name"]: rule.get("lastError", rule["health"]) for rule in rules
              if rule["health"] != "ok"}
    return broken, {rule["name"] for rule in rules if rule.get("state") == "firing"}


def has_run(prometheus, run, pages):
    """Whether so many pages were scraped often enough."""
    counts = prometheus.now(f'count_over_time(longwave_scrapes_total{{run="{run}"}}[1h])')
    return len(counts) == pages and min(count for _, count in counts) >= SCRAPES


@unittest.skipIf(metrics.missing_program() is not None, str(metrics.missing_program()))
class Queries(harness.IntegrationTest):
    def test_each_returns_data_where_every_series_is(self):
        targets = self.root / "targets.json"
        pages = synthetic.Synthetic(metric_table.read(), targets)
        self.addCleanup(pages.close)
        with metrics.Prometheus(self.root / "prometheus", targets, rules=metrics.RULES) as prometheus:
            metrics.wait_for(lambda: has_run(prometheus, synthetic.RUN, 10), "scrapes")
            now = time.time()
            # No process restarts here, and no worker joins for the first time.
            for namespace in synthetic.NAMESPACES:
                self.assertEqual(without_data(prometheus, synthetic.RUN, now - 10, now, namespace),
                                 {"annotation Crashes"})
            # The panel shows one of the two runs, not a sum over both, which would be twice as large.
            for name, board in metrics.boards().items():
                for whose, expr, _ in metrics.queries(board):
                    asked = metrics.chosen(expr, synthetic.RUN, namespace="one")
                    found = {labels["namespace"] for labels, _ in prometheus.now(asked, now) if "namespace" in labels}
                    self.assertLessEqual(found, {"one"} if name != "fleet" else {"one", "two"}, f"{name}: {whose}")
            broken, firing = rules_state(prometheus)
            self.assertEqual(broken, {})
            # Pages on which everything grows are of a run in which much is wrong.
            self.assertIn("LongwavePushesRefused", firing)
            # The runs' pages are not scraped at one moment: an alert may come for one of them first.
            for rule in (f'ALERTS{{alertname="{name}"}}' for name in firing):
                def both_have_it(rule=rule):
                    by_run = dict.fromkeys(synthetic.NAMESPACES, 0)
                    for labels, _ in prometheus.now(rule):
                        by_run[labels["namespace"]] += 1
                    return len(set(by_run.values())) == 1
                metrics.wait_for(both_have_it, f"as many of {rule} of either run")
            metrics.wait_for(lambda: {labels["namespace"] for labels, _ in prometheus.now("longwave:round_seconds:mean6h")}
                             == set(synthetic.NAMESPACES), "the rounds' mean of either run")

    def test_each_returns_data_of_a_training(self):
        # Secured, though on loopback, so that there are certificates that can run out.
        run = self.start_up("--plain", name="seen", run__steps=1_000_000, run__validation_batches=1,
                            run__validate_every=1, security__mode="on",
                            cluster__state_rounds=4, cluster__snapshot_rounds=8,
                            cluster__start_timeout_s=harness.DEADLINE_S)
        folder = self.root / "runs/seen"

        def until(condition, what):
            metrics.wait_for(lambda: run.process.poll() is not None or condition(), what)
            self.assertIsNone(run.process.poll(), f"the run ended before {what}")

        with metrics.Prometheus(self.root / "prometheus", folder / "prometheus-targets.json",
                                rules=metrics.RULES) as prometheus:
            began = time.time()
            until(lambda: has_run(prometheus, "seen", 5), "all pages were scraped")
            broken, firing = rules_state(prometheus)
            self.assertEqual((broken, firing), ({}, set()), "in health")

            # A crash, after which the worker is started again.
            os.kill(self.processes_of("--name", "worker-1")[0], signal.SIGKILL)
            until(lambda: prometheus.now(
                'max_over_time(process_start_time_seconds{run="seen"}[5m])'
                ' - min_over_time(process_start_time_seconds{run="seen"}[5m]) > 5'),
                  "the worker came back")
            until(lambda: prometheus.now(
                'longwave_coordinator_joins_total{run="seen", how="returned"} > 0'),
                  "it was a member again")
            # An annotation covers 90 s, and shows a crash against the time before, like for a user who looks a little
            # later.
            empty = without_data(prometheus, "seen", began, time.time() + 90)
            # Whether the worker's absence was long enough for an alert depends on the machine.
            self.assertEqual(empty - {"annotation Departures", "fleet: Runs (B)"}, set(NOT_HERE))


if __name__ == "__main__":
    unittest.main()
