"""A release of the monitoring chart for all runs of the cluster: its objects, and a second run named like the first in another
namespace, which it must keep apart from that."""

import json
import pathlib
import sys

from cluster import Failed, Namespace, chart_of, command, wait_until

ROOT = pathlib.Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests/dashboards"))
import metrics  # pylint: disable=wrong-import-position

MONITORING = "longwave-watch"
CRDS = ROOT / ".tools/schemas/crds.json"


def install_monitoring(has_operator):
    """Once, with its alerts where the cluster knows PrometheusRules or can be told of them; returns them as Prometheus reads
    them: groups. None: there are none, and the reason was said."""
    namespace = Namespace(MONITORING)
    command("kubectl", "create", "namespace", MONITORING)
    rules = has_operator or CRDS.exists()
    if rules and not has_operator:
        definitions = [one for one in json.loads(CRDS.read_text(encoding="utf-8"))["items"]
                       if one["spec"]["names"]["kind"] == "PrometheusRule"]
        # Too large for `kubectl apply`, which keeps a copy in an annotation.
        command("kubectl", "apply", "--server-side", "-f", "-",
                input=json.dumps({"apiVersion": "v1", "kind": "List", "items": definitions}))
        command("kubectl", "wait", "--for", "condition=Established", "crd", "--all", "--timeout=60s")
    if not rules:
        print("   skipped: alerts: no definition of a PrometheusRule; tools/helm.sh brings it", flush=True)
    namespace.helm("install", "monitoring", chart_of("longwave-monitoring"), "--set",
                   f"prometheusRule.enabled={str(rules).lower()}")
    return namespace.get("prometheusrules", "monitoring")["spec"]["groups"] if rules else None


class SecondRun:
    """A run of the same name in another namespace, of one worker and one shard, that trains until it is closed."""

    def __init__(self, namespace, release, chart, values, settings, text):
        self.namespace = Namespace(namespace)
        command("kubectl", "delete", "namespace", namespace, "--ignore-not-found", timeout=180)
        command("kubectl", "create", "namespace", namespace)
        self.namespace.kubectl("create", "configmap", "text", f"--from-file=text={text}")
        own = ("config.run.steps=1000000", "config.run.workers=1", "workers.replicas=1", "shards.replicas=1")
        given = [part for setting in (*settings, *own) for part in ("--set-string" if setting.startswith("string:")
                 else "--set", setting.removeprefix("string:"))]
        self.namespace.helm("install", release, chart, "-f", values, *given, timeout=300)

    def close(self):
        command("kubectl", "delete", "namespace", self.namespace.name, "--ignore-not-found", "--wait=false", check=False)


def once_a_cluster(ruled, checks):
    """Nothing that is once a cluster is there twice, with two runs installed."""
    maps = json.loads(command("kubectl", "get", "configmaps", "-A", "-l", "grafana_dashboard=1", "-o", "json"))["items"]
    uids = [json.loads(text)["uid"] for one in maps for text in one["data"].values()]
    checks.check("two runs and one monitoring release: every dashboard is there once",
                 len(uids) == len(set(uids)) == len(metrics.boards()), f"{len(uids)} uids")
    if ruled:
        rules = command("kubectl", "get", "prometheusrules", "-A", "-o", "name").split()
        checks.check("and the alerts are there once", len(rules) == 1, ", ".join(rules))


def kept_apart(prometheus, namespaces, run, checks):
    """The results of a Prometheus with the monitoring release's rules for two runs of one name."""
    def healthy():
        rules = [rule for group in prometheus.ask("/api/v1/rules")["groups"] for rule in group["rules"]]
        bad = {rule["name"]: rule.get("lastError") for rule in rules if rule["health"] == "err"}
        # Two series or alerts with equal labels would be an error of the rule.
        if bad:
            raise Failed(str(bad))
        names = [rule["name"] for rule in rules]
        if len(names) != len(set(names)):
            raise Failed("a rule is there twice")
        return rules and all(rule["health"] == "ok" for rule in rules) and f"{len(rules)} rules"
    def recorded():
        found = [sample["metric"]["namespace"] for sample in prometheus.query("longwave:round_seconds:mean6h")]
        return sorted(found) == sorted(namespaces) and ", ".join(found)
    checks.attempt("each of two runs of one name has its own recorded series",
                   lambda: wait_until("recorded series", recorded, 240))
    # Last of the rules, since both runs have everything by now.
    checks.attempt("no rule makes a series or an alert twice", lambda: wait_until("rules", healthy, 90))
    overview = dict((whose, expr) for whose, expr, _ in metrics.queries(metrics.boards()["overview"]))
    for namespace in namespaces:
        found = prometheus.query(metrics.chosen(overview["Members (A)"], run, namespace=namespace))
        checks.check(f"the overview shows the run of {namespace} alone", len(found) == 1,
                     ", ".join(sample["value"][1] for sample in found) + " members")
    fleet = next(expr for whose, expr, _ in metrics.queries(metrics.boards()["fleet"]) if whose == "Runs (A)")
    rows = {(sample["metric"].get("namespace"), sample["metric"].get("run"), sample["metric"].get("preset"))
            for sample in prometheus.query(metrics.chosen(fleet, run))}
    checks.check("the fleet has a row for each", rows == {(namespace, run, "longwave") for namespace in namespaces}, rows)


def no_spike(prometheus, namespace, checks):
    """After a worker was killed: sums over the workers have not fallen, and their rates have not leapt."""
    for series in ("longwave_coordinator_tokens_total", "longwave_coordinator_bytes_total"):
        chosen = f'{series}{{namespace="{namespace}"}}'
        resets = max((float(sample["value"][1]) for sample in prometheus.query(f"resets({chosen}[10m])")), default=-1)
        rate = f"rate({chosen}[20s])[10m:2s]"
        peaks = [float(sample["value"][1]) for sample in prometheus.query(
            f"max_over_time({rate}) / quantile_over_time(0.5, {rate})")]
        checks.check(f"a killed worker makes no spike of {series}", resets == 0 and peaks and max(peaks) < 5,
                     f"{resets:.0f} resets, at most {max(peaks, default=-1):.1f} times the median rate")
