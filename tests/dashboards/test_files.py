"""Dashboards as files: what the generator makes, as Grafana's schema wants it, about series that there are."""

import contextlib
import copy
import io
import re
import sys
import unittest
import unittest.mock

import metric_table
import metrics

sys.path.insert(0, str(metric_table.ROOT / "tools/dashboards"))

try:
    import generate
    import schema
except ModuleNotFoundError as error:
    generate = schema = None
    MISSING = f"no {error.name}: tools/dashboards.sh generate brings it"
else:
    MISSING = ""


@unittest.skipIf(generate is None, MISSING)
class Generated(unittest.TestCase):
    def test_the_tree_has_what_the_generator_makes(self):
        for name in generate.ALL:
            self.assertEqual((generate.FOLDER / f"{name}.json").read_text(encoding="utf-8"),
                             generate.text(name), "run tools/dashboards.sh generate")
        self.assertEqual({path.stem for path in generate.FOLDER.glob("*.json")}, set(generate.ALL))

    def test_a_file_that_differs_is_named(self):
        with unittest.mock.patch.object(generate, "text", lambda name: "{}\n"), \
                unittest.mock.patch.object(sys, "argv", ["generate", "--check"]), \
                contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(generate.main(), 1)
        self.assertIn("overview.json is not what", said.getvalue())

    def test_every_dashboard_is_of_grafanas_schema(self):
        for name, board in metrics.boards().items():
            with self.subTest(name):
                self.assertEqual(schema.findings(board), [])

    def test_what_is_not_of_the_schema_is_found(self):
        board = metrics.boards()["overview"]
        first = next(place for place, panel in enumerate(board["panels"]) if panel["type"] == "stat")
        curve = next(place for place, panel in enumerate(board["panels"])
                     if panel["type"] == "timeseries")

        def panel(change):
            return lambda spoilt: change(spoilt["panels"][first])

        spoilers = {
            "Dashboard has no such key": lambda spoilt: spoilt.update(titel=""),
            "Panel has no such key": panel(lambda it: it.update(titel="")),
            "Dataquery has no such key": panel(lambda it: it["targets"][0].update(exp="up")),
            "Dataquery wants the key 'refId'": panel(lambda it: it["targets"][0].pop("refId")),
            "wanted a whole number": panel(lambda it: it["gridPos"].update(w="3")),
            "wanted one of ['none', 'line', 'area']":
                panel(lambda it: it["options"].update(graphMode="areas")),
            "Grafana has no unit 'furlong'":
                panel(lambda it: it["fieldConfig"]["defaults"].update(unit="furlong")),
            "wanted one of ['heatmap'": panel(lambda it: it.update(type="graph")),
            "GraphFieldConfig has no such key": lambda spoilt: spoilt["panels"][curve]["fieldConfig"][
                "defaults"]["custom"].update(lineWidht=1),
            "wanted one of [0, 1, 2]": lambda spoilt: spoilt["templating"]["list"][1].update(refresh=9),
            "a list of alerts has no such option": lambda spoilt: next(
                panel for panel in spoilt["panels"] if panel["type"] == "alertlist")["options"].update(maxItem=1),
            "AnnotationQuery has no such key":
                lambda spoilt: spoilt["annotations"]["list"][0].update(tittle=""),
        }
        for sentence, spoil in spoilers.items():
            with self.subTest(sentence):
                spoilt = copy.deepcopy(board)
                spoil(spoilt)
                found = schema.findings(spoilt)
                self.assertEqual(len(found), 1, found)
                self.assertIn(sentence, found[0])


class Dashboards(unittest.TestCase):
    """The promises of our dashboards beyond the schema."""

    def setUp(self):
        self.boards = metrics.boards()
        self.table = metric_table.read()

    def test_queries_name_series_and_labels_that_there_are(self):
        for name, board in self.boards.items():
            for whose, expr, legend in metrics.queries(board):
                with self.subTest(f"{name}: {whose}"):
                    self.assertEqual(metric_table.findings(expr, legend, self.table), [])

    def test_a_query_of_what_there_is_not_is_found(self):
        for expr, sentence in {
                'longwave_worker_tokens{run="a"}': "there is no series longwave_worker_tokens",
                'longwave_worker_round{shard="0"}': "longwave_worker_round has no label shard",
                'longwave_shard_pushes_total{outcome=~"late|lost"}':
                    "longwave_shard_pushes_total has no outcome 'lost'",
                'sum by (kind) (longwave_worker_round)': "nothing in it has the label kind",
                'longwave_shard_close_seconds': "there is no series longwave_shard_close_seconds",
                'up': "no series in it"}.items():
            self.assertEqual(metric_table.findings(expr, "", self.table), [sentence])
        self.assertEqual(metric_table.findings("longwave_worker_round", "{{shard}}", self.table),
                         ["the legend's shard is no label of it"])

    def test_panels_say_what_they_show_in_which_unit(self):
        for board in self.boards.values():
            for panel in metrics.panels(board):
                self.assertGreater(len(panel.get("description", "")), 30, panel["title"])
                defaults = panel["fieldConfig"]["defaults"]
                if panel["type"] != "state-timeline":
                    self.assertIn("unit", defaults, panel["title"])
                for target in panel["targets"]:
                    self.assertEqual(target["datasource"]["uid"], "${datasource}")

    def test_panels_lie_side_by_side(self):
        for board in self.boards.values():
            taken = set()
            for panel in board["panels"]:
                place = panel["gridPos"]
                cells = {(x, y) for x in range(place["x"], place["x"] + place["w"])
                         for y in range(place["y"], place["y"] + place["h"])}
                self.assertFalse(taken & cells, panel["title"])
                self.assertLessEqual(place["x"] + place["w"], 24, panel["title"])
                taken |= cells

    def test_titles_and_ids_are_unlike(self):
        for board in self.boards.values():
            for key in ("id", "title"):
                values = [panel[key] for panel in board["panels"]]
                self.assertEqual(len(values), len(set(values)),
                                 f"{key} in {board['title']}: {sorted(values)}")
        uids = [board["uid"] for board in self.boards.values()]
        self.assertEqual(len(uids), len(set(uids)))

    def test_source_run_and_what_is_chosen_are_variables(self):
        for board in self.boards.values():
            names = [variable["name"] for variable in board["templating"]["list"]]
            of_a_run = board["uid"] != "longwave-fleet"
            self.assertEqual(names[:4], ["datasource", "cluster", "namespace", *(["run"] if of_a_run else [])])
            used = " ".join(expr for _, expr, _ in metrics.queries(board))
            for name in ("worker", "shard"):
                self.assertEqual(f"${name}" in used, name in names, name)
            for name, series, label in metrics.variables(board):
                self.assertEqual(metric_table.findings(series, "{{%s}}" % label, self.table), [], name)

    def test_every_selector_names_cluster_namespace_and_run(self):
        """Two runs of one name in two namespaces would be one curve otherwise."""
        for name, board in self.boards.items():
            wanted = ['cluster="$cluster"', 'namespace="$namespace"', 'run="$run"']
            if name == "fleet":
                wanted = ['cluster=~"$cluster"', 'namespace=~"$namespace"']
            for whose, expr, _ in metrics.queries(board):
                selectors = re.findall(r"\b(?:(?:longwave|process)_\w+|ALERTS)(\{[^}]*\})?", expr)
                self.assertTrue(selectors, whose)
                for selector in selectors:
                    self.assertLessEqual(set(wanted), set(selector.strip("{}").split(", ")), f"{name}: {whose}")

    def test_a_row_leads_to_its_page_and_a_panel_to_its_runbook(self):
        uids = {board["uid"] for board in self.boards.values()}
        linked = set()
        for board in self.boards.values():
            for panel in board["panels"]:
                linked |= {link["url"] for link in panel.get("links", [])}
                if panel["type"] != "table":
                    continue
                links = [value for override in panel["fieldConfig"]["overrides"]
                         for item in override["properties"] if item["id"] == "links" for value in item["value"]]
                self.assertEqual(len(links), 1, panel["title"])
                self.assertIn(re.match(r"/d/([-\w]+)\?", links[0]["url"]).group(1), uids)
        rules = (metric_table.ROOT / "helm/longwave-monitoring/rules/longwave.yaml").read_text(encoding="utf-8")
        # No panel can show a run of which no series is left.
        self.assertEqual({url for url in re.findall(r"runbook_url: (\S+)", rules) if "run-gone" not in url and
                          "run-failed" not in url}, linked)

    def test_alerts_are_listed_of_the_run_and_of_all(self):
        for name, wanted in {"overview": 'run="$run"', "fleet": 'namespace=~"$namespace"'}.items():
            lists = [panel for panel in self.boards[name]["panels"] if panel["type"] == "alertlist"]
            self.assertEqual(len(lists), 1)
            self.assertIn(wanted, lists[0]["options"]["alertInstanceLabelFilter"])

    def test_joins_crashes_and_snapshots_are_annotated(self):
        for board in self.boards.values():
            if board["uid"] == "longwave-fleet":
                continue
            self.assertEqual({one["name"] for one in board["annotations"]["list"]},
                             {"Joins", "Departures", "Crashes", "Snapshots"})

    def test_each_has_its_page_in_the_documentation(self):
        text = (metric_table.ROOT / "docs/how-to/dashboards.md").read_text(encoding="utf-8")
        for name, board in self.boards.items():
            self.assertIn(f"helm/longwave-monitoring/dashboards/{name}.json", text)
            self.assertIn(board["title"].removeprefix("Longwave / "), text)
        for picture in re.findall(r"\((pictures/\w+\.png)\)", text):
            size = (metric_table.ROOT / "docs" / picture).stat().st_size
            self.assertLess(size, 200_000, picture)


if __name__ == "__main__":
    unittest.main()
