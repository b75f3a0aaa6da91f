"""What the dashboards are made of: queries, panels, rows, variables and annotations, each in the one form
that all of them use. A dashboard is a file of its own beside this one, and says only what it shows."""

import re

from grafana_foundation_sdk.builders import common as common_builders
from grafana_foundation_sdk.builders import (dashboard as board_builders, heatmap, prometheus, stat,
                                             statetimeline, table, timeseries)
from grafana_foundation_sdk.models import common, dashboard, heatmap as heatmap_models
from grafana_foundation_sdk.models import prometheus as prometheus_models

SOURCE = dashboard.DataSourceRef(type_val="prometheus", uid="${datasource}")
GREEN, YELLOW, ORANGE, RED, BLUE, PURPLE, GREY = (
    "green", "yellow", "orange", "red", "blue", "purple", "text")

# ---------------------------------------------------------------------------------------------- queries


def s(name, *matchers):
    """The series longwave_NAME of the run that is chosen, and of the shards or workers that are."""
    part = name.split("_")[0]
    chosen = {"worker": ['worker=~"$worker"'], "shard": ['shard=~"$shard"']}.get(part, [])
    return "longwave_%s{%s}" % (name, ", ".join(['run="$run"', *chosen, *matchers]))


def process(name, *matchers):
    """A series that every process has, of the run that is chosen."""
    return "%s{%s}" % (name, ", ".join(['run="$run"', *matchers]))


def rate(series):
    return f"rate({series}[$__rate_interval])"


def increase(series):
    return f"increase({series}[$__rate_interval])"


def total(series, by=None):
    return f"sum by ({by}) ({series})" if by else f"sum({series})"


def quantile(share, histogram, by=None):
    """The quantile of what a histogram (without _bucket) has counted lately."""
    name, brace, rest = histogram.partition("{")
    labels = f"le, {by}" if by else "le"
    return f"histogram_quantile({share}, {total(rate(f'{name}_bucket{brace}{rest}'), labels)})"


def mean(histogram, by=None):
    """The mean of what a histogram has counted lately."""
    name, brace, rest = histogram.partition("{")
    sums, counts = (total(rate(f"{name}_{end}{brace}{rest}"), by) for end in ("sum", "count"))
    return f"{sums} / {counts}"


def one_hot(name, label, values, by=None):
    """A number that says which value of `label` is set: its place in `values`."""
    terms = ["%d * %s" % (place, s(name, '%s="%s"' % (label, value)))
             for place, value in enumerate(values)]
    return total(" or ".join(terms), by)


def target(expr, legend="", instant=False, form=None):
    """A query. A process that comes back at another address, as a pod does, stays one curve."""
    if not re.match(r"(sum|min|max|avg|histogram_quantile)\b", expr):
        expr = f"max without (instance, pod) ({expr})"
    query = prometheus.Dataquery().expr(expr).datasource(SOURCE)
    query = query.instant() if instant else query.range()
    if legend:
        query = query.legend_format(legend)
    if form is not None:
        query = query.format(form)
    return query


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


def _panel(builder, title, description, queries, width, height, unit, limits, names):
    builder = (builder.title(title).description(description).datasource(SOURCE)
               .span(width).height(height))
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
    """One number, as it stands now, with its past behind it."""
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
    """How a histogram's observations were spread, over time."""
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
    """What each was when, as bars along time."""
    builder = _panel(statetimeline.Panel(), title, description, [query], width, height, None, (GREY,),
                     names)
    return (builder.show_value(common.VisibilityMode.NEVER).row_height(0.8).merge_values(True)
            .fill_opacity(80).line_width(0)
            .legend(common_builders.VizLegendOptions().show_legend(True)
                    .display_mode(common.LegendDisplayMode.LIST)
                    .placement(common.LegendPlacement.BOTTOM).calcs([]))
            .tooltip(common_builders.VizTooltipOptions().mode(common.TooltipDisplayMode.SINGLE)
                     .sort(common.SortOrder.NONE)))


def grid(title, description, key, columns, width=24, height=8):
    """A table of one row for each value of the label `key`: columns of (name, query, unit, limits)."""
    queries = [target(query, instant=True, form=prometheus_models.PromQueryFormat.TABLE)
               for _, query, _, _ in columns]
    builder = _panel(table.Panel(), title, description, queries, width, height, "short", (GREY,), None)
    builder = (builder.show_header(True).frame_index(0).align(common.FieldTextAlignment.AUTO)
               .inspect(False))
    renamed = {f"Value #{chr(ord('A') + place)}": column[0] for place, column in enumerate(columns)}
    renamed[key] = key.capitalize()
    builder = builder.with_transformation(dashboard.DataTransformerConfig(id_val="merge", options={}))
    builder = builder.with_transformation(dashboard.DataTransformerConfig(
        id_val="organize", options={"excludeByName": {"Time": True}, "renameByName": renamed}))
    for name, _, unit, limits in columns:
        properties = [dashboard.DynamicConfigValue(id_val="unit", value=unit)]
        if limits:
            properties += [
                dashboard.DynamicConfigValue(id_val="thresholds", value=steps(*limits).build()),
                dashboard.DynamicConfigValue(id_val="custom.cellOptions",
                                             value={"type": "color-text"})]
        builder = builder.override_by_name(name, properties)
    return builder


def row(title):
    return board_builders.Row(title)


# ------------------------------------------------------------------------------- variables, annotations

RUN = "run"
WORKER = "worker"
SHARD = "shard"
_WHAT = {
    RUN: ("Run", "longwave_build_info", "The run that is shown."),
    WORKER: ("Worker", 'longwave_worker_state{run="$run"}', "The workers that are shown."),
    SHARD: ("Shard", 'longwave_shard_round{run="$run"}', "The shards that are shown."),
}


def _variable(name):
    label, series, description = _WHAT[name]
    builder = (board_builders.QueryVariable(name).label(label).description(description)
               .datasource(SOURCE)
               .query({"query": f"label_values({series}, {name})",
                       "refId": "PrometheusVariableQueryEditor-VariableQuery"})
               .refresh(dashboard.VariableRefresh.ON_TIME_RANGE_CHANGED)
               .sort(dashboard.VariableSort.NATURAL_ASC))
    if name != RUN:
        everything = dashboard.VariableOption(selected=True, text="All", value="$__all")
        builder = builder.multi(True).include_all(True).all_value(".+").current(everything)
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
    # A window somewhat longer than the step, so that no change falls between two of them.
    return f"sum by ({by}) (increase({series}[90s])) > 0"


_START = 'max without (instance, pod) (last_over_time(process_start_time_seconds{run="$run"}%s))'


def annotations():
    """What happened, from the counters: in every dashboard the same."""
    return [
        _Annotation("Joins", _lately('longwave_coordinator_joins_total{run="$run"}', "how"),
                    GREEN, "A worker joined ({{how}})"),
        _Annotation("Departures",
                    _lately('longwave_coordinator_departures_total{run="$run"}', "reason"),
                    ORANGE, "A worker is gone ({{reason}})"),
        # A process that is started again, however long it was away, began later than the one before;
        # by seconds, since Linux counts from a boot that it rounds now to one second, now to the next.
        _Annotation("Crashes", _START % "[90s]" + " - " + _START % "[1h] offset 90s" + " > 5",
                    RED, "Started again: {{worker}}{{shard}}"),
        _Annotation("Snapshots",
                    _lately('longwave_shard_snapshots_written_total{run="$run", kind="model"}',
                            "shard"),
                    BLUE, "Shard {{shard}} has written snapshots of the parameters"),
    ]


def board(uid, title, description, parts, variables=()):
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
    for name in (RUN, *variables):
        builder = builder.with_variable(_variable(name))
    for annotation in annotations():
        builder = builder.annotation(annotation)
    for place, part in enumerate(parts, start=1):
        part = part.id(place)
        builder = (builder.with_row(part) if isinstance(part, board_builders.Row)
                   else builder.with_panel(part))
    return builder.build()
