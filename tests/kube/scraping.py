"""A real Prometheus that scrapes the release's pods: Debian's, on this machine, by way of the API server, which
reaches pods wherever the cluster is."""

import base64
import json
import pathlib
import shutil
import subprocess
import sys
import threading
import urllib.parse
import urllib.request

from cluster import Failed, Namespace, Service, command, wait_until

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import held_ports  # pylint: disable=wrong-import-position


class Queries:
    """Asks a Prometheus at `base`."""

    base = ""

    def ask(self, path):
        with urllib.request.urlopen(f"{self.base}{path}", timeout=10) as answer:
            return json.load(answer)["data"]

    def query(self, expression):
        try:
            return self.ask("/api/v1/query?" + urllib.parse.urlencode({"query": expression}))["result"]
        except OSError as error:
            raise Failed(f"Prometheus: {error}") from error

    def up(self, namespace):
        """By pod of a namespace: 1 if its last scrape went well."""
        return {sample["metric"].get("pod", "?"): float(sample["value"][1])
                for sample in self.query(f'up{{namespace="{namespace}"}}')}


class HostPrometheus(Queries):
    """Scrapes the pods of some namespaces, and judges by rules: groups of them, or None."""

    def __init__(self, work, namespaces, rules=None):
        if shutil.which("prometheus") is None:
            raise Failed("no prometheus here (the package of that name)")
        view = json.loads(command("kubectl", "config", "view", "--raw", "--flatten", "--minify", "-o", "json"))
        cluster, user = view["clusters"][0]["cluster"], view["users"][0]["user"]
        folder = work / "prometheus"
        folder.mkdir()
        tls = {}
        for key, name in (("certificate-authority-data", "ca_file"), ("client-certificate-data", "cert_file"),
                          ("client-key-data", "key_file")):
            value = cluster.get(key) or user.get(key)
            if value:
                (folder / name).write_bytes(base64.b64decode(value))
                tls[name] = str(folder / name)
        server = urllib.parse.urlsplit(cluster["server"])
        job = {"job_name": "longwave", "scheme": server.scheme, "tls_config": tls, "scrape_interval": "2s",
               "scrape_timeout": "2s",
               "file_sd_configs": [{"files": [str(folder / "targets.json")], "refresh_interval": "1s"}]}
        if "token" in user:
            job["authorization"] = {"credentials": user["token"]}
        config = folder / "prometheus.yml"
        (folder / "rules.json").write_text(json.dumps({"groups": rules or []}), encoding="utf-8")  # JSON is YAML
        config.write_text(json.dumps({"global": {"evaluation_interval": "2s"}, "scrape_configs": [job],
                                      "rule_files": [str(folder / "rules.json")]}), encoding="utf-8")
        self._held = held_ports.hold()
        port = self._held.getsockname()[1]
        self.base = f"http://127.0.0.1:{port}"
        self.service = Service(folder / "log", "prometheus", f"--config.file={config}",
                               f"--storage.tsdb.path={folder / 'data'}", f"--web.listen-address=127.0.0.1:{port}")
        self._closing = threading.Event()
        self._finder = threading.Thread(target=self._find_targets, args=(folder, namespaces, server.netloc))
        self._finder.start()
        wait_until("Prometheus", lambda: self.query("1"), 120)

    def _find_targets(self, folder, namespaces, api_server):
        """Debian's Prometheus is built without Kubernetes' discovery: this thread is it."""
        while not self._closing.wait(1):
            try:
                targets = [{"targets": [api_server],
                            "labels": {"pod": pod["metadata"]["name"], "namespace": namespace, "__metrics_path__":
                                       f"/api/v1/namespaces/{namespace}/pods/{pod['metadata']['name']}:9464"
                                       "/proxy/metrics"}}
                           for namespace in namespaces for pod in Namespace(namespace).pods()
                           if pod["status"].get("podIP")]
            except (Failed, subprocess.TimeoutExpired):
                continue
            new = folder / "targets.new"
            new.write_text(json.dumps(targets), encoding="utf-8")
            new.rename(folder / "targets.json")

    def close(self):
        self._closing.set()
        self._finder.join()
        self.service.close()
        self._held.close()
