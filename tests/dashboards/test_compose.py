"""The stack of configs/monitoring: its files against their schemas, and what they name in the container where its mounts put
it. There is no Docker here: Prometheus and Alertmanager are this machine's."""

import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import urllib.request

import metric_table
import metrics

sys.path.insert(0, str(metric_table.ROOT / "tests/support"))
import held_ports  # noqa: E402

STACK = metric_table.ROOT / "configs/monitoring"
ALERTMANAGER = shutil.which("prometheus-alertmanager") or shutil.which("alertmanager")

try:
    import yaml
    from check_jsonschema.builtin_schemas import get_builtin_schema
    import jsonschema
except ModuleNotFoundError as error:
    yaml = None
    MISSING = f"no {error.name}: tools/dashboards.sh generate brings it"
else:
    MISSING = ""


def read(name):
    return yaml.safe_load((STACK / name).read_text(encoding="utf-8"))


def mounts(service):
    """Path in the container to what is mounted there, variables with their defaults."""
    found = {}
    for volume in read("compose.yaml")["services"][service]["volumes"]:
        volume = re.sub(r"\$\{\w+:-([^}]*)\}", r"\1", volume)
        source, target, *_ = volume.split(":")
        if "/" in source:
            found[target] = (STACK / source).resolve()
    return found


def on_this_machine(path, service):
    """The file or pattern that a path of the container is."""
    for target, source in mounts(service).items():
        if path == target or path.startswith(target + "/"):
            return pathlib.Path(str(source) + path[len(target):])
    raise AssertionError(f"{service}: nothing is mounted at {path}")


@unittest.skipIf(yaml is None, MISSING)
class Compose(unittest.TestCase):
    def test_compose_is_of_its_schema(self):
        schema = get_builtin_schema("vendor.compose-spec")
        checker = jsonschema.validators.validator_for(schema)(schema)
        self.assertEqual([error.message for error in checker.iter_errors(read("compose.yaml"))], [])
        # A check that finds nothing in a wrong file is none.
        spoilt = read("compose.yaml")
        spoilt["services"]["grafana"]["volume"] = []
        self.assertTrue(list(checker.iter_errors(spoilt)))

    def test_what_is_mounted_is_there(self):
        for service in read("compose.yaml")["services"]:
            for target, source in mounts(service).items():
                if not target.endswith("/runs"):  # the first run makes it
                    self.assertTrue(source.exists(), source)

    def test_they_listen_on_loopback_alone(self):
        services = read("compose.yaml")["services"]
        for service in ("prometheus", "alertmanager"):
            self.assertTrue(any(part.startswith("--web.listen-address=127.0.0.1:")
                                for part in services[service]["command"]))
        self.assertEqual(services["grafana"]["environment"]["GF_SERVER_HTTP_ADDR"], "127.0.0.1")
        self.assertEqual({name: service["network_mode"] for name, service in services.items()},
                         {"prometheus": "host", "alertmanager": "host", "grafana": "host", "finder": "none"})

    def test_grafana_finds_dashboards_and_data(self):
        boards = read("grafana/dashboards/longwave.yaml")["providers"][0]["options"]["path"]
        self.assertEqual({path.stem for path in on_this_machine(boards, "grafana").glob("*.json")},
                         set(metrics.boards()))
        home = read("compose.yaml")["services"]["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"]
        self.assertEqual(json.loads(on_this_machine(home, "grafana").read_text(encoding="utf-8"))["uid"],
                         "longwave-fleet")
        sources = {source["type"]: source for source in read("grafana/datasources/prometheus.yaml")["datasources"]}
        ports = {service: re.search(r"--web.listen-address=(\S+)", " ".join(about["command"])).group(1)
                 for service, about in read("compose.yaml")["services"].items() if "command" in about}
        for kind in ("prometheus", "alertmanager"):
            self.assertEqual(sources[kind]["url"], f"http://{ports[kind]}")
        self.assertEqual(sources["prometheus"]["jsonData"]["alertmanagerUid"], sources["alertmanager"]["uid"])
        alerting = read("prometheus.yml")["alerting"]["alertmanagers"][0]["static_configs"][0]["targets"]
        self.assertEqual(alerting, [ports["alertmanager"]])

    @unittest.skipIf(metrics.missing_program() is not None, str(metrics.missing_program()))
    def test_prometheus_takes_its_configuration_and_finds_runs_and_rules(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            (folder / "runs/mine").mkdir(parents=True)
            (folder / "found").mkdir()
            config = read("prometheus.yml")
            config["rule_files"] = [str(on_this_machine(path, "prometheus")) for path in config["rule_files"]]
            for job in config["scrape_configs"]:
                for found in job["file_sd_configs"]:
                    found["files"] = [path.replace("/etc/longwave", str(folder)) for path in found["files"]]
            (folder / "runs/mine/prometheus-targets.json").write_text(
                json.dumps([{"targets": ["127.0.0.1:1"], "labels": {"run": "mine"}}]), encoding="utf-8")
            (folder / "prometheus.yml").write_text(json.dumps(config), encoding="utf-8")
            checked = subprocess.run(["promtool", "check", "config", folder / "prometheus.yml"], capture_output=True,
                                     text=True)
            self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)
            finder = subprocess.Popen(["/bin/sh", STACK / "find-runs.sh", folder / "runs", folder / "found"])
            self.addCleanup(finder.wait)
            self.addCleanup(finder.terminate)
            with metrics.Prometheus(folder / "own", folder / "unused.json", config=config) as prometheus:
                metrics.wait_for(lambda: prometheus.ask("targets")["activeTargets"], "the run's target")
                self.assertEqual(prometheus.ask("targets")["activeTargets"][0]["labels"]["run"], "mine")
                rules = [rule for group in prometheus.ask("rules")["groups"] for rule in group["rules"]]
                self.assertIn("LongwaveRunGone", {rule["name"] for rule in rules})
                shutil.rmtree(folder / "runs/mine")
                metrics.wait_for(lambda: not prometheus.ask("targets")["activeTargets"], "the end of a run that is gone")

    @unittest.skipIf(ALERTMANAGER is None, "there is no Alertmanager here: Debian's package prometheus-alertmanager")
    def test_alerts_that_follow_from_others_of_the_same_run_are_kept_back(self):
        alerts = [{"labels": {"alertname": name, "namespace": namespace, "run": "tiny"}} for name, namespace in (
            ("LongwaveRunGone", "a"), ("LongwaveShardTroubled", "a"), ("LongwaveShardTroubled", "b"),
            ("LongwaveCoordinatorDown", "b"), ("LongwaveNoProgress", "b"), ("LongwaveIntruders", "b"))]
        with tempfile.TemporaryDirectory() as folder, held_ports.hold() as held:
            address = f"127.0.0.1:{held.getsockname()[1]}"
            server = subprocess.Popen(
                [ALERTMANAGER, f"--config.file={STACK / 'alertmanager.yml'}", f"--storage.path={folder}",
                 f"--web.listen-address={address}", "--cluster.listen-address=", "--log.level=error"])
            try:
                def ask(path, body=None):
                    request = urllib.request.Request(f"http://{address}/api/v2/{path}", body and json.dumps(body).encode(),
                                                     {"Content-Type": "application/json"})
                    try:
                        with urllib.request.urlopen(request, timeout=10) as answer:
                            return json.loads(answer.read() or "true")
                    except OSError:
                        self.assertIsNone(server.poll(), "Alertmanager refuses its configuration")
                        return None
                metrics.wait_for(lambda: ask("status"), "Alertmanager")
                self.assertTrue(ask("alerts", alerts))

                def states():
                    found = ask("alerts") or []
                    return {(one["labels"]["alertname"], one["labels"]["namespace"]): one["status"]["state"]
                            for one in found}
                wanted = {(alert["labels"]["alertname"], alert["labels"]["namespace"]): "active" for alert in alerts}
                wanted["LongwaveShardTroubled", "a"] = wanted["LongwaveNoProgress", "b"] = "suppressed"
                metrics.wait_for(lambda: states() == wanted, "the alerts that are kept back")
            finally:
                server.terminate()
                server.wait()


if __name__ == "__main__":
    unittest.main()
