"""Dashboards and a Prometheus: the queries of a dashboard, and a Prometheus that scrapes a run to answer them. Needs
only the standard library."""

import contextlib
import json
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
import urllib.error
import urllib.parse
import urllib.request

ROOT = pathlib.Path(__file__).parents[2]
DASHBOARDS = ROOT / "helm/longwave-monitoring/dashboards"
RULES = sorted((ROOT / "helm/longwave-monitoring/rules").glob("*.yaml"))
DEADLINE_S = 120


def boards():
    """The dashboards of the tree by name."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8"))
            for path in sorted(DASHBOARDS.glob("*.json"))}


def panels(board):
    """The panels with queries."""
    return [panel for panel in board["panels"] if panel["type"] not in ("row", "alertlist")]


def queries(board):
    """Every query of a dashboard: (panel, expression, the legend with its labels)."""
    for panel in panels(board):
        for target in panel["targets"]:
            yield f"{panel['title']} ({target['refId']})", target["expr"], target.get("legendFormat", "")
    for annotation in board["annotations"].get("list", []):
        yield f"annotation {annotation['name']}", annotation["expr"], annotation["titleFormat"]


def variables(board):
    """The queries of a dashboard's variables: (name, the series, their label)."""
    for variable in board["templating"]["list"]:
        if variable["type"] == "query":
            series, label = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"]).groups()
            yield variable["name"], series, label


def chosen(expr, run, window_s=10, range_s=60, namespace=""):
    """The expression as Grafana sends it, with that run and all workers and shards chosen; with several clusters and
    namespaces, all of them."""
    for name in ("cluster", "namespace"):
        expr = expr.replace(f'=~"${name}"', '=~".*"')
    values = {"cluster": "", "namespace": namespace, "run": run, "worker": ".+", "shard": ".+",
              "__rate_interval": f"{window_s}s",
              "__interval": f"{window_s}s", "__range": f"{range_s:.0f}s"}
    expr = expr.replace("90s", f"{window_s}s")  # annotations: their own window
    # A name that begins with a digit is a group of label_replace.
    return re.sub(r"\$([a-z_]\w*)", lambda match: values[match.group(1)], expr)


class Prometheus:
    """A Prometheus of our own on a free port of loopback."""

    def __init__(self, folder, targets, interval_s=1, rules=(), config=None):
        """`targets`: a file of file_sd targets, which may come later. `config`: a whole configuration instead."""
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        config = config or {
            "global": {"scrape_interval": f"{interval_s}s", "evaluation_interval": f"{interval_s}s"},
            "rule_files": [str(path) for path in rules],
            "scrape_configs": [{
                "job_name": "longwave", "honor_labels": True,
                "file_sd_configs": [{"files": [str(targets)], "refresh_interval": "1s"}]}],
        }
        (self.folder / "prometheus.yml").write_text(json.dumps(config), encoding="utf-8")
        # Another process may take the free port before Prometheus does; then the next port is tried.
        for _ in range(5):
            with contextlib.closing(socket.socket()) as probe:
                probe.bind(("127.0.0.1", 0))
                port = probe.getsockname()[1]
            self.url = f"http://127.0.0.1:{port}"
            self._log = (self.folder / "prometheus.log").open("w", encoding="utf-8")
            self.process = subprocess.Popen(
                ["prometheus", f"--config.file={self.folder / 'prometheus.yml'}",
                 f"--storage.tsdb.path={self.folder / 'data'}", f"--web.listen-address=127.0.0.1:{port}",
                 "--log.level=warn"], stdout=self._log, stderr=subprocess.STDOUT)
            if self._is_ready():
                return
            self.close()
        raise RuntimeError((self.folder / "prometheus.log").read_text(encoding="utf-8"))

    def _is_ready(self):
        def ready():
            if self.process.poll() is not None:
                return "ended"
            try:
                with urllib.request.urlopen(f"{self.url}/-/ready", timeout=5) as answer:
                    return answer.status == 200
            except OSError:
                return False
        return wait_for(ready, "Prometheus to be ready") is True

    def close(self):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        self._log.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def ask(self, path, **arguments):
        """The HTTP API's answer; RuntimeError with its sentence on a refusal."""
        query = urllib.parse.urlencode(arguments)
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/{path}?{query}", timeout=60) as answer:
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.load(error).get("error", str(error))) from error

    def now(self, expr, at=None):
        """The samples of an instant query: a list of (labels, value)."""
        found = self.ask("query", query=expr, **({} if at is None else {"time": at}))["result"]
        return [(one["metric"], float(one["value"][1])) for one in found]

    def over(self, expr, start, end, step):
        """The series of a range query: a list of (labels, times, values)."""
        found = self.ask("query_range", query=expr, start=start, end=end, step=step)["result"]
        return [(one["metric"], [float(at) for at, _ in one["values"]],
                 [float(value) for _, value in one["values"]]) for one in found]


def wait_for(condition, what, deadline_s=DEADLINE_S):
    """Polls until `condition()` is true, and returns it. Prometheus does not announce its scrapes."""
    end = time.monotonic() + deadline_s
    pause = threading.Event()
    while not (found := condition()):
        if time.monotonic() > end:
            raise TimeoutError(f"waited {deadline_s} s in vain for {what}")
        pause.wait(0.2)
    return found


def missing_program():
    """Why there is no Prometheus to query here, or None."""
    if shutil.which("prometheus") is None:
        return "there is no Prometheus here: Debian's package `prometheus` has it"
    return None
