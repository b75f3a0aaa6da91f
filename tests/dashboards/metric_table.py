"""The table of series, read from docs/reference/metrics.md (which a test of its own holds to the code), and what an
expression of PromQL may say about them."""

import pathlib
import re

ROOT = pathlib.Path(__file__).parents[2]
# The labels on every page: the run, and the name of a shard or worker. Prometheus adds the target's labels.
PAGE_LABELS = {"coordinator": {"run"}, "shard": {"run", "shard"}, "worker": {"run", "worker"}}
PAGE_LABELS["every"] = PAGE_LABELS["shard"] | PAGE_LABELS["worker"]
FOUND_LABELS = {"cluster", "namespace", "pod", "instance", "process"}
_PARTS = {"The coordinator": "coordinator", "A shard": "shard", "A worker": "worker",
          "Every process": "every"}


class Series:
    def __init__(self, part, kind, labels, buckets):
        self.part, self.kind, self.labels = part, kind, labels
        self.buckets = buckets
        if kind == "histogram":
            self.labels = {**labels, "le": []}

    @property
    def all_labels(self):
        return set(self.labels) | PAGE_LABELS[self.part] | FOUND_LABELS


def read():
    """Every series by name; a histogram also under the names that its parts have."""
    # Prometheus's own labels for the results of rules.
    PAGE_LABELS["prometheus"] = PAGE_LABELS["every"]
    alerts = Series("prometheus", "gauge", {"alertname": [], "alertstate": ["pending", "firing"], "severity": []}, [])
    table, part = {"ALERTS": alerts}, None
    page = (ROOT / "docs/reference/metrics.md").read_text(encoding="utf-8")
    # By the names of the sets, and for a series without a name.
    buckets = {name: [float(bound) for bound in bounds.split(",")] for name, bounds in re.findall(r"\*(\w+)\* \(([\d., \n]+)\)", page)}
    buckets[None] = []
    for line in page.replace("\n  ", " ").splitlines():
        if line.startswith("## "):
            part = _PARTS[line[3:]]
        row = re.match(r"- `(\w+)` \((\w+)(?:, (\w+))?(?:; (.*?))?\)\. ", line)
        if not row:
            continue
        name, kind, set_of_buckets, labels = row.groups()
        values = {}
        for label in filter(None, (labels or "").split("; ")):
            label_name, _, rest = label.partition(":")
            values[label_name.strip("`")] = [value.strip() for value in rest.split(",") if value.strip()]
        if "stat" in values:
            values["stat"] = ["min", "p10", "p50", "p90", "p99", "max"]
        series = Series(part, kind, values, buckets[set_of_buckets])
        for name_of_part in [name] if kind != "histogram" else [f"{name}_bucket", f"{name}_sum",
                                                                f"{name}_count"]:
            table[name_of_part] = series
    return table


def findings(expr, legend, table):
    """Sentences about the parts of an expression that the table lacks."""
    found, labels = [], set()
    names = list(re.finditer(r"(?<![:\w])((?:longwave|process)_\w+|ALERTS)(?!:)(\{[^}]*\})?", expr))
    if not names:
        found.append("no series in it")
    for match in names:
        name, matchers = match.group(1), match.group(2) or ""
        if name not in table:
            found.append(f"there is no series {name}")
            continue
        series = table[name]
        labels |= series.all_labels
        for label, operator, value in re.findall(r'(\w+)(=~|!~|!=|=)"([^"]*)"', matchers):
            if label not in series.all_labels:
                found.append(f"{name} has no label {label}")
            elif series.labels.get(label):
                wanted = value.split("|") if "~" in operator else [value]
                found += [f"{name} has no {label} {one!r}" for one in wanted
                          if one not in series.labels[label]]
    # Labels written by label_replace and label_join.
    labels |= set(re.findall(r'[)}], "(\w+)", "', expr))
    for group in re.findall(r"\b(?:by|on|ignoring|without)\s*\(([^)]*)\)", expr):
        found += [f"nothing in it has the label {label}" for label in re.findall(r"\w+", group)
                  if label not in labels]
    found += [f"the legend's {label} is no label of it" for label in re.findall(r"{{(\w+)}}", legend)
              if label not in labels]
    return found
