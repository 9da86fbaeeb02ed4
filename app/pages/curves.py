"""The page of ``rpsim reproduce hardware``: every curve as published beside as simulated, with table and conditions."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from plotly.offline import get_plotlyjs

from ...validation.published.curves.board import Board, Result
from ...validation.published.scoreboard import NOT_ANALYSED, Bound, Claim, Range, Summary
from .plots import COLOURS, Figure, figure_layout
from .report import inline, template

if TYPE_CHECKING:
    from ...validation.published.curves.sweep import Variation

DECADES = 20
"""Largest over smallest x, or y, from which on a logarithmic axis reads better."""


def page(board: Board, summary: Summary, variations: Sequence[Variation] = ()) -> str:
    """The whole page as text; two runs give the same page."""
    from ... import __version__

    figures = {f"curve-{index}": figure(result) for index, result in enumerate(board.results)}
    parts = {
        "title": "rpsim: hardware against published curves",
        "kind": "rpsim reproduce hardware",
        "heading": "The hardware models against published curves",
        "summary": _summary(summary),
        "missed": _missed(board.claims()),
        "sweep": _sweep(variations),
        "curves": "".join(_curve(index, result) for index, result in enumerate(board.results)),
        "version": escape(__version__),
        "style": template("style.css"),
        "plotly": get_plotlyjs(),
        "figures": inline(figures),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template("scoreboard.html"))


def figure(result: Result) -> Figure:
    """One curve as a plotly specification."""
    curve = result.curve
    x = list(result.simulated)
    layout = figure_layout(320, 2)
    layout["xaxis"] |= {"title": {"text": curve.x}}
    layout["yaxis"] |= {"title": {"text": curve.unit}, "rangemode": "tozero"}
    numbers = [value for value in x if not isinstance(value, str)]
    if len(numbers) == len(x) and min(numbers) > 0 and max(numbers) / min(numbers) > DECADES:
        layout["xaxis"] |= {"type": "log"}
    shown = [value for value in [*result.simulated.values(), *_published(curve.points.values())] if value > 0]
    if shown and max(shown) / min(shown) > DECADES:
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


def _summary(summary: Summary) -> str:
    verdict = "met" if summary.met else "missed"
    return (
        f"<p class='finding'>{summary.predicted_met} of {summary.predicted} predicted points are met, with a median "
        f"error of {summary.median_error:.1%}. The bar ({summary.bar.met_share:.0%} of the points, a median of "
        f"{summary.bar.median_error:.0%}) is <b>{verdict}</b>. Apart from these: {summary.fitted_met} of "
        f"{summary.fitted} points that parameters were fitted to (median {summary.fitted_median_error:.1%}), "
        f"{summary.shapes_met} of {summary.shapes} shapes, and {summary.inputs} points that the models have as an "
        "input.</p>"
    )


def _missed(claims: Sequence[Claim]) -> str:
    rows = "".join(
        f"<tr><th>{escape(claim.id)}</th><td>{claim.status}</td><td class='n'>{escape(_value(claim.published))}</td>"
        f"<td class='n'>{claim.simulated:.4g}</td><td>{escape(claim.unit)}</td>"
        f"<td>{escape(claim.reason or NOT_ANALYSED)}</td></tr>"
        for claim in claims
        if not claim.met
    )
    if not rows:
        return "<p>None.</p>"
    head = "<tr><th>point</th><th>role</th><th>published</th><th>simulated</th><th>unit</th><th>reason</th></tr>"
    return f"<div class='scroll'><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>"


def _sweep(variations: Sequence[Variation]) -> str:
    if not variations:
        return ""
    rows = "".join(
        f"<tr><th>{escape(one.path)} = {escape(one.text)}</th>"
        f"<td class='n'>{one.summary.predicted_met} of {one.summary.predicted}</td>"
        f"<td class='n'>{one.summary.median_error:.1%}</td><td>{'met' if one.summary.met else 'missed'}</td></tr>"
        for one in variations
    )
    head = "<tr><th>parameter</th><th>predicted met</th><th>median error</th><th>the bar</th></tr>"
    text = "<h2>With one badly known parameter at an end of its range</h2>"
    return f"{text}<div class='scroll'><table><thead>{head}</thead><tbody>{rows}</tbody></table></div>"


def _curve(index: int, result: Result) -> str:
    curve = result.curve
    claims = result.claims()
    met = sum(claim.met for claim in claims)
    settings = "".join(f", {key} {value}" for key, value in curve.settings.items())
    facts = {
        "source": curve.source,
        "condition": curve.condition,
        "role": f"{curve.role} (confidence in the source: {curve.confidence})",
        "platform": f"{curve.platform}{settings}",
        "experiment": curve.experiment + "".join(f", {key} {value}" for key, value in curve.given.items()),
        "met": f"{met} of {len(claims)} within {curve.tolerance:.0%}",
    }
    rows = "".join(f"<dt>{key}</dt><dd>{escape(text)}</dd>" for key, text in facts.items())
    return (
        f"<h3 id='{escape(curve.id)}'>{escape(curve.title)}</h3><dl class='facts'>{rows}</dl>"
        f"<div class='plot' id='plot-curve-{index}'></div>"
    )


def _value(published: float | Bound | Range) -> str:
    return f"{published:g}" if isinstance(published, float | int) else str(published)
