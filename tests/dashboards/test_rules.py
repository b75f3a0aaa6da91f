"""Alerts: rules that promtool accepts, that fire and are quiet, about series that there are, each with a
runbook."""

import re
import shutil
import subprocess
import unittest

import metric_table

RULES = metric_table.ROOT / "helm/longwave/rules"
RUNBOOKS = metric_table.ROOT / "docs/runbooks"
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
class Rules(unittest.TestCase):
    def test_each_is_shown_firing_and_quiet(self):
        shown = {"fires": set(), "quiet": set()}
        for case in yaml.safe_load(TESTS.read_text(encoding="utf-8"))["tests"]:
            for test in case["alert_rule_test"]:
                shown["fires" if test.get("exp_alerts") else "quiet"].add(test["alertname"])
        self.assertEqual(shown, {"fires": set(alerts()), "quiet": set(alerts())})
        self.assertGreaterEqual(len(alerts()), 8)

    def test_expressions_name_series_and_labels_that_there_are(self):
        table = metric_table.read()
        for rule in rules():
            with self.subTest(rule.get("alert") or rule["record"]):
                said = " ".join(rule.get("annotations", {}).values())
                legend = " ".join("{{%s}}" % label for label in re.findall(r"\$labels\.(\w+)", said))
                # What another rule records is known by name only.
                self.assertEqual(metric_table.findings(rule["expr"], legend, table), [])
                recorded = {other["record"] for other in rules() if "record" in other}
                self.assertLessEqual(set(re.findall(r"longwave:[\w:]+", rule["expr"])), recorded)

    def test_each_has_severity_sentences_and_a_runbook(self):
        for name, rule in alerts().items():
            with self.subTest(name):
                self.assertIn(rule["labels"]["severity"], ("warning", "critical"))
                for key in ("summary", "description"):
                    self.assertIn("$labels", rule["annotations"][key] + rule["annotations"]["summary"])
                book = metric_table.ROOT / rule["annotations"]["runbook_url"]
                text = book.read_text(encoding="utf-8")
                self.assertEqual(text.splitlines()[0], f"# {name}")
                for heading in ("## What it means", "## How to look", "## What to do"):
                    self.assertIn(heading, text)

    def test_no_runbook_is_without_an_alert(self):
        wanted = {rule["annotations"]["runbook_url"] for rule in alerts().values()} | {
            "docs/runbooks/README.md"}
        self.assertEqual({f"docs/runbooks/{path.name}" for path in RUNBOOKS.glob("*.md")}, wanted)

    def test_runbooks_speak_of_series_that_there_are(self):
        table = metric_table.read()
        histograms = {name.removesuffix("_count") for name in table if name.endswith("_count")}
        for path in RUNBOOKS.glob("*.md"):
            named = set(re.findall(r"\blongwave_(?:coordinator|shard|worker)_\w+",
                                   path.read_text(encoding="utf-8")))
            self.assertLessEqual(named, set(table) | histograms, path.name)


if __name__ == "__main__":
    unittest.main()
