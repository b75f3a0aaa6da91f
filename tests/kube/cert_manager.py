"""cert-manager as the cluster's own: its resources, and its controller, a program on this machine that talks to the API
server."""

from cluster import Failed, Service, command, wait_until


class CertManager:
    """Issues what Certificates ask for."""

    def __init__(self, work, binaries):
        for crd in sorted((binaries / "cert-manager-crds").glob("*.yaml")):
            # Too large for `kubectl apply`, which keeps a copy in an annotation.
            command("kubectl", "apply", "--server-side", "-f", crd)
        self.service = Service(work / "cert-manager.log", binaries / "cert-manager", "--leader-elect=false",
                               "--metrics-listen-address=127.0.0.1:0",
                               f"--kubeconfig={command('printenv', 'KUBECONFIG').strip()}")

    def await_issued(self, namespace):
        """Until every Certificate of the namespace is ready; says how many there are."""
        def issued():
            found = namespace.get("certificates.cert-manager.io")["items"]
            waiting = [item["metadata"]["name"] for item in found
                       if not any(condition["type"] == "Ready" and condition["status"] == "True"
                                  for condition in item.get("status", {}).get("conditions", []))]
            if waiting:
                raise Failed(f"waiting for {', '.join(waiting)}")
            return found and f"{len(found)} certificates"
        return wait_until("certificates of cert-manager", issued, 120)

    def close(self):
        self.service.close()
        if self.service.process.returncode not in (0, -15):
            raise Failed(f"cert-manager ended with {self.service.process.returncode}; see {self.service.log}")
