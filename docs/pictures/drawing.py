"""Draws a dashboard in Grafana's layout, from its queries' results: for the documentation. Every kind of panel in use
is drawn, each in the plainest way that shows its content."""

import math
import re

import matplotlib

matplotlib.use("Agg")
from matplotlib import dates, pyplot, ticker  # noqa: E402

import metrics  # noqa: E402

WIDTH_IN, ROW_IN, DPI = 13.0, 0.30, 100
COLORS = {"green": "#56a64b", "yellow": "#d9a400", "orange": "#ff780a", "red": "#e02f44",
          "blue": "#3274d9", "purple": "#a352cc", "text": "#555555", "dark-blue": "#1f4e9e"}
CURVES = ["#3274d9", "#ff780a", "#56a64b", "#a352cc", "#e02f44", "#d9a400", "#14a3a3", "#8a6d3b", "#777777",
          "#e377c2"]
pyplot.rcParams.update({"font.size": 7, "axes.spines.top": False, "axes.spines.right": False,
                        "axes.edgecolor": "#bbbbbb", "axes.linewidth": 0.6, "xtick.color": "#666666",
                        "ytick.color": "#666666", "axes.titlesize": 8, "axes.titleweight": "bold"})


def _scaled(value, names, base):
    size = abs(value)
    for name in names[:-1]:
        if size < base:
            break
        size, value = size / base, value / base
    else:
        name = names[-1]
    return f"{value:.3g}{name}" if abs(value) < 1000 else f"{value:.0f}{name}"


def formatted(value, unit, decimals=None):
    """A value in Grafana's format for that unit."""
    if value is None or not math.isfinite(value):
        return "∞" if value is not None and math.isinf(value) else "no data"
    if unit == "percentunit":
        return f"{100 * value:.{1 if decimals is None else decimals}f} %"
    if unit == "decbytes":
        return _scaled(value, [" B", " kB", " MB", " GB", " TB"], 1000)
    if unit == "bytes":
        return _scaled(value, [" B", " KiB", " MiB", " GiB", " TiB"], 1024)
    if unit == "Bps":
        return _scaled(value, [" B/s", " kB/s", " MB/s", " GB/s"], 1000)
    if unit in ("s", "dtdurations"):
        if abs(value) < 1e-3:
            return f"{value * 1e6:.3g} µs" if value else "0 s"
        if abs(value) < 1:
            return f"{value * 1e3:.3g} ms"
        for size, name in ((86400, "d"), (3600, "h"), (60, "min")):
            if abs(value) >= 2 * size:
                return f"{value / size:.3g} {name}"
        return f"{value:.3g} s"
    if unit == "cps":
        return f"{value:.3g} /s"
    if unit == "sci":
        return f"{value:.2e}"
    if unit == "none":
        return f"{value:.{decimals}f}" if decimals is not None else f"{value:.4g}"
    if unit.startswith("suffix:"):
        return f"{value:.0f} {unit.removeprefix('suffix:')}"
    return _scaled(value, ["", " K", " Mil", " Bil"], 1000) if abs(value) >= 1000 else f"{value:.3g}"


def _legend(template, labels):
    if not template:
        return ", ".join(f"{key}={value}" for key, value in labels.items() if key != "__name__")
    return re.sub(r"{{(\w+)}}", lambda match: labels.get(match.group(1), ""), template).strip()


class Drawing:
    """A dashboard of a run between two times."""

    def __init__(self, prometheus, board, run, start, end, step, window_s):
        self.prometheus, self.board, self.run = prometheus, board, run
        self.start, self.end, self.step, self.window_s = start, end, step, window_s

    def over(self, target):
        expr = metrics.chosen(target["expr"], self.run, self.window_s, self.end - self.start)
        return [(_legend(target.get("legendFormat", ""), labels), labels, times, values)
                for labels, times, values in self.prometheus.over(expr, self.start, self.end, self.step)]

    def save(self, path):
        rows = max(panel["gridPos"]["y"] + panel["gridPos"]["h"] for panel in self.board["panels"]) + 2
        figure = pyplot.figure(figsize=(WIDTH_IN, rows * ROW_IN), dpi=DPI, facecolor="#f4f5f5")
        figure.text(0.012, 1 - 1.2 / rows, self.board["title"], fontsize=13, fontweight="bold")
        self.events = self._events()
        for place, (name, color, times) in enumerate(reversed(self.events)):
            figure.text(0.99 - 0.085 * place, 1 - 1.2 / rows, f"┊ {name} ({len(times)})", ha="right",
                        fontsize=7.5, color=color)
        for panel in self.board["panels"]:
            place = panel["gridPos"]
            box = (place["x"] / 24, 1 - (place["y"] + place["h"] + 2) / rows, place["w"] / 24,
                   place["h"] / rows)
            if panel["type"] == "row":
                figure.text(0.012, box[1] + 0.25 / rows, panel["title"], fontsize=10, color="#444444")
                continue
            self._background(figure, box, rows)
            draw = getattr(self, "_" + panel["type"].replace("-", "_"))
            draw(figure, box, rows, panel)
        figure.savefig(path, facecolor=figure.get_facecolor())
        pyplot.close(figure)

    def _events(self):
        """The annotations' events: (name, colour, times)."""
        found = []
        for annotation in self.board["annotations"].get("list", []):
            expr = metrics.chosen(annotation["expr"], self.run, self.window_s)
            times = [at for _, series, _ in self.prometheus.over(expr, self.start, self.end, self.step)
                     for at in series]
            # The query holds for the whole window; only the event's beginning is drawn.
            begins = [at for at in sorted(set(times)) if at - self.step not in times]
            found.append((annotation["name"], COLORS[annotation["iconColor"]], begins))
        return found

    @staticmethod
    def _background(figure, box, rows):
        gap = (0.0025, 0.12 / rows)
        figure.add_artist(pyplot.Rectangle((box[0] + gap[0], box[1] + gap[1]), box[2] - 2 * gap[0],
                                           box[3] - 2 * gap[1], facecolor="white", edgecolor="#dddddd",
                                           linewidth=0.6, transform=figure.transFigure, zorder=-1))

    @staticmethod
    def _axes(figure, box, rows, title, below):
        left, right = 0.034, 0.008
        axes = figure.add_axes((box[0] + left, box[1] + below / rows, box[2] - left - right,
                                box[3] - (below + 1.25) / rows))
        figure.text(box[0] + 0.007, box[1] + box[3] - 0.85 / rows, title, fontsize=8, fontweight="bold")
        return axes

    def _along_time(self, axes):
        axes.set_xlim(dates.date2num([_time(self.start), _time(self.end)]))
        axes.xaxis.set_major_locator(dates.AutoDateLocator(minticks=3, maxticks=6))
        axes.xaxis.set_major_formatter(dates.DateFormatter("%H:%M:%S"))
        axes.tick_params(length=2, pad=1, labelsize=6)

    def _stat(self, figure, box, rows, panel):
        defaults = panel["fieldConfig"]["defaults"]
        found = self.over(panel["targets"][0])
        values = [value for value in (found[0][3] if found else []) if math.isfinite(value)]
        value = values[-1] if values else None
        text = formatted(value, defaults.get("unit", "short"), defaults.get("decimals"))
        color = self._color(value, defaults)
        for mapping in defaults.get("mappings", []):
            result = mapping["options"].get(str(int(value)) if value is not None else "")
            if result:
                text, color = result["text"], COLORS[result["color"]]
        figure.text(box[0] + box[2] / 2, box[1] + box[3] - 0.85 / rows, panel["title"], fontsize=7.5,
                    ha="center", color="#444444")
        figure.text(box[0] + box[2] / 2, box[1] + box[3] * 0.42, text, fontsize=15, fontweight="bold",
                    ha="center", va="center", color=color)
        if panel["options"]["graphMode"] == "area" and len(values) > 1:
            axes = figure.add_axes((box[0] + 0.006, box[1] + 0.2 / rows, box[2] - 0.012, 0.9 / rows))
            axes.axis("off")
            axes.plot(values, color=color, linewidth=0.8)
            axes.fill_between(range(len(values)), min(values), values, color=color, alpha=0.15)

    @staticmethod
    def _color(value, defaults):
        color = "blue"
        for threshold in defaults.get("thresholds", {}).get("steps", []):
            if threshold["value"] is None or (value is not None and value >= threshold["value"]):
                color = threshold["color"]
        return COLORS[color]

    def _timeseries(self, figure, box, rows, panel):
        defaults = panel["fieldConfig"]["defaults"]
        custom, unit = defaults.get("custom", {}), defaults.get("unit", "short")
        found = [one for target in panel["targets"] for one in self.over(target)]
        found.sort(key=lambda one: one[0])
        shown = found[:10]
        lines = (len(shown) + 2) // 3
        axes = self._axes(figure, box, rows, panel["title"], 1.35 + 0.55 * lines)
        if not found:
            self._nothing(axes)
        mode = custom.get("stacking", {}).get("mode", "none")
        if mode == "none":
            for color, (_, _, times, values) in zip(CURVES, shown):
                axes.plot([_time(at) for at in times], values, color=color, linewidth=1)
        elif found:
            self._stacked(axes, shown, mode == "percent")
        scale = custom.get("scaleDistribution", {})
        if scale.get("type") == "log":
            axes.set_yscale("log")
            axes.yaxis.set_minor_formatter(ticker.NullFormatter())
        bottom, top = axes.get_ylim()
        if custom.get("thresholdsStyle", {}).get("mode") == "dashed":
            for threshold in defaults["thresholds"]["steps"]:
                value = threshold["value"]
                if value is not None and value <= max(top, defaults.get("max", top)):
                    axes.axhline(value, color=COLORS[threshold["color"]], linewidth=0.7,
                                 linestyle=(0, (4, 3)))
        axes.set_ylim(defaults.get("min", bottom), defaults.get("max", top if top > bottom else None))
        if mode == "percent":
            axes.set_ylim(0, 1)
        axes.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: formatted(value, unit)))
        if scale.get("type") != "log":
            axes.yaxis.set_major_locator(ticker.MaxNLocator(4))
        axes.grid(axis="y", color="#eeeeee", linewidth=0.6)
        for _, color, times in self.events:
            for at in times:
                axes.axvline(_time(at), color=color, linewidth=0.7, linestyle=":")
        self._along_time(axes)
        for place, (color, (name, _, _, values)) in enumerate(zip(CURVES, shown)):
            finite = [value for value in values if math.isfinite(value)]
            figure.text(box[0] + 0.008 + (place % 3) * (box[2] - 0.01) / 3,
                        box[1] + (0.30 + 0.55 * (lines - 1 - place // 3)) / rows,
                        f"▬ {name}  {formatted(finite[-1] if finite else None, unit)}", fontsize=6,
                        color=color)

    @staticmethod
    def _nothing(axes):
        axes.text(0.5, 0.5, "no data", transform=axes.transAxes, ha="center", va="center", color="#999999")

    @staticmethod
    def _stacked(axes, shown, percent):
        times = sorted({at for _, _, when, _ in shown for at in when})
        layers = []
        for _, _, when, values in shown:
            known = dict(zip(when, values))
            layers.append([known.get(at, 0) if math.isfinite(known.get(at, 0)) else 0 for at in times])
        if percent:
            sums = [sum(column) or 1 for column in zip(*layers)]
            layers = [[value / whole for value, whole in zip(layer, sums)] for layer in layers]
        axes.stackplot([_time(at) for at in times], layers, colors=CURVES, alpha=0.7, linewidth=0)

    def _heatmap(self, figure, box, rows, panel):
        axes = self._axes(figure, box, rows, panel["title"], 1.4)
        found = sorted(((float(labels["le"]), dict(zip(times, values)))
                        for _, labels, times, values in self.over(panel["targets"][0])),
                       key=lambda one: one[0])
        times = sorted({at for _, known in found for at in known})
        # The buckets are cumulative; a cell is the difference to the bucket below.
        cells, below = [], {}
        for _, known in found:
            cells.append([max(0.0, known.get(at, 0) - below.get(at, 0)) for at in times])
            below = known
        used = [place for place, row in enumerate(cells) if any(value > 1e-9 for value in row)]
        if not used:
            axes.set_yticks([])
            self._nothing(axes)
            return self._along_time(axes)
        low, high = max(0, used[0] - 1), min(len(cells), used[-1] + 2)
        shown = [[value if value > 1e-9 else math.nan for value in row] for row in cells[low:high]]
        axes.pcolormesh(dates.date2num([_time(at) for at in times]), range(high - low), shown, cmap="Blues",
                        shading="nearest", vmin=0)
        axes.set_yticks(range(high - low))
        axes.set_yticklabels([formatted(bound, panel["options"]["yAxis"]["unit"])
                              for bound, _ in found[low:high]])
        return self._along_time(axes)

    def _state_timeline(self, figure, box, rows, panel):
        axes = self._axes(figure, box, rows, panel["title"], 2.0)
        results = panel["fieldConfig"]["defaults"]["mappings"][0]["options"]
        found = sorted(self.over(panel["targets"][0]), key=lambda one: one[0])
        for place, (_, _, times, values) in enumerate(found):
            for at, value in zip(times, values):
                result = results.get(str(int(value)))
                if result:
                    axes.barh(place, self.step / 86400, left=dates.date2num(_time(at)), height=0.7,
                              color=COLORS[result["color"]], linewidth=0)
        axes.set_yticks(range(len(found)))
        axes.set_yticklabels([name for name, _, _, _ in found])
        self._along_time(axes)
        for place, result in enumerate(results.values()):
            figure.text(box[0] + 0.035 + place * 0.08, box[1] + 0.35 / rows, f"■ {result['text']}",
                        fontsize=6.5, color=COLORS[result["color"]])

    def _alertlist(self, figure, box, rows, panel):
        figure.text(box[0] + 0.007, box[1] + box[3] - 0.85 / rows, panel["title"], fontsize=8, fontweight="bold")
        found = [labels for labels, _ in self.prometheus.now("ALERTS", self.end)]
        for place, labels in enumerate(found or [None]):
            text = f"{labels['alertname']}  {labels['alertstate']}  {labels['severity']}" if labels else "no alert"
            figure.text(box[0] + 0.01, box[1] + box[3] - (2.0 + place * 1.0) / rows, text, fontsize=7.5,
                        color=COLORS["red" if labels and labels["alertstate"] == "firing" else "orange" if labels else "text"])

    def _table(self, figure, box, rows, panel):
        key = re.findall(r"by \((?:\w+, )*(\w+)\)", panel["targets"][-1]["expr"])[0]
        renamed = panel["transformations"][1]["options"]["renameByName"]
        units = {one["matcher"]["options"]: {item["id"]: item["value"] for item in one["properties"]}
                 for one in panel["fieldConfig"]["overrides"]}
        table = {}
        for target in panel["targets"]:
            expr = metrics.chosen(target["expr"], self.run, self.window_s, self.end - self.start)
            for labels, value in self.prometheus.now(expr, self.end):
                table.setdefault(labels[key], {})[renamed[f"Value #{target['refId']}"]] = value
        figure.text(box[0] + 0.007, box[1] + box[3] - 0.85 / rows, panel["title"], fontsize=8,
                    fontweight="bold")
        columns = [renamed[f"Value #{target['refId']}"] for target in panel["targets"]]
        wide = (box[2] - 0.02) / (len(columns) + 1)
        for down, name in enumerate([None, *sorted(table)]):
            y = box[1] + box[3] - (2.1 + down * 1.1) / rows
            figure.text(box[0] + 0.01, y, name or renamed[key], fontsize=7.5,
                        color="#3274d9" if name is None else "black")
            for across, column in enumerate(columns, start=1):
                options = units[column]
                value = table[name].get(column) if name else None
                named = value is not None and "mappings" in options and options["mappings"][0]["options"].get(str(int(value)))
                color = (self._color(value, {"thresholds": options["thresholds"]})
                         if name and "thresholds" in options else "black" if name else "#3274d9")
                figure.text(box[0] + 0.01 + across * wide, y,
                            named["text"] if named else formatted(value, options["unit"]) if name else column,
                            fontsize=7.5, color=COLORS[named["color"]] if named else color)


def _time(at):
    return dates.num2date(at / 86400)
