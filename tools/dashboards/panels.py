"""The parts of dashboards: queries, panels, rows, variables and annotations, each in one form for all. Each dashboard
is a file of its own beside this one, with only its content."""

import pathlib
import re

import yaml
from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import (dashboard as board_builders, heatmap, prometheus, stat,
                                             statetimeline, table, timeseries)
from grafana_foundation_sdk.models import common, dashboard, heatmap as heatmap_models
from grafana_foundation_sdk.models import prometheus as prometheus_models

RULES = sorted((pathlib.Path(__file__).parents[2] / "helm/longwave-monitoring/rules").glob("*.yaml"))
SOURCE = dashboard.DataSourceRef(type_val="prometheus", uid="${datasource}")
GREEN, YELLOW, ORANGE, RED, BLUE, PURPLE, GREY = (
    "green", "yellow", "orange", "red", "blue", "purple", "text")

PHASES = ["waiting", "training", "finished", "failed", "stopped"]
PHASE_NAMES = [("waiting", YELLOW), ("training", GREEN), ("finished", BLUE), ("failed", RED), ("stopped", GREY)]

# ---------------------------------------------------------------------------------------------- queries


# The chosen run: runs of one name in other namespaces or clusters are other runs. If Prometheus knows neither, the
# variables are empty, and an empty matcher takes series without the label.
RUN_CHOSEN = ('cluster="$cluster"', 'namespace="$namespace"', 'run="$run"')


def s(name, *matchers):
    """The series longwave_NAME of the chosen run, and of the chosen shards or workers."""
    part = name.split("_")[0]
    chosen = {"worker": ['worker=~"$worker"'], "shard": ['shard=~"$shard"']}.get(part, [])
    return "longwave_%s{%s}" % (name, ", ".join([*RUN_CHOSEN, *chosen, *matchers]))


def process(name, *matchers):
    """A series that every process has, of the chosen run."""
    return "%s{%s}" % (name, ", ".join([*RUN_CHOSEN, *matchers]))


def everywhere(name, *matchers):
    """The series longwave_NAME of all runs in the chosen clusters and namespaces."""
    return "longwave_%s{%s}" % (name, ", ".join(['cluster=~"$cluster"', 'namespace=~"$namespace"', *matchers]))


def rate(series):
    return f"rate({series}[$__rate_interval])"


def increase(series):
    return f"increase({series}[$__rate_interval])"


def total(series, by=None):
    return f"sum by ({by}) ({series})" if by else f"sum({series})"


def quantile(share, histogram, by=None):
    """The quantile of a histogram's recent observations (name without _bucket)."""
    name, brace, rest = histogram.partition("{")
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({share}, {total(rate(f'{name}_bucket{brace}{rest}'), labels)})"


def mean(histogram, by=None):
    """The mean of a histogram's recent observations."""
    name, brace, rest = histogram.partition("{")
    sums, counts = (total(rate(f"{name}_{end}{brace}{rest}"), by) for end in ("sum", "count"))
    return f"{sums} / {counts}"


def one_hot(name, label, values, by=None, of=s):
    """A number for the value of `label` that is set: its index in `values`."""
    terms = ["%d * %s" % (place, of(name, '%s="%s"' % (label, value)))
             for place, value in enumerate(values)]
    return total(" or ".join(terms), by)


def target(expr, legend="", instant=False, form=None):
    """A query. A process that returns at another address, as a pod does, stays one curve."""
    if not re.match(r"(sum|min|max|avg|histogram_quantile)\b", expr):
        expr = f"max without (instance, pod) ({expr})"
    query = prometheus.Dataquery().expr(expr).datasource(SOURCE)
    query = query.instant() if instant else query.range()
    if legend:
        query = query.legend_format(legend)
    if form is not None:
        query = query.format(form)
    return query


def lost_after():
    """The heartbeat timeout, `cluster.heartbeat_timeout_s`, to draw beside ages of heartbeats."""
    return target(f'max({process("longwave_heartbeat_timeout_seconds")})', "counts as lost")


# ----------------------------------------------------------------------------------------------- panels


def steps(*pairs):
    """Thresholds: the colour of everything below the first value, then (value, colour) upwards."""
    first, *rest = pairs
    absolute = [dashboard.Threshold(value=None, color=first)]
    absolute += [dashboard.Threshold(value=value, color=color) for value, color in rest]
    return board_builders.ThresholdsConfig().mode(dashboard.ThresholdsMode.ABSOLUTE).steps(absolute)


def named_values(names):
    """A value mapping: (text, colour) of 0, 1, 2 …"""
    options = {str(value): dashboard.ValueMappingResult(text=text, color=color, index=value)
               for value, (text, color) in enumerate(names)}
    return [dashboard.ValueMap(options=options)]


_RUNBOOKS = {rule["alert"]: (rule["annotations"]["runbook_url"],
                             set(re.findall(r"longwave_\w+", rule["expr"])) - {"longwave_coordinator_phase",
                                                                               "longwave_build_info"})
             for path in RULES
             for group in yaml.safe_load(path.read_text(encoding="utf-8"))["groups"]
             for rule in group["rules"] if "alert" in rule}


def runbooks(queries):
    """Links to the runbooks of the alerts on a panel's series."""
    shown = {name for query in queries for name in re.findall(r"longwave_\w+", query.build().expr)}
    return [board_builders.DashboardLink(f"Runbook: {alert}").type(dashboard.DashboardLinkType.LINK)
            .url(url).target_blank(True)
            for alert, (url, judged) in _RUNBOOKS.items() if judged & shown]


def _panel(builder, title, description, queries, width, height, unit, limits, names):
    builder = (builder.title(title).description(description).datasource(SOURCE)
               .span(width).height(height).links(runbooks(queries)))
    for place, query in enumerate(queries):
        builder = builder.with_target(query.ref_id(chr(ord("A") + place)))
    if unit is not None:
        builder = builder.unit(unit)
    if limits is not None:
        builder = builder.thresholds(steps(*limits))
    if names is not None:
        builder = builder.mappings(named_values(names))
    return builder


def number(title, description, query, unit="short", limits=(BLUE,), names=None, width=3, height=4,
           decimals=None, spark=True):
    """The current number, with its past behind it."""
    builder = _panel(stat.Panel(), title, description, [query], width, height, unit, limits, names)
    builder = (builder.reduce_options(common_builders.ReduceDataOptions().calcs(["lastNotNull"]))
               .color_mode(common.BigValueColorMode.VALUE)
               .graph_mode(common.BigValueGraphMode.AREA if spark
                           else common.BigValueGraphMode.NONE))
    return builder if decimals is None else builder.decimals(decimals)


def lines(title, description, queries, unit="short", limits=None, width=12, height=8, stacked=False,
          share=False, log=False, low=None, high=None, points=False):
    """Curves over time; `share`: stacked to 100 %; `limits` are drawn as dashed lines."""
    builder = _panel(timeseries.Panel(), title, description, queries, width, height, unit, limits, None)
    builder = (builder.line_width(1).fill_opacity(60 if stacked or share else 8)
               .span_nulls(True)
               .show_points(common.VisibilityMode.ALWAYS if points else common.VisibilityMode.AUTO)
               .legend(common_builders.VizLegendOptions().show_legend(True)
                       .display_mode(common.LegendDisplayMode.TABLE)
                       .placement(common.LegendPlacement.BOTTOM).calcs(["lastNotNull", "max"]))
               .tooltip(common_builders.VizTooltipOptions().mode(common.TooltipDisplayMode.MULTI)
                        .sort(common.SortOrder.DESCENDING)))
    if stacked or share:
        mode = common.StackingMode.PERCENT if share else common.StackingMode.NORMAL
        builder = builder.stacking(common_builders.StackingConfig().mode(mode).group("A"))
    if log:
        builder = builder.scale_distribution(
            common_builders.ScaleDistributionConfig().type(common.ScaleDistribution.LOG).log(10))
    if limits is not None:
        builder = builder.thresholds_style(
            common_builders.GraphThresholdsStyleConfig().mode(common.GraphThresholdsStyleMode.DASHED))
    if low is not None:
        builder = builder.min(low)
    if high is not None:
        builder = builder.max(high)
    return builder


def density(title, description, histogram, unit="s", width=12, height=8):
    """The distribution of a histogram's observations, over time."""
    name, brace, rest = histogram.partition("{")
    query = target(total(increase(f"{name}_bucket{brace}{rest}"), "le"), "{{le}}",
                   form=prometheus_models.PromQueryFormat.HEATMAP)
    builder = _panel(heatmap.Panel(), title, description, [query], width, height, unit, None, None)
    return (builder.calculate(False)
            .y_axis(heatmap.YAxisConfig().unit(unit).axis_placement(common.AxisPlacement.LEFT))
            .color(heatmap.HeatmapColorOptions().mode(heatmap_models.HeatmapColorMode.SCHEME)
                   .scheme("Blues").steps(64).reverse(False).fill("dark-blue")
                   .scale(heatmap_models.HeatmapColorScale.EXPONENTIAL).exponent(0.5))
            .filter_values(heatmap.FilterValueRange().le(1e-9))
            .cell_gap(1).show_legend()
            .mode(common.TooltipDisplayMode.SINGLE))


def states(title, description, query, names, width=24, height=7):
    """The states over time, as bars."""
    builder = _panel(statetimeline.Panel(), title, description, [query], width, height, None, (GREY,),
                     names)
    return (builder.show_value(common.VisibilityMode.NEVER).row_height(0.8).merge_values(True)
            .fill_opacity(80).line_width(0)
            .legend(common_builders.VizLegendOptions().show_legend(True)
                    .display_mode(common.LegendDisplayMode.LIST)
                    .placement(common.LegendPlacement.BOTTOM).calcs([]))
            .tooltip(common_builders.VizTooltipOptions().mode(common.TooltipDisplayMode.SINGLE)
                     .sort(common.SortOrder.NONE)))


# The target of a row's link: a dashboard with the current choices and the row's own.
TO_WORKER = ("workers", "${cluster:queryparam}&${namespace:queryparam}&${run:queryparam}&var-worker=${__value.raw}")
TO_RUN = ("overview", "${__data.fields.page:raw}")


def with_page(expr):
    """The expression with a label `page`: the run as variables of a dashboard. The query writes it, as Grafana has no
    field for a missing label, and a cluster's name is seldom there."""
    for name in ("cluster", "namespace", "run"):
        expr = f'label_replace({expr}, "var_{name}", "var-{name}=$1", "{name}", "(.*)")'
    expr = f'label_join({expr}, "page", "&", "var_cluster", "var_namespace", "var_run")'
    return f"sum by ({RUN_LABELS}, page) ({expr})"


def grid(title, description, keys, columns, link, width=24, height=8):
    """A table of one row for each value of the labels `keys`: columns of (name, query, unit, limits or value names);
    the last key links to `link`."""
    queries = [target(query, instant=True, form=prometheus_models.PromQueryFormat.TABLE)
               for _, query, _, _ in columns]
    builder = _panel(table.Panel(), title, description, queries, width, height, "short", (GREY,), None)
    builder = (builder.show_header(True).frame_index(0).align(common.FieldTextAlignment.AUTO)
               .inspect(False))
    renamed = {f"Value #{chr(ord('A') + place)}": column[0] for place, column in enumerate(columns)}
    renamed.update({key: key.capitalize() for key in keys})
    builder = builder.with_transformation(dashboard.DataTransformerConfig(id_val="merge", options={}))
    builder = builder.with_transformation(dashboard.DataTransformerConfig(
        id_val="organize", options={"excludeByName": {"Time": True}, "renameByName": renamed}))
    uid, variables = link
    builder = builder.override_by_name(keys[-1].capitalize(), [dashboard.DynamicConfigValue(id_val="links", value=[
        {"title": f"Its page: {uid}",
         "url": f"/d/longwave-{uid}?${{datasource:queryparam}}&{variables}&${{__url_time_range}}"}])])
    if link is TO_RUN:
        builder = builder.override_by_name("page", [dashboard.DynamicConfigValue(id_val="custom.hidden", value=True)])
    for name, _, unit, limits in columns:
        if limits and isinstance(limits[0], tuple):
            builder = builder.override_by_name(name, [
                dashboard.DynamicConfigValue(id_val="mappings", value=named_values(limits)),
                dashboard.DynamicConfigValue(id_val="custom.cellOptions", value={"type": "color-text"}),
                dashboard.DynamicConfigValue(id_val="unit", value=unit)])
            continue
        properties = [dashboard.DynamicConfigValue(id_val="unit", value=unit)]
        if limits:
            properties += [
                dashboard.DynamicConfigValue(id_val="thresholds", value=steps(*limits).build()),
                dashboard.DynamicConfigValue(id_val="custom.cellOptions",
                                             value={"type": "color-text"})]
        builder = builder.override_by_name(name, properties)
    return builder


def alert_list(title, description, labels, width=24, height=6):
    """The firing and pending alerts of the series with these labels: matchers."""
    return (board_builders.Panel().type("alertlist").title(title).description(description).span(width).height(height)
            .options({"viewMode": "list", "groupMode": "default", "groupBy": [], "maxItems": 50, "sortOrder": 3,
                      "dashboardAlerts": False, "alertName": "Longwave",
                      "alertInstanceLabelFilter": "{%s}" % ", ".join(labels),
                      "stateFilter": {"firing": True, "pending": True, "noData": False, "normal": False,
                                      "error": True}}))


def row(title):
    return board_builders.Row(title)


# ------------------------------------------------------------------------------- variables, annotations

CLUSTER, NAMESPACE, RUN, WORKER, SHARD = "cluster", "namespace", "run", "worker", "shard"
RUN_LABELS = f"{CLUSTER}, {NAMESPACE}, {RUN}"
_IN_RUN = "{%s}" % ", ".join(RUN_CHOSEN)
_WHAT = {
    CLUSTER: ("Cluster", "longwave_build_info", "The cluster, where Prometheus knows of several."),
    NAMESPACE: ("Namespace", 'longwave_build_info{cluster=~"$cluster"}', "The namespace, on Kubernetes."),
    RUN: ("Run", 'longwave_build_info{cluster="$cluster", namespace="$namespace"}', "The run that is shown."),
    WORKER: ("Worker", f"longwave_worker_state{_IN_RUN}", "The workers that are shown."),
    SHARD: ("Shard", f"longwave_shard_round{_IN_RUN}", "The shards that are shown."),
}


def _variable(name, several):
    label, series, description = _WHAT[name]
    builder = (board_builders.QueryVariable(name).label(label).description(description)
               .datasource(SOURCE)
               .query({"query": f"label_values({series}, {name})",
                       "refId": "PrometheusVariableQueryEditor-VariableQuery"})
               .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
               .sort(dashboard.VariableSort.NATURAL_ASC))
    if several:
        everything = dashboard.VariableOption(selected=True, text="All", value="$__all")
        # A worker has a name; a cluster or namespace may be unknown.
        named = ".*" if name in (CLUSTER, NAMESPACE) else ".+"
        builder = builder.multi(True).include_all(True).all_value(named).current(everything)
    return builder


class PrometheusAnnotation(dashboard.AnnotationQuery):
    """An annotation with the fields that Grafana's Prometheus data source adds to every annotation's."""

    step = "60s"
    title_format = ""

    def to_json(self):
        return {**super().to_json(), "step": self.step, "titleFormat": self.title_format}


class _Annotation:
    def __init__(self, name, expr, color, title):
        self._built = PrometheusAnnotation(name=name, datasource=SOURCE, icon_color=color, expr=expr)
        self._built.title_format = title

    def build(self):
        return self._built


def _lately(series, by):
    # The window is somewhat longer than the step, so that no change falls between two windows.
    return f"sum by ({by}) (increase({series}[90s])) > 0"


_START = 'max without (instance, pod) (last_over_time(process_start_time_seconds%s%s))'


def annotations():
    """Events from the counters: the same in every dashboard."""
    return [
        _Annotation("Joins", _lately(s("coordinator_joins_total"), "how"),
                    GREEN, "A worker joined ({{how}})"),
        _Annotation("Departures",
                    _lately(s("coordinator_departures_total"), "reason"),
                    ORANGE, "A worker is gone ({{reason}})"),
        # A restarted process began later than its predecessor, however long it was away. The comparison needs some
        # seconds, since Linux rounds its boot time to seconds either way.
        _Annotation("Crashes", _START % (_IN_RUN, "[90s]") + " - " + _START % (_IN_RUN, "[1h] offset 90s") + " > 5",
                    RED, "Started again: {{worker}}{{shard}}"),
        _Annotation("Snapshots",
                    _lately(process("longwave_shard_snapshots_written_total", 'kind="model"'), "shard"),
                    BLUE, "Shard {{shard}} has written snapshots of the parameters"),
    ]


def board(uid, title, description, parts, variables=(), of_a_run=True):
    """A dashboard of panels and rows in their order."""
    builder = (board_builders.Dashboard(f"Longwave / {title}").uid(f"longwave-{uid}")
               .description(description).tags(["longwave"]).editable()
               .tooltip(dashboard.DashboardCursorSync.CROSSHAIR).refresh("10s")
               .time("now-30m", "now").timezone("browser")
               .link(board_builders.DashboardLink("Longwave")
                     .type(dashboard.DashboardLinkType.DASHBOARDS).tags(["longwave"])
                     .as_dropdown(True).include_vars(True).keep_time(True))
               .with_variable(board_builders.DatasourceVariable("datasource").label("Data source")
                              .description("The Prometheus that scrapes the run.").type("prometheus")))
    for name in (CLUSTER, NAMESPACE, *((RUN,) if of_a_run else ()), *variables):
        several = name in variables or not of_a_run
        builder = builder.with_variable(_variable(name, several))
    for annotation in annotations() if of_a_run else ():
        builder = builder.annotation(annotation)
    for place, part in enumerate(parts, start=1):
        part = part.id(place)
        builder = (builder.with_row(part) if isinstance(part, board_builders.Row)
                   else builder.with_panel(part))
    return builder.build()
