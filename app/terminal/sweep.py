"""What ``rpsim sweep`` prints: for each scheme and platform a table of the points, with intervals over seeds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ...scenarios.sweep.axes import shown
from ...scenarios.sweep.groups import Row, SeedGroup, names_of
from ...sim.intervals import Interval
from .text import count, paragraph, plural, table

MOST_ROWS = 40
"""Points that are printed; further ones are in the files."""


def text(
    about: Mapping[str, Any], rows: Sequence[Row], groups: Sequence[SeedGroup], odd: Sequence[Mapping[str, Any]]
) -> list[str]:
    """The lines, 80 columns wide."""
    lines = [*paragraph(f"{about['scenario']}: {about['title']}"), *paragraph(extent(about, rows), 2, 2), ""]
    left = MOST_ROWS
    variants = list(dict.fromkeys((group.scheme, group.platform) for group in groups))
    for scheme, platform in variants:
        own = [group for group in groups if (group.scheme, group.platform) == (scheme, platform)]
        if left > 0:
            lines += [*paragraph(f"{scheme} on {platform}", 0, 2), *_points(about, own[:left]), ""]
        left -= len(own)
    if left < 0:
        lines += [*paragraph(f"{plural(-left, 'further row')} in report.html, summary.json and runs.csv"), ""]
    if any(one.samples > 1 for group in groups for one in group.figures().values()):
        lines += paragraph("+-: 95 % confidence interval of the mean over seeds (Student's t)")
    for group in groups:
        for error in group.errors:
            lines += paragraph(f"impossible: {point_of(group.over)}, {group.scheme}: {error}", 0, 2)
    if about["crash"]:
        lines += _expected(odd, groups)
    return lines[:-1] if lines[-1] == "" else lines


def extent(about: Mapping[str, Any], rows: Sequence[Row]) -> str:
    """How much was run, in a sentence."""
    axes = [f"{name} ({plural(len(values), 'value')})" for name, values in about["over"].items()]
    over = f"over {', '.join(axes)}; " if axes else ""
    shard = about["shard"]
    part = f"; shard {shard[0]} of {shard[1]}" if shard else ""
    seeds = f"from {about['seeds'][0]} on" if about["seeds"] else ""
    return f"{over}{plural(len(about['seeds']), 'seed')} {seeds}: {plural(len(rows), 'run')}{part}"


def point_of(over: Mapping[str, Any]) -> str:
    """A point in words."""
    return ", ".join(f"{name} = {shown(value)}" for name, value in over.items()) or "the scenario"


def short_names(fields: Sequence[str]) -> list[str]:
    """The last words of fields, as far as they tell them apart."""
    last = [field.rpartition(".")[2] for field in fields]
    return [short if last.count(short) == 1 else field for short, field in zip(last, fields, strict=True)]


def heading(name: str) -> tuple[str, float]:
    """A figure's column: its name with its unit there, and how many of the figure's own unit that is."""
    if name == "throughput_ops_per_s":
        return "kops/s", 1e3
    if name.endswith("_ns"):
        f, _, what = name.removesuffix("_ns").rpartition("_")
        return f"{f} {what} us", 1e3
    if name.endswith("_violating_share"):
        return f"{name.removesuffix('_violating_share')}: violating states, %", 1e-2
    return name.replace("_", " "), 1.0


def cell(found: Interval | None, scale: float) -> str:
    """A mean, and half its interval if there is one."""
    if found is None:
        return ""
    if found.half_width is None:
        return _figure(found.mean / scale)
    half = found.half_width / scale
    return f"{_figure(found.mean / scale)} +-{_figure(round(half)) if half >= 10 else format(half, '.2g')}"


def _figure(value: float) -> str:
    return count(round(value)) if abs(value) >= 1000 else f"{value:.4g}"


def verdict_cell(counts: Mapping[str, int], worst: str) -> str:
    """The worst verdict, and of how many seeds where they differ: ``violated 2/5``."""
    total = sum(counts.values())
    return worst if counts[worst] == total else f"{worst} {counts[worst]}/{total}"


def _points(about: Mapping[str, Any], groups: Sequence[SeedGroup]) -> list[str]:
    fields = list(about["over"])
    names = [name for name in names_of(groups) if name.endswith(("_per_s", "_p50_ns", "_states"))]
    conditions = list(dict.fromkeys(name for group in groups for name in group.verdicts()))
    rows = []
    for group in groups:
        figures, counts, worst = group.figures(), group.verdicts(), group.worst()
        rows.append(
            [
                *(shown(group.over[field]) for field in fields),
                *(cell(figures.get(name), heading(name)[1]) for name in names),
                *(verdict_cell(counts[name], worst[name]) if name in counts else "" for name in conditions),
            ]
        )
    if not names and not conditions:
        return []
    head = [*short_names(fields), *(heading(name)[0] for name in names), *conditions]
    return table(head, rows, len(fields), labels=max(1, len(fields)))


def _expected(odd: Sequence[Mapping[str, Any]], groups: Sequence[SeedGroup]) -> list[str]:
    judged = sum(sum(counts.values()) for group in groups for counts in group.verdicts().values())
    if not odd:
        return ["", *paragraph(f"all {plural(judged, 'verdict')} are as expected")]
    lines = ["", *paragraph(f"{count(len(odd))} of {plural(judged, 'verdict')} are not as expected:")]
    for one in odd[:MOST_ROWS]:
        who = "the scenario expects" if one["by"] == "scenario" else "the scheme claims"
        said = f"{one['condition']} {one['found']}, but {who} {one['expected']}"
        where = f"{point_of(one['over'])}, seed {one['seed']}: {one['scheme']} on {one['platform']}"
        lines += paragraph(f"{where}: {said}", 2, 2)
    return lines
