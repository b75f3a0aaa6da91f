"""Alerts: rules that promtool accepts, that fire and are quiet, about series that there are, each with a
runbook."""

import copy
import pathlib
import re
import shutil
import subprocess
import tempfile
import unittest

import metric_table

RULES = metric_table.ROOT / "helm/longwave-monitoring/rules"
RUNBOOKS = metric_table.ROOT / "docs/how-to/runbooks"
# Where alerts say that the runbooks are: absolute, as a notification is read far from this tree.
HOME = "https://longwave.example/docs/how-to/runbooks"
TESTS = metric_table.ROOT / "tests/dashboards/rules_test.yaml"

try:
    import yaml
except ModuleNotFoundError:
    yaml = None


def rules():
    """Every rule of every file."""
    return [rule for path in sorted(RULES.glob("*.yaml"))
            for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]
            for rule in group["rules"]]


def in_namespace(series, namespace):
    """Input series as those of a run in that namespace."""
    return [{**one, "series": one["series"].replace("{", '{namespace="%s",' % namespace, 1)} for one in series]


def alerts():
    return {rule["alert"]: rule for rule in rules() if "alert" in rule}


@unittest.skipIf(shutil.which("promtool") is None,
                 "there is no promtool here: Debian's package `prometheus` has it")
class Promtool(unittest.TestCase):
    def promtool(self, *arguments):
        done = subprocess.run(["promtool", *arguments], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done

    def test_the_rules_are_clean(self):
        self.promtool("check", "rules", "--lint=all", "--lint-fatal", *map(str, RULES.glob("*.yaml")))

    def test_each_fires_and_is_quiet(self):
        self.promtool("test", "rules", str(TESTS))

    @unittest.skipIf(yaml is None, "no yaml: tools/dashboards.sh generate brings it")
    def test_runs_of_one_name_in_two_namespaces_are_two(self):
        """Of each alert: it fires for the run of one namespace and not for its namesake, or for both, each on its own."""
        cases = yaml.safe_load(TESTS.read_text(encoding="utf-8"))["tests"]
        pairs = []
        for firing in cases:
            shown = firing["alert_rule_test"][0]
            if not shown.get("exp_alerts"):
                continue
            quiet = [case for case in cases for test in case["alert_rule_test"]
                     if (test["alertname"], test["eval_time"]) == (shown["alertname"], shown["eval_time"])
                     and not test.get("exp_alerts")]
            for other, both in [(firing, True), *((case, False) for case in quiet)]:
                test = copy.deepcopy(shown)
                test["exp_alerts"] = [
                    {**alert, "exp_labels": {**alert["exp_labels"], "namespace": namespace}}
                    for namespace in (("a", "b") if both else ("a",)) for alert in shown["exp_alerts"]]
                pairs.append({"interval": "1m", "alert_rule_test": [test],
                              "input_series": in_namespace(firing["input_series"], "a")
                              + in_namespace(other["input_series"], "b")})
        self.assertGreaterEqual(len(pairs), 2 * len(alerts()))
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "two.yaml"
            path.write_text(yaml.safe_dump({"rule_files": [str(rule) for rule in RULES.glob("*.yaml")],
                                            "evaluation_interval": "1m", "tests": pairs}), encoding="utf-8")
            self.promtool("test", "rules", str(path))


@unittest.skipIf(yaml is None, "no yaml: tools/dashboards.sh generate brings it")
class Rules(unittest.TestCase):
    def test_each_is_shown_firing_and_quiet(self):
        shown = {"fires": set(), "quiet": set()}
        for case in yaml.safe_load(TESTS.read_text(encoding="utf-8"))["tests"]:
            for test in case["alert_rule_test"]:
                shown["fires" if test.get("exp_alerts") else "quiet"].add(test["alertname"])
        self.assertEqual(shown, {"fires": set(alerts()), "quiet": set(alerts())})
        self.assertGreaterEqual(len(alerts()), 8)

    def test_each_is_grouped_by_cluster_namespace_and_run(self):
        for rule in rules():
            groups = re.findall(r"\b(?:by|on)\s*\(([^)]*)\)", rule["expr"])
            self.assertTrue(groups, rule)
            for group in groups:
                self.assertTrue(group.startswith("cluster, namespace, run"), rule)

    def test_thresholds_stand_in_the_expressions(self):
        """The chart replaces the number wherever it stands: it is that limit everywhere, and none is part of another."""
        found = {name: rule["annotations"]["threshold"] for name, rule in alerts().items()
                 if "threshold" in rule["annotations"]}
        self.assertGreaterEqual(len(found), 12)
        for name, threshold in found.items():
            for before, after in re.findall(r"(.{0,12})(?<![\w.])%s\b(.?)" % re.escape(threshold), alerts()[name]["expr"]):
                self.assertRegex(before, r"(?:[<>]=? |\* |, |\) |^ *)$", name)
                self.assertNotEqual(after, ".", name)
            self.assertRegex(alerts()[name]["expr"], r"(?<![\w.])%s\b" % re.escape(threshold))

    def test_expressions_name_series_and_labels_that_there_are(self):
        table = metric_table.read()
        for rule in rules():
            with self.subTest(rule.get("alert") or rule["record"]):
                said = " ".join(rule.get("annotations", {}).values())
                legend = " ".join("{{%s}}" % label for label in re.findall(r"\$labels\.(\w+)", said))
                # Series recorded by another rule are known by name only.
                self.assertEqual(metric_table.findings(rule["expr"], legend, table), [])
                recorded = {other["record"] for other in rules() if "record" in other}
                self.assertLessEqual(set(re.findall(r"longwave:[\w:]+", rule["expr"])), recorded)

    def test_each_has_severity_sentences_and_a_runbook(self):
        for name, rule in alerts().items():
            with self.subTest(name):
                self.assertIn(rule["labels"]["severity"], ("warning", "critical"))
                for key in ("summary", "description"):
                    self.assertIn("$labels", rule["annotations"][key] + rule["annotations"]["summary"])
                home, _, page = rule["annotations"]["runbook_url"].rpartition("/")
                self.assertEqual(home, HOME)
                book = RUNBOOKS / page
                text = book.read_text(encoding="utf-8")
                self.assertEqual(text.splitlines()[0], f"# {name}")
                for heading in ("## What it means", "## How to look", "## What to do"):
                    self.assertIn(heading, text)

    def test_no_runbook_is_without_an_alert(self):
        wanted = {rule["annotations"]["runbook_url"].rpartition("/")[2] for rule in alerts().values()}
        self.assertEqual({path.name for path in RUNBOOKS.glob("*.md")}, wanted | {"README.md"})

    def test_runbooks_speak_of_series_that_there_are(self):
        table = metric_table.read()
        histograms = {name.removesuffix("_count") for name in table if name.endswith("_count")}
        for path in RUNBOOKS.glob("*.md"):
            named = set(re.findall(r"\blongwave_(?:coordinator|shard|worker)_\w+",
                                   path.read_text(encoding="utf-8")))
            self.assertLessEqual(named, set(table) | histograms, path.name)


if __name__ == "__main__":
    unittest.main()
