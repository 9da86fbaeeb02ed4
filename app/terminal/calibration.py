"""The output of ``rpsim calibrate`` for a fit or a comparison: parameters, errors by series; as text and as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...sim.units import parse_duration_ps, parse_rate
from ...validation.measuring.calibrate.calibration import Calibration, Fitted, Point, rms
from .text import paragraph, plural, table

NAME = 36
"""Columns of a series or of parameters in a table."""
WORST = 5
"""The number of measurements that are named as the worst."""


def text(found: Calibration) -> list[str]:
    """Parameters, errors by series, the worst points, the points left out."""
    lines = []
    if found.fitted:
        lines += [*_parameters(found), ""]
    lines += [*_series(found), "", *_summary(found)]
    if found.skipped:
        reasons: dict[str, int] = {}
        for _, reason in found.skipped:
            reasons[reason] = reasons.get(reason, 0) + 1
        causes = "; ".join(f"{count}: {reason}" for reason, count in reasons.items())
        lines += paragraph(f"left out: {causes}", 0, 2)
    return lines


def _parameters(found: Calibration) -> list[str]:
    rows, remarks = [], []
    ranges = {parameter.path: parameter.range for parameter in found.platform.parameters()}
    for one in found.fitted:
        interval = one.interval()
        span = spanned(interval) if interval else "not determined"
        value = one.knob.together(one.slower)
        sum_of = "sum of " if len(one.knob.paths) > 1 else ""
        rows.append([f"{sum_of}{one.knob.paths[0]}", one.knob.together(1.0), value, span, f"{one.certainty.apart:.0%}"])
        rows += [[f"   and {path}", "", "", "", ""] for path in one.knob.paths[1:]]
        remarks += _remarks(one, ranges)
    lines = table(["parameter", "was", "fitted", "95% confidence", "apart"], rows)
    lines += ["", "determined by"]
    for one in found.fitted:
        series = " and ".join(f"{name} ({share:.0%})" for name, share in one.certainty.series[:2] if share >= 0.1)
        lines += paragraph(f"{one.knob.paths[0]}: {series or 'nothing'}", 2, 2)
    remarks += found.alike()
    if remarks or found.together:
        lines += ["", "take care"]
        for line in remarks:
            lines += paragraph(line, 2, 2)
        for group in found.together:
            what = " and ".join(group)
            alone = (
                "at this value no measurement moves with" if len(group) == 1 else "the measurements do not tell apart:"
            )
            lines += paragraph(f"{alone} {what}", 2, 2)
    if found.left:
        lines += ["", "not fitted"]
        reasons: dict[str, list[str]] = {}
        for name, reason in found.left:
            reasons.setdefault(reason, []).append(name)
        for reason, names in reasons.items():
            lines += paragraph(f"{reason}: {', '.join(names)}", 2, 2)
    return lines


def spanned(ends: tuple[str, str]) -> str:
    """A range with its unit once: ``351.4 to 416.7 ns``."""
    low, high = (end.rpartition(" ") for end in ends)
    return f"{low[0]} to {ends[1]}" if low[2] == high[2] else f"{ends[0]} to {ends[1]}"


def _remarks(one: Fitted, ranges: Mapping[str, tuple[str, str] | None]) -> list[str]:
    lines = []
    for path, text in one.knob.rounded(one.slower).items():
        known = ranges.get(path)
        if known and outside(text, known):
            lines.append(f"{path}: {text} is outside of what the platform's sources have ({known[0]} to {known[1]})")
    if one.at_bound:
        lines.append(f"{one.knob.paths[0]} stands at its {one.at_bound} bound: it stands for something else")
    return lines


def outside(text: str, known: tuple[str, str]) -> bool:
    """Whether a time or a rate lies outside of a known range."""
    parse = parse_rate if text.endswith("/s") else parse_duration_ps
    low, value, high = (parse(one) for one in (known[0], text, known[1]))
    return not low <= value <= high


def _series(found: Calibration) -> list[str]:
    rows = []
    for name, points in found.series().items():
        kept, out = [p for p in points if not p.held_out], [p for p in points if p.held_out]
        short = name if len(name) <= NAME else f"{name[: NAME - 3]}..."
        row = [short, str(len(points)), _percent(points, False)]
        rows.append([*row, _percent(kept), _percent(out)] if found.fitted else row)
    head = ["error (rms) by series", "points", "before" if found.fitted else "error"]
    return table([*head, "fitted", "held out"] if found.fitted else head, rows)


def _percent(points: Sequence[Point], after: bool = True) -> str:
    return f"{rms(points, after):.1%}" if points else "-"


def _summary(found: Calibration) -> list[str]:
    fitted, out = found.of(False), found.of(True)
    if not found.fitted:
        line = f"error (rms) {rms(found.points):.1%} over {plural(len(found.points), 'point')}"
    else:
        line = (
            f"error (rms) of {plural(len(fitted), 'point')} fitted to: {rms(fitted, False):.1%} before, "
            f"{rms(fitted):.1%} after"
        )
        if out:
            line += f"; of {len(out)} held out: {rms(out, False):.1%} before, {rms(out):.1%} after"
    lines = paragraph(line, 0, 2)
    worst = sorted(found.points, key=lambda point: -abs(point.error()))[:WORST]
    errors = "; ".join(f"{point.name} {point.error():+.0%}" for point in worst)
    return lines + paragraph(f"worst: {errors}", 0, 2)


def document(found: Calibration, platform: str, profile: str | None) -> dict[str, Any]:
    """The answer as JSON; ``profile`` is the file that was written."""
    fitted, out = found.of(False), found.of(True)
    return {
        "platform": platform,
        "settings": dict(found.platform.settings),
        "parameters": [_parameter(one) for one in found.fitted],
        "not_fitted": [{"parameter": name, "reason": reason} for name, reason in found.left],
        "not_told_apart": [list(group) for group in found.together],
        "error": {
            "fitted": {"points": len(fitted), "before": rms(fitted, False), "after": rms(fitted)},
            "held_out": {"points": len(out), "before": rms(out, False), "after": rms(out)} if out else None,
        },
        "points": [
            {
                "id": point.measurement.conditions.id,
                "series": point.series,
                "size_bytes": point.measurement.conditions.size_bytes,
                "measured_ns": point.measured_ps / 1000,
                "before_ns": point.before_ps / 1000,
                "after_ns": point.after_ps / 1000,
                "held_out": point.held_out,
            }
            for point in found.points
        ],
        "left_out": [{"measurement": name, "reason": reason} for name, reason in found.skipped],
        "rounds": found.rounds,
        "simulations": found.runs,
        "profile": profile,
    }


def _parameter(one: Fitted) -> dict[str, Any]:
    interval = one.interval()
    return {
        "paths": list(one.knob.paths),
        "values": one.knob.rounded(one.slower),
        "before": one.knob.rounded(1.0),
        "sum": one.knob.together(one.slower),
        "confidence_95": list(interval) if interval else None,
        "at_bound": one.at_bound or None,
        "apart": round(one.certainty.apart, 4),
        "like": one.certainty.like or None,
        "determined_by": {name: round(share, 4) for name, share in one.certainty.series[:4]},
    }
