"""The pages of ``rpsim reproduce PAPER``: report.html with the paper's figures, and the page of the docs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...validation.published.papers.measures import MEASURES
from ...validation.published.papers.paper import Paper
from ...validation.published.papers.runs import Measured, SchemeRun
from ...validation.published.scoreboard import Claim, Summary
from ..terminal.paper import (
    ABOUT,
    HEAD,
    TITLE,
    Row,
    Swept,
    by_claim,
    low,
    number,
    numbers,
    reason,
    short,
    standing,
    status,
    summaries,
    worth,
)
from .markdown import table, wrapped
from .plots import COLOURS, Figure, figure_layout
from .template import render

READINGS = ("of", "taken", "could be", "why")


def markdown(paper: Paper, rows: Sequence[Row], summary: Summary, swept: Swept) -> str:
    """The scoreboard as a page of the documentation."""
    lines = [
        f"# {paper.title}",
        "",
        f"{paper.source}. Simulated by `rpsim reproduce {paper.name}`.",
        "",
        *wrapped(paper.about),
        "",
        *wrapped(short(summary)),
        "",
        *table(["claim", "figure", "says", "status", "published", "simulated", "verdict"], map(_row, rows)),
    ]
    lines += _readings(paper)
    lines += _swept(swept)
    lines += _shown(paper)
    missed: dict[str, list[str]] = {}
    for claim, found in rows:
        if not found.met:
            missed.setdefault(reason(claim, found), []).append(claim.id)
    if missed:
        lines += ["", "## Missed, and why", ""]
        for why, names in missed.items():
            lines += wrapped(f"- {', '.join(names)}: {why}")
    return "\n".join(lines) + "\n"


def _row(row: Row) -> list[str]:
    claim, found = row
    published = number(found.published) if claim.kind == "value" else claim.kind
    simulated = number(found.simulated) if claim.kind == "value" else f"{low(found.simulated):.0%}"
    cells = [claim.id, claim.figure, claim.words, standing(found), published, simulated]
    return [*cells, "met" if found.met else "missed"]


def _readings(paper: Paper) -> list[str]:
    """How the paper is read where it leaves something open."""
    return ["", "## Readings", "", *table(READINGS, _of(paper))] if paper.readings else []


def _of(paper: Paper) -> list[list[str]]:
    return [[one.of, one.taken, one.beside, one.why] for one in paper.readings]


def _shown(paper: Paper) -> list[str]:
    """The claims that have nothing to compare."""
    rows = [
        [one.id, one.figure, one.words, status(one.status), one.why] for one in paper.claims if one.expression is None
    ]
    return ["", "## Not compared", "", *table(["claim", "figure", "says", "status", "why"], rows)] if rows else []


def _swept(swept: Swept) -> list[str]:
    """The lines of a sweep on a page of the docs."""
    if not swept:
        return []
    return [
        "", f"## {TITLE}", "", *wrapped(ABOUT), "",
        *table(HEAD, summaries(swept)),
        "", "What each claim comes to; in bold where it is met.", "",
        *table(["claim", *swept], [[name, *map(_bold, cells)] for name, cells in by_claim(swept)]),
    ]  # fmt: skip


def _bold(found: Claim) -> str:
    return f"**{worth(found)}**" if found.met else worth(found)


def page(
    paper: Paper, rows: Sequence[Row], summary: Summary, measured: Mapping[SchemeRun, Measured], swept: Swept
) -> str:
    """The whole report as text."""
    figures = {name: found for name in paper.figures if (found := _figure(paper, name, measured)) is not None}
    return render(
        "paper.html",
        title=f"rpsim: {paper.title}",
        kind=f"rpsim reproduce {paper.name}",
        heading=paper.title,
        about=[short(summary), f"{paper.source}. {paper.about}"],
        missed=[_claim(row) for row in rows if not row[1].met],
        met=[_claim(row) for row in rows if row[1].met],
        heads=READINGS,
        readings=_of(paper),
        swept=_sweep(swept) if swept else None,
        shown={name: figure.title for name, figure in paper.figures.items() if name in figures},
        figures={f"figure-{name}": found for name, found in figures.items()},
    )


def _claim(row: Row) -> list[str]:
    claim, found = row
    why = "" if found.met else reason(claim, found)
    return [claim.id, claim.words, standing(found), numbers(claim, found), why]


def _sweep(swept: Swept) -> dict[str, object]:
    claims = [(name, [{"met": one.met, "text": worth(one)} for one in found]) for name, found in by_claim(swept)]
    return {
        "title": TITLE, "about": ABOUT, "head": HEAD, "summaries": summaries(swept), "names": list(swept),
        "claims": claims,
    }  # fmt: skip


def _figure(paper: Paper, name: str, measured: Mapping[SchemeRun, Measured]) -> Figure | None:
    """The measured points of a figure (a quick look has few); None if no scheme has two of them."""
    figure = paper.figures[name]
    axis = list(figure.values)
    layout = figure_layout(340, [paper.label(scheme) for scheme in figure.schemes])
    layout["xaxis"] |= {
        "title": {"text": paper.axes[figure.x].title}, "type": "category", "categoryorder": "array",
        "categoryarray": axis,
    }  # fmt: skip
    layout["yaxis"] |= {"title": {"text": MEASURES[figure.y].text}, "rangemode": "tozero"}
    traces = []
    for turn, scheme in enumerate(figure.schemes):
        runs = {value: SchemeRun(scheme, tuple(sorted({**figure.at, figure.x: value}.items()))) for value in axis}
        found = {value: measured[run][figure.y] for value, run in runs.items() if run in measured}
        if len(found) < 2:
            continue
        y = [each if isinstance(each, float) else each[figure.operation or ""] for each in found.values()]
        traces.append({
            "type": "scatter", "mode": "lines+markers", "name": paper.label(scheme), "x": list(found),
            "y": [float(f"{value:.5g}") for value in y],
            "line": {"color": COLOURS[turn % len(COLOURS)], "width": 2},
        })  # fmt: skip
    return {"data": traces, "layout": layout} if traces else None
