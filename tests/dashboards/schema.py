"""Holds dashboards to Grafana's schema, as its Foundation SDK has it: every key is known where it stands,
every value is of its type, every unit one that Grafana has.

The SDK's own decoder drops what it does not know and takes any type, so it alone would find nothing.
"""

import enum
import functools
import inspect
import re
import types
import typing

from grafana_foundation_sdk.cog import plugins, variants
from grafana_foundation_sdk.models import (common, dashboard, heatmap, prometheus, stat, statetimeline, table,
                                           timeseries, units)

plugins.register_default_plugins()

# Keys of Grafana's Prometheus data source in an annotation beside the schema's.
_BESIDE = {dashboard.AnnotationQuery: {"step": str, "titleFormat": str}}
# The options and field options of the kinds of panels in use.
_KINDS = {
    "stat": (stat.Options, None),
    "timeseries": (timeseries.Options, common.GraphFieldConfig),
    "heatmap": (heatmap.Options, heatmap.FieldConfig),
    "state-timeline": (statetimeline.Options, statetimeline.FieldConfig),
    "table": (table.Options, common.TableFieldOptions),
}
# The options of a list of alerts, for which the SDK has no model.
_ALERT_LIST = {"viewMode": str, "groupMode": str, "groupBy": list[str], "maxItems": int, "sortOrder": int,
               "dashboardAlerts": bool, "alertName": str, "alertInstanceLabelFilter": str,
               "stateFilter": dict[str, bool]}


def _name(hint):
    return getattr(hint, "__name__", str(hint))


@functools.cache
def _keys(model):
    """The JSON keys of a class of the SDK, with the attribute of each."""
    read, written = inspect.getsource(model.from_json), inspect.getsource(model.to_json)
    return {**dict(re.findall(r'\n        if "(\w+)" in data:.*?args\["(\w+)"\]', read, re.DOTALL)),
            # The key that tells a class from others of its kind is only written.
            **dict(re.findall(r'"(\w+)": self\.(\w+)', written))}


@functools.cache
def _hints(model):
    return typing.get_type_hints(model)


@functools.cache
def _required(model):
    """The JSON keys that the SDK always writes."""
    always = inspect.getsource(model.to_json).split("payload: dict[str, object] = {")[1].split("}")[0]
    return re.findall(r'"(\w+)":', always)


class Checker:
    """Collects a sentence for each finding."""

    def __init__(self):
        self.findings = []

    def say(self, where, what):
        self.findings.append(f"{where}: {what}")

    def wrong(self, where, value, wanted):
        got = repr(value)
        self.say(where, f"got {got if len(got) < 60 else got[:60] + '…'}, wanted {wanted}")

    def model(self, value, model, where):
        if not isinstance(value, dict):
            return self.wrong(where, value, f"an object of {model.__name__}")
        keys = _keys(model)
        hints = _hints(model)
        beside = _BESIDE.get(model, {})
        for key in _required(model):
            if key not in value:
                self.say(where, f"{model.__name__} wants the key {key!r}")
        for key, item in value.items():
            place = f"{where}.{key}"
            if key in beside:
                self.value(item, beside[key], place)
            elif key not in keys:
                self.say(place, f"{model.__name__} has no such key")
            elif keys[key] in hints:
                self.value(item, hints[keys[key]], place)
        return None

    def value(self, value, hint, where):
        origin, arguments = typing.get_origin(hint), typing.get_args(hint)
        if hint in (object, typing.Any) or hint is variants.Dataquery:
            if hint is variants.Dataquery:
                self.model(value, prometheus.Dataquery, where)
        elif origin in (typing.Union, types.UnionType):
            self.union(value, arguments, where)
        elif origin is list:
            if not isinstance(value, list):
                return self.wrong(where, value, "a list")
            for place, item in enumerate(value):
                self.value(item, arguments[0], f"{where}[{place}]")
        elif origin is dict:
            if not isinstance(value, dict):
                return self.wrong(where, value, "an object")
            for key, item in value.items():
                self.value(item, arguments[1], f"{where}.{key}")
        elif origin is typing.Literal:
            if value not in arguments:
                self.wrong(where, value, f"one of {list(arguments)}")
        elif inspect.isclass(hint) and issubclass(hint, enum.Enum):
            if value not in [member.value for member in hint]:
                self.wrong(where, value, f"one of {[member.value for member in hint]}")
        elif hint is float:
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                self.wrong(where, value, "a number")
        elif hint is int:
            if isinstance(value, bool) or not isinstance(value, int):
                self.wrong(where, value, "a whole number")
        elif hint in (str, bool, type(None)):
            if not isinstance(value, hint):
                self.wrong(where, value, f"{_name(hint)}")
        elif inspect.isclass(hint) and hasattr(hint, "from_json"):
            self.panel(value, where) if hint is dashboard.Panel else self.model(value, hint, where)
        else:
            raise TypeError(f"{where}: no check for {hint!r}")
        return None

    def union(self, value, choices, where):
        tried = []
        for choice in choices:
            if choice is type(None) and value is not None:
                continue
            attempt = Checker()
            # A row is a panel of type `row`; the type selects the class, so that a row gets its own findings.
            if inspect.isclass(choice) and choice in (dashboard.Panel, dashboard.RowPanel):
                if (value.get("type") == "row") != (choice is dashboard.RowPanel):
                    continue
            attempt.value(value, choice, where)
            if not attempt.findings:
                return
            tried.append(attempt.findings)
        self.findings += min(tried, key=len)  # of the choice that came closest

    def panel(self, value, where):
        self.model(value, dashboard.Panel, where)
        kind = value.get("type")
        if kind == "alertlist":
            for key, item in value.get("options", {}).items():
                if key in _ALERT_LIST:
                    self.value(item, _ALERT_LIST[key], f"{where}.options.{key}")
                else:
                    self.say(f"{where}.options.{key}", "a list of alerts has no such option")
            return None
        if kind not in _KINDS:
            return self.say(where, f"got a panel of type {kind!r}, wanted one of {sorted(_KINDS)}")
        options, field_options = _KINDS[kind]
        self.model(value.get("options", {}), options, f"{where}.options")
        defaults = value.get("fieldConfig", {}).get("defaults", {})
        if field_options is not None:
            self.model(defaults.get("custom", {}), field_options, f"{where}.fieldConfig.defaults.custom")
        given = [defaults.get("unit")]
        for override in value.get("fieldConfig", {}).get("overrides", []):
            given += [item["value"] for item in override["properties"] if item["id"] == "unit"]
        known = {constant for name, constant in vars(units).items() if not name.startswith("_")
                 and isinstance(constant, str)}
        for unit in given:
            if unit is not None and unit not in known and not unit.startswith("suffix:"):
                self.say(where, f"Grafana has no unit {unit!r}")
        return None


def findings(board):
    """The defects of a dashboard (its JSON, decoded); empty: none."""
    checker = Checker()
    checker.value(board, dashboard.Dashboard, board.get("title", "dashboard"))
    return checker.findings
