"""The Prometheus operator as the cluster's own: its resources, the operator (a program on this machine that talks to
the API server), and a Prometheus in the cluster that it makes."""

import json
import pathlib
import shutil

from cluster import Failed, Namespace, Service, command, load_image, wait_until
from scraping import Queries

NAMESPACE = "longwave-monitoring"
POD = "prometheus-all-0"


def image_of(name, program, load):
    """An image of one program of this machine, with its libraries, in the cluster."""
    root = pathlib.Path(command("mktemp", "-d").strip())
    try:
        (root / "bin").mkdir()
        shutil.copy(program, root / "bin" / pathlib.Path(program).name)
        for word in command("ldd", program, check=False).split():
            if word.startswith("/") and not (root / word.lstrip("/")).exists():
                (root / word.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(word, root / word.lstrip("/"))
        buildah = ("buildah", "--storage-driver", "vfs")
        container = command(*buildah, "from", "scratch").strip()
        command(*buildah, "add", "-q", container, root, "/")
        entry = json.dumps([f"/bin/{pathlib.Path(program).name}"])
        command(*buildah, "config", "--entrypoint", entry, container)
        command(*buildah, "commit", "-q", "--rm", container, name)
        load_image(load, name)
    finally:
        shutil.rmtree(root)


class ClusterPrometheus(Queries):
    """Scrapes and judges by whatever ServiceMonitors and PrometheusRules there are."""

    def __init__(self, work, binaries, load):
        for crd in sorted((binaries / "crds").glob("*.yaml")):
            # Too large for `kubectl apply`, which keeps a copy in an annotation.
            command("kubectl", "apply", "--server-side", "-f", crd)
        image_of("localhost/longwave-test-prometheus:1", binaries / "prometheus", load)
        image_of("localhost/longwave-test-reloader:1", binaries / "prometheus-config-reloader", load)
        command("kubectl", "create", "namespace", NAMESPACE)
        self.namespace = Namespace(NAMESPACE)
        account = {"kind": "ServiceAccount", "name": "prometheus", "namespace": NAMESPACE}
        self.namespace.apply(
            {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "prometheus"}},
            {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
             "metadata": {"name": "longwave-test-prometheus"},
             "rules": [{"apiGroups": [""], "resources": ["services", "endpoints", "pods"],
                        "verbs": ["get", "list", "watch"]},
                       {"apiGroups": ["discovery.k8s.io"], "resources": ["endpointslices"],
                        "verbs": ["get", "list", "watch"]}]},
            {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
             "metadata": {"name": "longwave-test-prometheus"}, "subjects": [account],
             "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole",
                         "name": "longwave-test-prometheus"}},
            {"apiVersion": "monitoring.coreos.com/v1", "kind": "Prometheus", "metadata": {"name": "all"},
             "spec": {"image": "localhost/longwave-test-prometheus:1", "version": "v2.54.1", "replicas": 1,
                      "imagePullPolicy": "Never", "serviceAccountName": "prometheus", "evaluationInterval": "5s",
                      "serviceMonitorSelector": {}, "serviceMonitorNamespaceSelector": {},
                      "ruleSelector": {}, "ruleNamespaceSelector": {},
                      "resources": {"requests": {"memory": "64Mi", "cpu": "10m"}}}})
        self.service = Service(work / "operator.log", binaries / "operator", "--web.listen-address=127.0.0.1:0",
                               "--prometheus-config-reloader=localhost/longwave-test-reloader:1",
                               environment={"KUBECONFIG": str(command("printenv", "KUBECONFIG").strip())})

    def ask(self, path):
        proxy = f"/api/v1/namespaces/{NAMESPACE}/pods/{POD}:9090/proxy"
        return json.loads(command("kubectl", "get", "--raw", proxy + path, timeout=20))["data"]

    def await_ready(self):
        wait_until("the operator's Prometheus", lambda: self.namespace.is_ready(POD), 120)

    def rules(self):
        """(name, whether it was evaluated without an error) of each."""
        return [(rule["name"], rule["health"]) for group in self.ask("/api/v1/rules")["groups"] for rule in group["rules"]]

    def close(self):
        self.service.close()
        if self.service.process.returncode not in (0, -15):
            raise Failed(f"the operator ended with {self.service.process.returncode}; see {self.service.log}")
