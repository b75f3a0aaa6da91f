"""The acts on a release while it trains, and the checks at the end; tests/kube/run.sh starts this."""

import argparse
import contextlib
import json
import pathlib
import re
import sys
import time

import monitoring
import two_runs
from cert_manager import CertManager
from cluster import Checks, Failed, Hopeless, Namespace, chart_of, command, load_image, wait_until
from scraping import HostPrometheus

HERE = pathlib.Path(__file__).parent
CHART = chart_of("longwave")
RELEASE, NAMESPACE = "longwave", "longwave-test"
# For a second run of the same name.
SECOND = "longwave-second"
WORKERS, SHARDS = 3, 2
LEAST_WORKERS = 2  # the last of what they are scaled to

# The bars.
FIRST_ROUND_S = 60     # from helm install to the first merged round
GOES_ON_S = 15         # from a shard's pod that is ready again to the next finished round
# Smallest share of the quiet run's decrease of the loss.
LOSS_SHARE = 0.95

# The rounds in the output of `longwave status`.
ROUNDS = r"^progress .* round (\d+)/\d+$"


def write_text(path):
    """Half a megabyte of real text: headers of this machine's compiler, one after the other."""
    text = bytearray()
    for header in sorted(pathlib.Path("/usr/include").rglob("*.h")):
        text += header.read_bytes()
        if len(text) >= 500_000:
            break
    path.write_bytes(bytes(text[:500_000]).decode("ascii", "replace").encode("ascii", "replace"))


class Release:
    """The release under test, as its coordinator sees it."""

    def __init__(self, namespace, settings):
        self.namespace, self.settings = namespace, settings

    def helm(self, action, *more):
        values = [part for setting in (*self.settings, *more) for part in ("--set-string" if
                  setting.startswith("string:") else "--set", setting.removeprefix("string:"))]
        return self.namespace.helm(action, RELEASE, CHART, "-f", HERE / "values.yaml", *values,
                                   timeout=300)

    def status(self):
        """`longwave status`, asked in the coordinator's pod."""
        secure = [] if "security.mode=off" in self.settings else ["--security", "/etc/longwave/security"]
        text = self.namespace.kubectl("exec", f"{RELEASE}-coordinator-0", "-c", "coordinator", "--",
                                      "longwave", "status", "localhost:7070", *secure, timeout=20)
        phase, epoch = re.search(r"^state +(.*?), epoch (\d+)", text, re.M).groups()
        loss = re.search(r"^loss .* validation (\d\S*)", text, re.M)
        return {"phase": phase, "rounds": int(re.search(ROUNDS, text, re.M)[1]), "epoch": int(epoch), "text": text,
                "validation": float(loss[1]) if loss else None,
                "replicas": re.search(r"^replicas +(.*)$", text, re.M)[1]}

    def await_round(self, wanted, seconds=120):
        """Until so many rounds are finished."""
        def reached():
            status = self.status()
            if status["rounds"] < wanted and not status["phase"].startswith(("training", "waiting")):
                raise Hopeless(f"the run is {status['phase']}")
            return status if status["rounds"] >= wanted else None
        return wait_until(f"round {wanted}", reached, seconds)

    def await_progress(self, seconds=120, rounds=1):
        """Until more rounds are finished than now; returns the time that it took."""
        begin = time.monotonic()
        now = wait_until("the coordinator", self.status, seconds)["rounds"]
        self.await_round(now + rounds, seconds)
        return time.monotonic() - begin

    def await_members(self, wanted):
        """Until so many workers take part."""
        def there():
            return len(re.findall(rf"^ *{RELEASE}-worker-\d+ +(?:training|syncing|validating) ",
                                  self.status()["text"], re.M)) == wanted
        wait_until(f"{wanted} members", there, 120)


def quiet_run(programs, work, steps):
    """The same training on this machine, with nothing in its way, of as many workers as the release has at
    least and for most of its rounds: its first and its last validation loss."""
    values = command("helm", "template", RELEASE, CHART, "--kube-version", "1.33.0", "-f", HERE / "values.yaml", "--show-only",
                     "templates/configmap.yaml")
    block = values[values.index("config.yaml: |"):].splitlines()[1:]
    config = work / "quiet.yaml"
    config.write_text("\n".join(line.removeprefix("    ") for line in block if line.startswith("    ")))
    settings = {"data.path": work / "text", "cluster.max_upload_mbit": 0, "cluster.coordinator": "127.0.0.1:7070",
                "cluster.shard_host": "127.0.0.1", "security.mode": "off",
                "run.steps": steps, "run.workers": LEAST_WORKERS}
    overrides = [part for key, value in settings.items() for part in ("--set", f"{key}={value}")]
    command(programs / "longwave", "up", config, "--plain", "--no-state", "--runs-dir", work / "runs", "--name",
            "quiet", *overrides, timeout=400)
    folder = work / "runs/quiet"
    losses = [json.loads(line)["validation_loss"] for line in (folder / "metrics.jsonl").open(encoding="utf-8")]
    last = json.loads((folder / "summary.json").read_text(encoding="utf-8"))["val_loss"]
    return next(loss for loss in losses if loss is not None), last


def disturb(release, prometheus, checks):
    """Everything that the run must survive, one after the other."""
    namespace = release.namespace

    def after_kill(pod):
        before = namespace.kill(pod)
        wait_until(f"{pod} ready again", lambda: namespace.is_ready(pod, before), 120)
        return release.await_progress()

    def shard_killed():
        took = after_kill(f"{RELEASE}-shard-0")
        if took > GOES_ON_S:
            raise Failed(f"{took:.1f} s, wanted at most {GOES_ON_S} s")
        return f"{took:.1f} s"

    def coordinator_killed():
        return f"the next round {after_kill(f'{RELEASE}-coordinator-0'):.1f} s after it was ready"

    def upgraded():
        begin = time.monotonic()
        release.settings += [f"string:{part}.podAnnotations.upgrade=second"
                             for part in ("coordinator", "shards", "workers")]
        release.helm("upgrade")
        for part in ("coordinator", "shard", "worker"):
            namespace.kubectl("rollout", "status", f"statefulset/{RELEASE}-{part}", "--timeout=240s")
        release.await_progress()
        return f"every pod replaced in {time.monotonic() - begin:.0f} s"

    def rolled_back():
        begin = time.monotonic()
        namespace.helm("rollback", RELEASE, timeout=300)
        release.settings = [setting for setting in release.settings if "podAnnotations.upgrade" not in setting]
        for part in ("coordinator", "shard", "worker"):
            namespace.kubectl("rollout", "status", f"statefulset/{RELEASE}-{part}", "--timeout=240s")
        left = [pod["metadata"]["name"] for pod in namespace.pods() if "upgrade" in pod["metadata"]["annotations"]]
        if left:
            raise Failed(f"of the upgrade are still {', '.join(left)}")
        release.await_progress()
        return f"every pod replaced in {time.monotonic() - begin:.0f} s"

    def worker_killed():
        took = after_kill(f"{RELEASE}-worker-1")
        release.await_members(WORKERS)
        return f"the next round {took:.1f} s after it was ready"

    def scaled(count):
        release.helm("upgrade", f"workers.replicas={count}")
        release.await_members(count)
        release.await_progress()

    checks.attempt("a worker's pod is killed: the run goes on", worker_killed)
    two_runs.no_spike(prometheus, namespace.name, checks)
    checks.attempt(f"a shard's pod is killed: the run goes on within {GOES_ON_S} s of its being ready", shard_killed)
    checks.attempt("the coordinator's pod is killed: the run goes on", coordinator_killed)
    checks.attempt("the release is upgraded: the run goes on", upgraded)
    checks.attempt("the release is rolled back: the run goes on", rolled_back)
    checks.attempt("workers are scaled from 3 to 5: they take part", lambda: scaled(5))
    checks.attempt("workers are scaled from 5 to 2: the others go on", lambda: scaled(2))


def audit(release, images, tag, checks):
    """`longwave replay` of what the shards have kept, in a pod that has their volumes."""
    namespace = release.namespace
    namespace.kubectl("scale", f"statefulset/{RELEASE}-shard", "--replicas=0")
    wait_until("the shards' end", lambda: not namespace.pods("shard"), 90)
    mounts = [{"name": f"shard-{i}", "mountPath": f"/run-folder/state/shard-{i}", "subPath": "state"}
              for i in range(SHARDS)]
    namespace.apply({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "audit"},
        "spec": {
            "restartPolicy": "Never",
            "securityContext": {"runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532, "runAsNonRoot": True,
                                "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{
                "name": "audit", "image": f"{images}longwave-worker:{tag}", "imagePullPolicy": "IfNotPresent",
                "command": ["longwave", "replay", "/run-folder"],
                "securityContext": {"readOnlyRootFilesystem": True, "allowPrivilegeEscalation": False,
                                    "capabilities": {"drop": ["ALL"]}},
                "volumeMounts": [{"name": "config", "mountPath": "/run-folder/config.yaml", "subPath": "config.yaml"},
                                 {"name": "tmp", "mountPath": "/tmp"}, *mounts]}],
            "volumes": [{"name": "config", "configMap": {"name": RELEASE}}, {"name": "tmp", "emptyDir": {}},
                        *({"name": f"shard-{i}", "persistentVolumeClaim": {"claimName": f"state-{RELEASE}-shard-{i}"}}
                          for i in range(SHARDS))]}})
    phase = wait_until("the audit", lambda: (lambda p: p if p in ("Succeeded", "Failed") else None)(
        namespace.get("pod", "audit")["status"]["phase"]), 180)
    said = namespace.kubectl("logs", "audit")
    checks.check("nothing that was accepted is lost: every merge is what its pushes make", phase == "Succeeded",
                 "" if phase == "Succeeded" else said)
    return said


def run(options, checks):
    work = options.work
    write_text(work / "text")
    namespace = Namespace(NAMESPACE)
    settings = [f"images.{part}.repository={options.images}longwave-{part}" for part in ("server", "worker")]
    settings += [f"string:images.{part}.tag={options.tag}" for part in ("server", "worker")]
    settings += [f"security.mode={options.security}"]
    release = Release(namespace, settings)

    print("== the quiet run, on this machine", flush=True)
    first, quiet = quiet_run(options.programs, work, options.steps)
    print(f"   validation loss {first:.4f}, at the end {quiet:.4f}", flush=True)

    if options.load:
        for part in ("server", "worker"):
            load_image(options.load, f"localhost/longwave-{part}:{options.tag}")
    with contextlib.ExitStack() as operators:
        operated = issuer = None
        if options.operators:
            print("== the Prometheus operator and cert-manager", flush=True)
            operated = operators.enter_context(contextlib.closing(
                monitoring.ClusterPrometheus(work, options.operators, options.load)))
            settings += ["metrics.serviceMonitor.enabled=true",
                         "metrics.serviceMonitor.interval=5s", "metrics.serviceMonitor.scrapeTimeout=4s"]
            if options.security == "on":
                issuer = operators.enter_context(contextlib.closing(CertManager(work, options.operators)))
                settings.append("security.source=certManager")
        train(release, operated, issuer, first, quiet, options, checks)


def train(release, operated, issuer, first, quiet, options, checks):
    """Installs the release, disturbs it until its run is over, and holds it to the quiet run."""
    namespace, work = release.namespace, options.work
    print("== the release", flush=True)
    command("kubectl", "delete", "namespace", namespace.name, "--ignore-not-found", timeout=180)
    command("kubectl", "create", "namespace", namespace.name)
    command("kubectl", "label", "namespace", namespace.name, "pod-security.kubernetes.io/enforce=restricted")
    namespace.kubectl("create", "configmap", "text", f"--from-file=text={work / 'text'}")
    rules = two_runs.install_monitoring(operated is not None)
    begin = time.monotonic()
    release.settings.append(f"config.run.steps={options.steps}")
    release.helm("install")
    if issuer:
        checks.attempt("cert-manager issues the release's certificates", lambda: issuer.await_issued(namespace))

    def first_round():
        release.await_round(1, 300)
        took = time.monotonic() - begin
        if took > FIRST_ROUND_S:
            raise Failed(f"{took:.1f} s")
        return f"{took:.1f} s"
    if not checks.attempt(f"from helm install to the first merged round at most {FIRST_ROUND_S} s", first_round):
        release.await_round(1, 300)

    prometheus = HostPrometheus(work, (namespace.name, SECOND), rules)
    try:
        release.await_round(8)
        with contextlib.closing(two_runs.SecondRun(SECOND, RELEASE, CHART, HERE / "values.yaml", release.settings,
                                                work / "text")):
            two_runs.once_a_cluster(rules is not None, checks)
            if rules:
                two_runs.kept_apart(prometheus, (namespace.name, SECOND), RELEASE, checks)
        disturb(release, prometheus, checks)
        checks.attempt("helm test --logs passes, and shows the status", lambda: tested(namespace))
        end = wait_until("the end of the run", lambda: (lambda s: None if s["phase"].startswith(
            ("training", "waiting")) else s)(release.status()), 600, every=2)
        checks.check("the run is finished", end["phase"] == "finished", end["phase"])
        checks.check("replicas are equal", end["replicas"].startswith("equal"), end["replicas"])
        checks.check("the loss fell as in the quiet run",
                     first - end["validation"] >= LOSS_SHARE * (first - quiet),
                     f"from {first:.4f} to {end['validation']:.4f}, in the quiet run to {quiet:.4f}")
        scraped(namespace, "Prometheus", prometheus, checks)
        if operated:
            scraped(namespace, "the operator's Prometheus", operated, checks)
            ruled(operated, checks)
    finally:
        prometheus.close()
    restarts = {pod["metadata"]["name"]: status["restartCount"] for pod in namespace.pods()
                for status in pod["status"].get("containerStatuses", []) if status["restartCount"]}
    checks.check("no container ended by itself", not restarts, restarts or "")
    said = audit(release, options.images, options.tag, checks)
    state = re.search(r"[0-9a-f]{16}", end["replicas"])
    checks.check("the model made again from the logs is the workers'", bool(state) and state.group() in said,
                 end["replicas"])


def tested(namespace):
    """`helm test`, as the notes have it: its pod's log is what the coordinator says of the run."""
    said = namespace.helm("test", RELEASE, "--logs", "--timeout", "90s")
    rounds = re.search(ROUNDS, said, re.M)
    if not rounds:
        raise Failed(f"no status in what it says: {said}")
    return rounds.group()


def scraped(namespace, who, prometheus, checks):
    """Every pod that is there is a target of which Prometheus has everything."""
    pods = {pod["metadata"]["name"] for pod in namespace.pods()}

    def all_up():
        up = prometheus.up(namespace.name)
        return pods and pods <= {pod for pod, value in up.items() if value == 1} and f"{len(pods)} pods"
    checks.attempt(f"every target is scraped by {who}", lambda: wait_until("all targets up", all_up, 60))
    for part in ("coordinator", "shard", "worker"):
        found = prometheus.query(f'count(count by (__name__) ({{__name__=~"longwave_{part}_.*"}}))')
        checks.check(f"{who} has series of the {part}", bool(found), f"{found[0]['value'][1]} names" if found else "")


def ruled(operated, checks):
    """The monitoring chart's rules have come to the operator's Prometheus, which can evaluate each."""
    def all_well():
        rules = operated.rules()
        return rules and all(health == "ok" for _, health in rules) and f"{len(rules)} rules"
    checks.attempt("the monitoring chart's rules are evaluated", lambda: wait_until("rules", all_well, 60))
    names = [name for name, _ in operated.rules()]
    checks.check("no rule came to the operator's Prometheus twice", len(names) == len(set(names)), f"{len(names)} rules")
    seen = {sample["metric"]["alertname"]
            for sample in operated.query("count by (alertname) (last_over_time(ALERTS[1h]))")}
    print(f"   alerts that were pending or firing meanwhile: {', '.join(sorted(seen)) or 'none'}", flush=True)


def show_trouble(namespace):
    """Prints facts for finding out why a step failed."""
    print(namespace.kubectl("get", "pods", "-o", "wide", check=False))
    print(namespace.kubectl("get", "events", "--sort-by=.lastTimestamp", check=False)[-4000:])
    for pod in namespace.pods():
        name = pod["metadata"]["name"]
        for previous in ([], ["--previous"]):
            log = namespace.kubectl("logs", name, "--tail=15", *previous, check=False)
            if log:
                print(f"-- {name} {' '.join(previous)}\n{log}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--programs", type=pathlib.Path, required=True)
    parser.add_argument("--images", default="localhost/", help="prefix of the images' names")
    parser.add_argument("--tag", required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True, help="an empty folder")
    parser.add_argument("--load", help="a command that brings an image of buildah's store to the cluster")
    parser.add_argument("--operators", type=pathlib.Path,
                        help="folder of operators.sh: the Prometheus operator and cert-manager run, too (needs --load)")
    parser.add_argument("--security", default="on", choices=("on", "off"))
    parser.add_argument("--steps", type=int, default=960)
    parser.add_argument("--keep", action="store_true", help="leave release and namespace when it is over")
    options = parser.parse_args()
    checks = Checks()
    try:
        run(options, checks)
    except Failed as error:
        checks.check("the scenario goes to its end", False, error)
    if checks.failed:
        show_trouble(Namespace(NAMESPACE))
    if not options.keep:
        for namespace in (NAMESPACE, SECOND, two_runs.MONITORING, monitoring.NAMESPACE):
            command("kubectl", "delete", "namespace", namespace, "--ignore-not-found", "--wait=false", check=False)
    return checks.close()


if __name__ == "__main__":
    sys.exit(main())
