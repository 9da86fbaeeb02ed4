"""The page of ``rpsim calibrate``: curves as measured and simulated, the fitted parameters, every point."""

from __future__ import annotations

from collections.abc import Sequence

from ...validation.measuring.calibrate.calibration import Calibration, Fitted, Point, rms
from ..terminal.text import plural
from .plots import COLOURS, Figure, axis_along, figure_layout, is_spread
from .template import render

HELD_OUT, FITTED_TO = "circle-open", "circle"


def page(found: Calibration, files: Sequence[str], base: str) -> str:
    """The whole page as text; two runs give the same page."""
    series = found.series()
    figures = {f"series-{index}": figure(points, bool(found.fitted)) for index, points in enumerate(series.values())}
    title = f"{base} {'calibrated to' if found.fitted else 'beside'} {', '.join(files)}"
    kept, out = found.of(False), found.of(True)
    errors = f"{rms(kept, False):.1%} before, {rms(kept):.1%} after"
    names = ["point", "measured us", "before us" if found.fitted else "simulated us", "error"]
    return render(
        "calibration.html",
        title=title,
        kind="rpsim calibrate",
        heading=title,
        summary=f"Fitted to {plural(len(kept), 'point')}: error (rms) {errors}."
        if found.fitted
        else f"{plural(len(found.points), 'point')}, error (rms) {rms(found.points):.1%}.",
        held_out={"count": len(out), "errors": f"{rms(out, False):.1%} before, {rms(out):.1%} after"}
        if found.fitted and out
        else None,
        fitted=[_parameter(one) for one in found.fitted],
        left=found.left,
        series=list(series),
        head=[*names, *(["fitted us", "error"] if found.fitted else []), ""],
        points=[_point(point, bool(found.fitted)) for point in found.points],
        figures=figures,
    )


def figure(points: Sequence[Point], fitted: bool) -> Figure:
    """One series by size as a plotly specification."""
    ordered = sorted(points, key=lambda point: point.measurement.conditions.size_bytes)
    layout = figure_layout(300, ["measured", "before the fit", "after the fit"])
    sizes = [point.measurement.conditions.size_bytes for point in ordered]
    layout["xaxis"] |= {"title": {"text": "size in B"}, **axis_along(sizes)}
    one = ordered[0].measurement.conditions
    layout["yaxis"] |= {"title": {"text": "us" if one.depth == 1 else "us an operation"}, "rangemode": "tozero"}
    shown = [value for point in ordered for value in (point.measured_ps, point.after_ps)]
    if is_spread(shown):
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


def _parameter(one: Fitted) -> list[str]:
    interval = one.interval()
    return [
        ("sum of " if len(one.knob.paths) > 1 else "") + one.knob.name,
        one.knob.together(1.0),
        one.knob.together(one.slower) + (" (bound)" if one.at_bound else ""),
        f"{interval[0]} to {interval[1]}" if interval else "not determined",
        f"{one.certainty.apart:.0%}",
        " and ".join(f"{name} ({share:.0%})" for name, share in one.certainty.series[:2] if share >= 0.1),
    ]


def _point(point: Point, fitted: bool) -> list[str]:
    after = [f"{point.after_ps / 1e6:.3f}", f"{point.error():+.1%}"] if fitted else []
    before = [f"{point.measured_ps / 1e6:.3f}", f"{point.before_ps / 1e6:.3f}", f"{point.error(False):+.1%}"]
    return [point.name, *before, *after, "held out" if point.held_out else ""]
