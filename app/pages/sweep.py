"""The page of ``rpsim sweep``: response curves in small multiples, with intervals over seeds, and a table to sort."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from ...scenarios.sweep.axes import magnitude, shown
from ...scenarios.sweep.groups import SeedGroup, names_of
from ...sim.intervals import Interval
from ..terminal.sweep import cell, extent, heading, point_of, short_names, verdict_cell
from .plots import COLOURS, DASHES, Figure, axis_along, figure_layout
from .template import render

COLUMNS = 3
"""Panels side by side."""
MOST_PANELS = 12
PANEL_PIXELS = 240
GAP = 0.05
TITLE_GAP = 0.30
"""Share of a row of panels that titles and axes between two rows take."""


def page(about: Mapping[str, Any], groups: Sequence[SeedGroup], odd: Sequence[Mapping[str, Any]]) -> str:
    """The whole page as text; the same results give the same page."""
    names = [name for name in names_of(groups) if not name.endswith("_mean_ns") and _varies(groups, name)]
    figures = {f"sweep-{number}": figure(about, groups, name) for number, name in enumerate(names)}
    left_out = max(0, len(_panels(about, groups)) - MOST_PANELS)
    return render(
        "sweep.html",
        title=f"rpsim sweep: {about['scenario']}",
        kind="rpsim sweep",
        heading=about["title"] or about["scenario"],
        extent=f"{about['scenario']}, {extent(about, [row for group in groups for row in group.rows])}.",
        several=len(about["seeds"]) > 1,
        crash=about["crash"],
        odd=[_surprise(one) for one in odd],
        errors=[
            f"{point_of(group.over)}, {group.scheme} on {group.platform}: {error}"
            for group in groups
            for error in group.errors
        ],
        figures=figures,
        curves=[{"id": f"sweep-{number}", "title": heading(name)[0]} for number, name in enumerate(names)],
        left_out=left_out,
        columns=min(COLUMNS, len(_panels(about, groups))),
        **_table(about, groups),
    )


def _surprise(one: Mapping[str, Any]) -> str:
    said = f"{one['condition']} {one['found']}, expected {one['expected']} (by the {one['by']})"
    return f"{point_of(one['over'])}, seed {one['seed']}: {one['scheme']} on {one['platform']}: {said}"


def _varies(groups: Sequence[SeedGroup], name: str) -> bool:
    """Whether there is anything to see: not where no crash state of any point violates a condition."""
    if not name.endswith("_violating_share"):
        return True
    return any(found.mean > 0 for group in groups if (found := group.figures().get(name)) is not None)


# figures -------------------------------------------------------------------------------------------------------------
def across(about: Mapping[str, Any]) -> str | None:
    """The field along the x axes: the one with the most numbers, else the first; None where nothing is swept."""
    over: Mapping[str, Sequence[Any]] = about["over"]
    numeric = [name for name, values in over.items() if len(values) > 1 and _scale(values) is not None]
    return max(numeric, key=lambda name: len(over[name]), default=next(iter(over), None))


def _scale(values: Sequence[Any]) -> str | None:
    """The unit of values that are all numbers of one kind; None where they are not."""
    found = [magnitude(value) for value in values]
    units = {one[1] for one in found if one is not None}
    return units.pop() if None not in found and len(units) == 1 else None


def _panels(about: Mapping[str, Any], groups: Sequence[SeedGroup]) -> list[dict[str, Any]]:
    """The values of the fields that do not go along x, a panel for each combination."""
    x = across(about)
    found = [{name: value for name, value in group.over.items() if name != x} for group in groups]
    return [one for number, one in enumerate(found) if one not in found[:number]]


def figure(about: Mapping[str, Any], groups: Sequence[SeedGroup], name: str) -> Figure:
    """One figure of the runs over the grid, as a plotly specification: colour says the scheme, dashes the platform."""
    x, panels = across(about), _panels(about, groups)[:MOST_PANELS]
    title, scale = heading(name)
    variants = list(dict.fromkeys((group.scheme, group.platform) for group in groups))
    schemes, platforms = (list(dict.fromkeys(names)) for names in zip(*variants, strict=True))
    rows, columns = -(-len(panels) // COLUMNS), min(COLUMNS, len(panels))
    layout = figure_layout(PANEL_PIXELS * rows + 60, [", ".join(variant) for variant in variants])
    layout |= {"annotations": [], "hovermode": "closest"}
    base = {key: {**layout.pop(key)} for key in ("xaxis", "yaxis")}
    unit = None if x is None else _scale(about["over"][x])
    traces = []
    for number, panel in enumerate(panels):
        row, column = divmod(number, columns)
        suffix = "" if number == 0 else str(number + 1)
        wide, high = _domain(column, columns, GAP), _domain(rows - 1 - row, rows, TITLE_GAP if rows > 1 else 0)
        layout[f"xaxis{suffix}"] = {
            **base["xaxis"],
            **_x_axis(about, x, unit),
            "domain": wide,
            "anchor": f"y{suffix}",
            **(
                {"title": {"text": escape(_axis_title(x, unit))}}
                if row == rows - 1 or number + columns >= len(panels)
                else {}
            ),
        }
        layout[f"yaxis{suffix}"] = {
            **base["yaxis"],
            "domain": high,
            "anchor": f"x{suffix}",
            "rangemode": "tozero",
            **({} if number == 0 else {"matches": "y", "showticklabels": column == 0}),
            **({"title": {"text": escape(title)}} if column == 0 else {}),
        }
        if panel:
            layout["annotations"].append(_panel_title(panel, wide, high))
        for scheme, platform in variants:
            own = [
                group
                for group in groups
                if (group.scheme, group.platform) == (scheme, platform)
                and {key: value for key, value in group.over.items() if key != x} == panel
            ]
            trace = _line(own, x, unit, name, scale, f"{scheme}, {platform}")
            style = {
                "color": COLOURS[schemes.index(scheme) % len(COLOURS)],
                "dash": DASHES[platforms.index(platform) % len(DASHES)],
                "width": 2,
            }
            trace |= {"line": style, "marker": {"color": style["color"], "size": 6}, "showlegend": number == 0}
            traces.append(trace | {"xaxis": f"x{suffix}", "yaxis": f"y{suffix}"})
    return {"data": traces, "layout": layout}


def _line(own: Sequence[SeedGroup], x: str | None, unit: str | None, name: str, scale: float, label: str) -> Figure:
    points: list[tuple[Any, Interval]] = [
        (_position(group, x, unit), found) for group in own if (found := group.figures().get(name)) is not None
    ]
    if unit is not None:
        points.sort(key=lambda point: point[0])
    label = escape(label)  # plotly reads tags in its texts
    made: Figure = {
        "type": "scatter",
        "mode": "lines+markers" if unit is not None else "markers",
        "name": label,
        "legendgroup": label,
        "x": [at for at, _ in points],
        "y": [one.mean / scale for _, one in points],
        "hovertemplate": f"{label}<br>%{{x}}: %{{y:,.4g}}<extra></extra>",
    }
    if any(one.half_width is not None for _, one in points):
        made["error_y"] = {
            "type": "data",
            "array": [(one.half_width or 0) / scale for _, one in points],
            "thickness": 1.2,
            "width": 4,
        }
    return made


def _position(group: SeedGroup, x: str | None, unit: str | None) -> Any:
    if x is None:
        return "the scenario"
    found = magnitude(group.over[x]) if unit is not None else None
    return shown(group.over[x]) if found is None else found[0]


def _x_axis(about: Mapping[str, Any], x: str | None, unit: str | None) -> Figure:
    if x is None or unit is None:
        return {"type": "category"}
    values = [found[0] for value in about["over"][x] if (found := magnitude(value)) is not None]
    return axis_along(values)


def _axis_title(x: str | None, unit: str | None) -> str:
    return "" if x is None else f"{x}, {unit}" if unit else x


def _domain(place: int, count: int, gap: float) -> list[float]:
    share = 1 / count
    return [
        place * share + (gap / 2 * share if count > 1 else 0),
        (place + 1) * share - (gap / 2 * share if count > 1 else 0),
    ]


def _panel_title(panel: Mapping[str, Any], wide: Sequence[float], high: Sequence[float]) -> Figure:
    names = dict(zip(panel, short_names(list(panel)), strict=True))
    return {
        "text": escape(", ".join(f"{names[name]} = {shown(value)}" for name, value in panel.items())),
        "x": (wide[0] + wide[1]) / 2,
        "y": high[1],
        "xref": "paper",
        "yref": "paper",
        "xanchor": "center",
        "yanchor": "bottom",
        "showarrow": False,
    }


# the table -----------------------------------------------------------------------------------------------------------
def _table(about: Mapping[str, Any], groups: Sequence[SeedGroup]) -> dict[str, Any]:
    """Head and rows of the table; a cell is a text, and the number by which it is sorted (None: its text)."""
    fields = list(about["over"])
    names = names_of(groups)
    conditions = list(dict.fromkeys(name for group in groups for name in group.verdicts()))
    head = [*short_names(fields), "scheme", "platform", *(heading(name)[0] for name in names), *conditions]
    rows = []
    for group in groups:
        figures, counts, worst = group.figures(), group.verdicts(), group.worst()
        row: list[tuple[str, float | None, str]] = []
        for field in fields:
            found = magnitude(group.over[field])
            row.append((shown(group.over[field]), None if found is None else found[0], "n" if found else ""))
        row += [(group.scheme, None, ""), (group.platform, None, "")]
        for name in names:
            one = figures.get(name)
            row.append((cell(one, heading(name)[1]), None if one is None else one.mean, "n"))
        row += [(verdict_cell(counts[c], worst[c]) if c in counts else "", None, worst.get(c, "")) for c in conditions]
        rows.append(row)
    return {"head": head, "rows": rows}
