"""The page of ``rpsim reproduce hardware``: every curve as published beside as simulated, with table and conditions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ...validation.published.curves.board import Board, Result
from ...validation.published.scoreboard import NOT_ANALYSED, Bound, Claim, Range, Summary
from .plots import COLOURS, Figure, axis_along, figure_layout, is_spread
from .template import render

if TYPE_CHECKING:
    from ...validation.published.curves.sweep import Variation


def page(board: Board, summary: Summary, variations: Sequence[Variation] = ()) -> str:
    """The whole page as text; two runs give the same page."""
    figures = {f"curve-{index}": figure(result) for index, result in enumerate(board.results)}
    return render(
        "hardware.html",
        title="rpsim: hardware against published curves",
        kind="rpsim reproduce hardware",
        heading="The hardware models against published curves",
        summary=f"{summary.predicted_met} of {summary.predicted} predicted points are met, with a median error of "
        f"{summary.median_error:.1%}. The bar ({summary.bar.met_share:.0%} of the points, a median of "
        f"{summary.bar.median_error:.0%})",
        verdict="met" if summary.met else "missed",
        apart=f"Apart from these: {summary.fitted_met} of {summary.fitted} points that parameters were fitted to "
        f"(median {summary.fitted_median_error:.1%}), {summary.shapes_met} of {summary.shapes} shapes, and "
        f"{summary.inputs} points that the models have as an input.",
        missed=[_missed(claim) for claim in board.claims() if not claim.met],
        swept=[_variation(one) for one in variations],
        curves=[{"id": one.curve.id, "title": one.curve.title, "facts": _facts(one)} for one in board.results],
        figures=figures,
    )


def figure(result: Result) -> Figure:
    """One curve as a plotly specification."""
    curve = result.curve
    x = list(result.simulated)
    layout = figure_layout(320, ["published: at_least", "simulated"])
    layout["xaxis"] |= {"title": {"text": curve.x}}
    layout["yaxis"] |= {"title": {"text": curve.unit}, "rangemode": "tozero"}
    numbers = [value for value in x if not isinstance(value, str)]
    if len(numbers) == len(x):
        layout["xaxis"] |= axis_along(numbers)
    shown = [value for value in [*result.simulated.values(), *_published(curve.points.values())] if value > 0]
    if shown and is_spread(shown):
        layout["yaxis"] |= {"type": "log"}
    traces = []
    for name in ("at_least", "at_most"):
        bounds = [getattr(point, name, None) for point in (curve.points[key] for key in x)]
        if any(bound is not None for bound in bounds):
            words = f"published: {name.replace('_', ' ')}"
            traces.append(_trace(words, x, bounds, COLOURS[0], f"triangle-{'up' if name == 'at_least' else 'down'}"))
    if not traces:
        traces.append(_trace("published", x, [curve.points[key] for key in x], COLOURS[0], "circle"))
    traces.append(_trace("simulated", x, [result.simulated[key] for key in x], COLOURS[1], "x"))
    return {"data": traces, "layout": layout}


def _published(points: Any) -> list[float]:
    values = []
    for point in points:
        values += [point.at_least, point.at_most] if isinstance(point, Bound) else [point]
    return [value for value in values if value is not None]


def _trace(name: str, x: Sequence[Any], y: Sequence[Any], colour: str, symbol: str) -> Figure:
    return {
        "type": "scatter",
        "mode": "markers" if len(x) == 1 or isinstance(x[0], str) else "lines+markers",
        "name": name,
        "x": list(x),
        "y": [None if value is None else float(f"{float(value):.5g}") for value in y],
        "marker": {"symbol": symbol, "size": 9, "color": colour},
        "line": {"color": colour, "width": 2, "dash": "solid" if symbol == "circle" else "dash"},
        "hovertemplate": f"{name}<br>%{{x}}: %{{y}}<extra></extra>",
    }


def _missed(claim: Claim) -> list[str]:
    simulated = f"{claim.simulated:.4g}"
    reason = claim.reason or NOT_ANALYSED
    return [claim.id, str(claim.status), _value(claim.published), simulated, claim.unit, reason]


def _variation(one: Variation) -> list[str]:
    met = f"{one.summary.predicted_met} of {one.summary.predicted}"
    bar = "met" if one.summary.met else "missed"
    return [f"{one.path} = {one.text}", met, f"{one.summary.median_error:.1%}", bar]


def _facts(result: Result) -> dict[str, str]:
    curve, claims = result.curve, result.claims()
    settings = "".join(f", {key} {value}" for key, value in curve.settings.items())
    return {
        "source": curve.source,
        "condition": curve.condition,
        "role": f"{curve.role} (confidence in the source: {curve.confidence})",
        "platform": f"{curve.platform}{settings}",
        "experiment": curve.experiment + "".join(f", {key} {value}" for key, value in curve.given.items()),
        "met": f"{sum(claim.met for claim in claims)} of {len(claims)} within {curve.tolerance:.0%}",
    }


def _value(published: float | Bound | Range) -> str:
    return f"{published:g}" if isinstance(published, float | int) else str(published)
