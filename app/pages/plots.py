"""The report's figures as plotly specifications (plain data; the drawing is done by plotly.js in the browser)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import numpy as np

from ...sim.statistics import throughput_over_time
from ..terminal.work import JobOutcome

Figure = dict[str, Any]

# Okabe and Ito's palette, distinct for every kind of colour vision (jfly.uni-koeln.de/color); yellow left out,
# since it is not seen on white paper.
COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#444444")
PATTERNS = ("", "/", ".", "x")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")

QUANTILES = np.unique(np.concatenate([np.linspace(0, 0.99, 200), np.linspace(0.99, 0.999, 60), [0.9995, 0.9999, 1.0]]))
TIME_BINS = 40
LOG_FROM_RATIO = 30
"""Slowest over fastest operation from which on a logarithmic axis reads better."""
SPREAD = 16
"""Largest over smallest of a figure's few values from which on a logarithmic axis reads better."""
MOST_TICKS = 6
LEGEND_LETTERS = 90
"""Letters that a row of a legend has room for in a window of 800 pixels."""
LEGEND_SIGN = 8
"""Letters that an entry's piece of line takes."""
LETTER = 0.0085
"""Share of the axis that a letter needs: shorter bars go without their name (it is in the legend)."""


def latency(outcomes: Sequence[JobOutcome]) -> Figure:
    """Cumulative distribution of latency, a panel per operation."""
    operations = _operations(outcomes)
    layout = _layout(380, _names(outcomes))
    traces = []
    for column, f in enumerate(operations):
        samples = [np.asarray(o.latency_ps[f]) / 1e6 for o in outcomes if len(o.latency_ps.get(f, []))]
        low, high = min(s.min() for s in samples), max(s.max() for s in samples)
        axis: Figure = {
            "title": {"text": f"{f}: latency in us"},
            "rangemode": "tozero",
            "domain": _domain(column, operations),
        }
        if low > 0 and high / low > LOG_FROM_RATIO:
            axis |= {"type": "log", "dtick": 1}
        layout[_axis("xaxis", column)] = _GRID | axis | {"anchor": _axis("y", column)}
        layout[_axis("yaxis", column)] = _GRID | {
            "title": {"text": "share of operations"} if column == 0 else {},
            "range": [0, 1.01],
            "tickformat": ".0%",
            "anchor": _axis("x", column),
        }
        for outcome, style in _styled(outcomes):
            values = outcome.latency_ps.get(f, [])
            if len(values):
                x = np.quantile(np.asarray(values) / 1e6, QUANTILES, method="inverted_cdf")
                traces.append(
                    _line(outcome, style, x, QUANTILES, "%{x:.3f} us: %{y:.2%}", show=column == 0)
                    | {"xaxis": _axis("x", column), "yaxis": _axis("y", column)}
                )
    return {"data": traces, "layout": layout}


def is_spread(values: Sequence[float]) -> bool:
    """Whether an axis along these values reads better if it is logarithmic."""
    return min(values) > 0 and max(values) >= SPREAD * min(values)


def axis_along(values: Sequence[float]) -> Figure:
    """An x axis for points at these values; some of them are its ticks if they are spread, or only one is there."""
    if not is_spread(values) and min(values) < max(values):
        return {"type": "linear"}
    known = sorted(set(values))
    ticks = known[:: -(-len(known) // MOST_TICKS)]
    kind = "log" if is_spread(values) else "linear"
    return {"type": kind, "tickvals": ticks, "ticktext": [f"{value:.10g}" for value in ticks]}


def throughput(outcomes: Sequence[JobOutcome]) -> Figure:
    """Completed operations of all kinds per second over simulated time."""
    layout = _layout(340, _names(outcomes))
    layout["xaxis"] = _GRID | {"title": {"text": "simulated time in us"}}
    layout["yaxis"] = _GRID | {"title": {"text": "thousand ops/s"}, "rangemode": "tozero"}
    traces = []
    for outcome, style in _styled(outcomes):
        times = np.array([ps for completed in outcome.completed_ps.values() for ps in completed], dtype=np.int64)
        if len(times) == 0 or outcome.elapsed_ps <= outcome.measured_from_ps:
            continue
        start_ps, end_ps = outcome.measured_from_ps, outcome.elapsed_ps + 1  # what completes last belongs in
        bucket_ps = -(-(end_ps - start_ps) // TIME_BINS)
        begins, rate = throughput_over_time(times, bucket_ps, start_ps, end_ps)
        middle = (begins + np.minimum(begins + bucket_ps, end_ps)) / 2e6
        traces.append(_line(outcome, style, middle, rate / 1e3, "%{x:.1f} us: %{y:,.1f} kops/s"))
    return {"data": traces, "layout": layout}


def hops(outcomes: Sequence[JobOutcome]) -> dict[str, Figure]:
    """Where the time of operations goes in the mean, hop by hop: a figure per operation, a bar per variant."""
    ways = {
        f: [
            (f"{escape(o.scheme)}<br><span style='color:#555'>{escape(o.platform)}</span>", _way(o.hops[f]))
            for o in outcomes
            if f in o.hops
        ]
        for f in sorted({f for outcome in outcomes for f in outcome.hops})
    }
    total: Counter[str] = Counter()
    for _, way in (bar for bars in ways.values() for bar in bars):
        for name, _, length in way:
            total[name] += length
    # The hops that take most of the time get the plain colours, the small ones the patterns.
    style = {name: _fill(rank) for rank, (name, _) in enumerate(total.most_common())}
    return {f: _bars(bars, style) for f, bars in ways.items()}


def _way(found: Sequence[tuple[str, int, int]]) -> list[tuple[str, int, int]]:
    """(name, start since the invocation, length) in ps; which client's CPU it was does not matter here."""
    way: list[tuple[str, int, int]] = []
    for name, start, end in found:
        kind, since = re.sub(r" \d+$", "", name), start - found[0][1]
        if way and way[-1][0] == kind and sum(way[-1][1:]) == since:
            way[-1] = (kind, way[-1][1], way[-1][2] + end - start)
        else:
            way.append((kind, since, end - start))
    return way


def _bars(bars: Sequence[tuple[str, list[tuple[str, int, int]]]], style: Mapping[str, Figure]) -> Figure:
    names = list(dict.fromkeys(name for _, way in bars for name, _, _ in way))
    longest = max((sum(way[-1][1:]) for _, way in bars if way), default=1)
    traces = []
    for name in names:
        own = [(label, start, length) for label, way in bars for hop, start, length in way if hop == name]
        traces.append(
            {
                "type": "bar",
                "orientation": "h",
                "name": name,
                "y": [label for label, _, _ in own],
                "base": [start / 1e6 for _, start, _ in own],
                "x": [length / 1e6 for _, _, length in own],
                "text": [name if length > LETTER * (len(name) + 1) * longest else "" for _, _, length in own],
                "textposition": "inside",
                "insidetextanchor": "middle",
                "textangle": 0,
                "constraintext": "none",
                "hovertemplate": f"{name}: %{{x:.3f}} us, from %{{base:.3f}} us<extra></extra>",
                "marker": style[name],
            }
        )
    layout = _layout(110 + 38 * len(bars), names[: len(names) // 2 + 1])
    layout |= {"barmode": "overlay", "bargap": 0.3}
    layout["xaxis"] = _GRID | {"title": {"text": "us since the operation was invoked"}, "rangemode": "tozero"}
    layout["yaxis"] = {"autorange": "reversed", "automargin": True, "tickfont": {"size": 11}}
    return {"data": traces, "layout": layout}


def _fill(rank: int) -> Figure:
    return {
        "color": COLOURS[rank % len(COLOURS)],
        "line": {"color": "white", "width": 1},
        "pattern": {
            "shape": PATTERNS[rank // len(COLOURS) % len(PATTERNS)],
            "fillmode": "overlay",
            "fgcolor": "white",
            "size": 6,
        },
    }


_GRID: Figure = {
    "gridcolor": "#e2e2e2",
    "linecolor": "#888888",
    "zeroline": False,
    "ticks": "outside",
    "automargin": True,
}


def _names(outcomes: Sequence[JobOutcome]) -> list[str]:
    """What the legend has for each."""
    return [f"{outcome.scheme}, {outcome.platform}" for outcome in outcomes]


def _legend_rows(entries: Sequence[str]) -> int:
    """How many rows a narrow window's legend has: one that needs more than is left for it hides some of its entries."""
    rows, used = 1, 0
    for entry in entries:
        wide = len(entry) + LEGEND_SIGN
        if used and used + wide > LEGEND_LETTERS:
            rows, used = rows + 1, 0
        used += wide
    return rows


def _layout(height: int, entries: Sequence[str]) -> Figure:
    legend = 16 + 30 * _legend_rows(entries)
    return {
        "height": height + legend,
        "margin": {"l": 60, "r": 20, "t": 36, "b": 50 + legend},
        "font": {
            "family": "system-ui, 'Segoe UI', 'Liberation Sans', Arial, sans-serif",
            "size": 13,
            "color": "#1a1a1a",
        },
        "paper_bgcolor": "white",
        "plot_bgcolor": "white",
        "legend": {"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "x": 0},
        "hovermode": "closest",
    }


def figure_layout(height: int, entries: Sequence[str]) -> Figure:
    """A layout with one x axis and one y axis, for a figure with these entries in its legend."""
    return _layout(height, entries) | {"xaxis": dict(_GRID), "yaxis": dict(_GRID)}


def _operations(outcomes: Sequence[JobOutcome]) -> list[str]:
    return sorted({f for outcome in outcomes for f, values in outcome.latency_ps.items() if len(values)})


def _styled(outcomes: Sequence[JobOutcome]) -> list[tuple[JobOutcome, Figure]]:
    """Colour says the scheme, dashes say the platform."""
    schemes = list(dict.fromkeys(outcome.scheme for outcome in outcomes))
    platforms = list(dict.fromkeys(outcome.platform for outcome in outcomes))
    return [
        (
            outcome,
            {
                "color": COLOURS[schemes.index(outcome.scheme) % len(COLOURS)],
                "dash": DASHES[platforms.index(outcome.platform) % len(DASHES)],
                "width": 2,
            },
        )
        for outcome in outcomes
    ]


def _line(outcome: JobOutcome, style: Figure, x: Any, y: Any, hover: str, show: bool = True) -> Figure:
    name = escape(f"{outcome.scheme}, {outcome.platform}")  # plotly reads tags in its texts
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "legendgroup": name,
        "showlegend": show,
        "x": [round(float(value), 6) for value in x],
        "y": [round(float(value), 6) for value in y],
        "line": style,
        "hovertemplate": f"{name}<br>{hover}<extra></extra>",
    }


def _axis(name: str, column: int) -> str:
    return name if column == 0 else f"{name}{column + 1}"


def _domain(column: int, operations: Sequence[str]) -> list[float]:
    share = 1 / len(operations)
    return [column * share + (0.04 if column else 0), (column + 1) * share - (0.02 if len(operations) > 1 else 0)]
