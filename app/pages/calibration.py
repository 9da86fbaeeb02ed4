"""The page of ``rpsim calibrate``: measured and simulated curve by curve, what was fitted, every point in a table."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

from plotly.offline import get_plotlyjs

from ...validation.measuring.calibrate.calibration import Calibration, Fitted, Point, rms
from ..terminal.text import plural
from .plots import COLOURS, Figure, figure_layout
from .report import inline, template

DECADES = 20
"""Largest over smallest from which on a logarithmic axis reads better."""
HELD_OUT, FITTED_TO = "circle-open", "circle"


def page(found: Calibration, files: Sequence[str], base: str) -> str:
    """The whole page as text; two runs give the same page."""
    from ... import __version__

    series = found.series()
    figures = {f"series-{index}": figure(points, bool(found.fitted)) for index, points in enumerate(series.values())}
    what = "calibrated to" if found.fitted else "beside"
    parts = {
        "title": escape(f"{base} {what} {', '.join(files)}"),
        "summary": _summary(found),
        "parameters": _parameters(found),
        "curves": "".join(
            f"<h3>{escape(name)}</h3><div class='plot' id='plot-series-{index}'></div>"
            for index, name in enumerate(series)
        ),
        "points": _points(found),
        "version": escape(__version__),
        "style": template("style.css"),
        "plotly": get_plotlyjs(),
        "figures": inline(figures),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template("calibration.html"))


def figure(points: Sequence[Point], fitted: bool) -> Figure:
    """One series by size as a plotly specification."""
    ordered = sorted(points, key=lambda point: point.measurement.conditions.size_bytes)
    layout = figure_layout(300, 3)
    layout["xaxis"] |= {"title": {"text": "size in B"}}
    one = ordered[0].measurement.conditions
    layout["yaxis"] |= {"title": {"text": "us" if one.depth == 1 else "us an operation"}, "rangemode": "tozero"}
    sizes = [point.measurement.conditions.size_bytes for point in ordered]
    if max(sizes) > DECADES * min(sizes):
        layout["xaxis"] |= {"type": "log"}
    shown = [value for point in ordered for value in (point.measured_ps, point.after_ps)]
    if max(shown) > DECADES * min(shown):
        layout["yaxis"] |= {"type": "log"}
    symbols = [HELD_OUT if point.held_out else FITTED_TO for point in ordered]
    measured = _trace("measured (open: held out)" if fitted else "measured", sizes, 0, [p.measured_ps for p in ordered])
    measured["marker"] |= {"symbol": symbols, "size": 9}
    traces = [measured | {"mode": "markers"}]
    name = "before the fit" if fitted else "simulated"
    traces.append(_trace(name, sizes, 5 if fitted else 1, [p.before_ps for p in ordered], "dot" if fitted else "dash"))
    if fitted:
        traces.append(_trace("fitted", sizes, 1, [p.after_ps for p in ordered], "dash"))
    return {"data": traces, "layout": layout}


def _trace(name: str, x: Sequence[int], colour: int, times_ps: Sequence[float], dash: str = "solid") -> Figure:
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": name,
        "x": list(x),
        "y": [float(f"{ps / 1e6:.5g}") for ps in times_ps],
        "marker": {"color": COLOURS[colour], "size": 5},
        "line": {"color": COLOURS[colour], "width": 2, "dash": dash},
        "hovertemplate": f"{name}<br>%{{x}} B: %{{y}} us<extra></extra>",
    }


def _summary(found: Calibration) -> str:
    if not found.fitted:
        error = rms(found.points)
        return f"<p class='finding'>{plural(len(found.points), 'point')}, error (rms) {error:.1%}.</p>"
    kept, out = found.of(False), found.of(True)
    text = f"Fitted to {plural(len(kept), 'point')}: error (rms) {rms(kept, False):.1%} before, {rms(kept):.1%} after."
    if out:
        text += f" Held out were {len(out)}: <b>{rms(out, False):.1%} before, {rms(out):.1%} after</b>."
    return f"<p class='finding'>{text}</p>"


def _parameters(found: Calibration) -> str:
    if not found.fitted:
        return ""
    rows = "".join(_parameter(one) for one in found.fitted)
    head = "<th>parameter</th><th>was</th><th>fitted</th><th>95% confidence</th><th>apart</th><th>determined by</th>"
    left = "".join(f"<li>{escape(name)}: {escape(reason)}</li>" for name, reason in found.left)
    return (
        f"<section id='parameters'><h2>Parameters</h2><div class='scroll'><table><thead><tr>{head}</tr></thead>"
        f"<tbody>{rows}</tbody></table></div><h3>Not fitted</h3><ul>{left}</ul></section>"
    )


def _parameter(one: Fitted) -> str:
    interval = one.interval()
    span = f"{interval[0]} to {interval[1]}" if interval else "not determined"
    by = " and ".join(f"{name} ({share:.0%})" for name, share in one.certainty.series[:2] if share >= 0.1)
    sum_of = "sum of " if len(one.knob.paths) > 1 else ""
    return (
        f"<tr><th>{sum_of}{escape(one.knob.name)}</th><td class='n'>{one.knob.together(1.0)}</td>"
        f"<td class='n'>{one.knob.together(one.slower)}{' (bound)' if one.at_bound else ''}</td>"
        f"<td class='n'>{span}</td><td class='n'>{one.certainty.apart:.0%}</td><td>{escape(by)}</td></tr>"
    )


def _points(found: Calibration) -> str:
    rows = "".join(
        f"<tr><th>{escape(point.name)}</th><td class='n'>{point.measured_ps / 1e6:.3f}</td>"
        f"<td class='n'>{point.before_ps / 1e6:.3f}</td><td class='n'>{point.error(False):+.1%}</td>"
        + (
            f"<td class='n'>{point.after_ps / 1e6:.3f}</td><td class='n'>{point.error():+.1%}</td>"
            if found.fitted
            else ""
        )
        + f"<td>{'held out' if point.held_out else ''}</td></tr>"
        for point in found.points
    )
    names = ["point", "measured us", "before us" if found.fitted else "simulated us", "error"]
    names += ["fitted us", "error", ""] if found.fitted else [""]
    head = "".join(f"<th>{name}</th>" for name in names)
    return f"<div class='scroll'><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table></div>"
