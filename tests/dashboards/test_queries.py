"""Every query of every dashboard, asked of a real Prometheus that scrapes pages of metrics: those of a real
training, and those of a run that has everything (tests/dashboards/synthetic.py)."""

import math
import sys
import time
import unittest

import metric_table
import synthetic

sys.path[:0] = [str(metric_table.ROOT / "tools/dashboards"), str(metric_table.ROOT / "tests/integration")]
import harness  # noqa: E402
import metrics  # noqa: E402

# A training is watched for as long as this at most.
harness.DEADLINE_S = 240
# What the training below does not have. Each query of these must still be one that Prometheus takes.
NOT_HERE = {
    "workers: GPU memory (A)": "the training is on the CPU",
    "workers: GPU memory free (A)": "the training is on the CPU",
}
# So many scrapes show what a query of rates over ten of them answers.
SCRAPES = 12
RULES = sorted((metric_table.ROOT / "helm/longwave/rules").glob("*.yaml"))


def without_data(prometheus, run, start, end):
    """Which queries return no finite value in that time, by dashboard and panel."""
    empty = set()
    for name, board in metrics.boards().items():
        for whose, expr, _ in metrics.queries(board):
            found = prometheus.over(metrics.chosen(expr, run), start, end, 1)
            if not any(math.isfinite(value) for _, _, values in found for value in values):
                empty.add(whose if whose.startswith("annotation") else f"{name}: {whose}")
        for variable, series, label in metrics.variables(board):
            if not prometheus.now(f"count by ({label}) ({metrics.chosen(series, run)})"):
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
        with metrics.Prometheus(self.root / "prometheus", targets, rules=RULES) as prometheus:
            metrics.wait_for(lambda: has_run(prometheus, synthetic.RUN, 5), "scrapes")
            now = time.time()
            # Nothing ever starts again here, and nobody joins for the first time.
            self.assertEqual(without_data(prometheus, synthetic.RUN, now - 10, now),
                             {"annotation Crashes"})
            broken, firing = rules_state(prometheus)
            self.assertEqual(broken, {})
            # Pages on which everything grows are of a run in which much is wrong.
            self.assertIn("LongwavePushesRefused", firing)

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
                                rules=RULES) as prometheus:
            began = time.time()
            until(lambda: has_run(prometheus, "seen", 5), "all pages were scraped")
            broken, firing = rules_state(prometheus)
            self.assertEqual((broken, firing), ({}, set()), "in health")

            # A crash, after which the worker is started again.
            self.assertTrue(metrics.kill_worker(folder, "worker-1"))
            until(lambda: prometheus.now(
                'max_over_time(process_start_time_seconds{run="seen"}[5m])'
                ' - min_over_time(process_start_time_seconds{run="seen"}[5m]) > 5'),
                  "the worker came back")
            until(lambda: prometheus.now(
                'longwave_coordinator_joins_total{run="seen", how="returned"} > 0'),
                  "it was a member again")
            # An annotation looks 90 s back, and a crash is told from what was before: as a person would see it
            # who looks a little later.
            empty = without_data(prometheus, "seen", began, time.time() + 90)
            # Whether the worker was missed before it was back is for the machine to say.
            self.assertEqual(empty - {"annotation Departures"}, set(NOT_HERE))


if __name__ == "__main__":
    unittest.main()
