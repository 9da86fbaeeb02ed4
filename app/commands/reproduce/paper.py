"""``rpsim reproduce PAPER``: a paper's claims beside what the simulator has, and its figures; the scoreboard."""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....sim.errors import InputError, Mistake, nearest
from ....validation.published.papers.judge import judge, quick, values_of
from ....validation.published.papers.language import MEASURES
from ....validation.published.papers.paper import Paper, PaperClaim, load_paper
from ....validation.published.papers.runs import Measured, SchemeRun, needed, perform
from ....validation.published.scoreboard import NOT_ANALYSED, Bar, Claim, ClaimStatus, Range, Summary, summarise
from ...pages.plots import COLOURS, figure_layout
from ...terminal.output import as_json, folder, footer, manifest, replacing, write_json
from ...terminal.progress import progress
from ...terminal.text import paragraph, plural
from . import sweep as swept_over
from .sweep import Row, Swept, sweep

if TYPE_CHECKING:
    from ...pages.plots import Figure

BAR = Bar(met_share=0.8, median_error=0.3)
"""Four in five of the predicted claims, each of which is met within 15 to 30 %."""
QUICK_OPERATIONS = 1000
SWEEP_OPERATIONS = 400
AXES = {"size": "bytes of a value", "clients": "client processes", "mix": "workload"}
"""What the axes that papers share are called beneath a curve."""


def main(options: argparse.Namespace) -> int:
    """Run what the paper's claims need, print, write; returns 0 if the predictions reach the bar, else 1."""
    began = time.monotonic()
    paper, claims = _chosen(options.subject)
    if options.quick:
        claims = quick(paper, claims)
    settings = {"subject": options.subject, "quick": options.quick, "sweep": options.sweep}
    target = folder(options.out, options.subject.replace("/", "-"), settings, 1, "reproduce")
    target.parent.mkdir(parents=True, exist_ok=True)
    kept = target.parent / f".{paper.name}-runs.jsonl"
    runs = needed(paper, claims, figures=not options.quick)
    operations = QUICK_OPERATIONS if options.quick else None
    done: list[str] = []
    try:
        with progress(f"reproduce {paper.name}", len(runs)) as bar:

            def tell(run: str) -> None:
                done.append(run)
                bar.step()

            measured = perform(paper, runs, jobs=options.jobs, operations=operations, kept=kept, tell=tell)
    except KeyboardInterrupt:
        print(
            f"{len(done)} of {plural(len(runs), 'run')} are kept: the same command goes on from there", file=sys.stderr
        )
        raise
    values = values_of(paper, measured)
    rows = [(claim, judge(paper, claim, values)) for claim in claims]
    summary = summarise([found for _, found in rows], BAR)
    swept = sweep(paper, claims, kept, options.jobs, SWEEP_OPERATIONS) if options.sweep else {}
    answer = document(paper, rows, summary, swept)
    with replacing(target) as draft:
        write_json(draft / "summary.json", answer)
        write_json(draft / "runs.json", [{"scheme": run.scheme, **dict(run.at), **measured[run]} for run in runs])
        if not options.no_report:
            (draft / "report.html").write_text(
                page(paper, rows, summary, measured, swept), encoding="utf-8", newline="\n"
            )
        about = {"settings": settings, "runs": len(runs), "platform": paper.scenario["platform"]}
        write_json(draft / "manifest.json", manifest("reproduce", time.monotonic() - began, **about))
    if options.pages:
        folder_of_pages = Path(options.pages)
        folder_of_pages.mkdir(parents=True, exist_ok=True)
        (folder_of_pages / f"{paper.name}.md").write_text(
            markdown(paper, rows, summary, swept), encoding="utf-8", newline="\n"
        )
    if options.json:
        print(as_json({**answer, "results": target.as_posix()}), end="")
    else:
        end = footer(target, "" if options.no_report else "report.html")
        print("\n".join([*text(rows, summary, swept), "", *end]))
    return 0 if summary.met else 1


def _chosen(subject: str) -> tuple[Paper, list[PaperClaim]]:
    name, _, figure = subject.partition("/")
    paper = load_paper(name)
    if not figure:
        return paper, list(paper.claims)
    claims = [claim for claim in paper.claims if claim.figure == figure]
    if not claims:
        known = [name for name in paper.figures if any(claim.figure == name for claim in paper.claims)]
        found = f"the figure '{figure}'"
        raise InputError(Mistake(found, f"a figure of {name}: {', '.join(known)}", nearest=nearest(figure, known)))
    return paper, claims


def document(paper: Paper, rows: Sequence[Row], summary: Summary, swept: Swept) -> dict[str, Any]:
    """The answer as JSON."""
    return {
        "subject": paper.name,
        "claims": [
            {**found.row(), "figure": claim.figure, "words": claim.words, "why": claim.why} for claim, found in rows
        ],
        "summary": summary.row(),
        "sweep": swept_over.document(swept, BAR),
    }


def text(rows: Sequence[Row], summary: Summary, swept: Swept) -> list[str]:
    """The scoreboard as lines of a terminal: claim, published, simulated, verdict; the reason where one is missed."""
    lines: list[str] = []
    for figure in dict.fromkeys(claim.figure for claim, _ in rows):
        lines.append(f"figure {figure}" if figure != "none" else "no figure")
        for claim, found in rows:
            if claim.figure == figure:
                lines += paragraph(f"{claim.id}  {claim.words}", 2, 7)
                lines += paragraph(f"{_verdict(found)}: {_numbers(claim, found)}", 9, 2)
                if not found.met:
                    lines += paragraph(_reason(claim, found), 9, 2)
        lines.append("")
    return [*lines, *swept_over.lines(swept, BAR), *paragraph(_bar(summary))]


def _verdict(found: Claim) -> str:
    counts = "" if found.status is ClaimStatus.PREDICT else f" ({found.status.replace('_', ' ')})"
    return ("met" if found.met else "MISSED") + counts


def _numbers(claim: PaperClaim, found: Claim) -> str:
    unit = f" {claim.unit}" if claim.unit else ""
    if claim.kind == "value":
        return f"published {_number(found.published)}{unit}, simulated {_number(found.simulated)}{unit}"
    points = len(list(claim.points()))
    share = f"{float(_low(found.simulated)):.0%}"
    if claim.kind == "trend":
        return f"{share} of what it says of {points} points"
    return f"true at {share} of {plural(points, 'point')}"


def _low(number: float | Range) -> float:
    return number.low if isinstance(number, Range) else number


def _number(number: object) -> str:
    return f"{number:.4g}" if isinstance(number, float | int) else str(number)


def _reason(claim: PaperClaim, found: Claim) -> str:
    return claim.why if claim.why and found.status is not ClaimStatus.PREDICT else found.reason or NOT_ANALYSED


def _bar(summary: Summary) -> str:
    share = summary.predicted_met / summary.predicted if summary.predicted else 0.0
    return (
        f"{plural(summary.predicted, 'predicted claim')}: {summary.predicted_met} met ({share:.0%}; the bar is "
        f"{summary.bar.met_share:.0%}), median error {summary.median_error:.1%}: "
        + ("the bar is met. " if summary.met else "the bar is missed. ")
        + f"Apart: {plural(summary.shapes, 'shape')}, {summary.shapes_met} met; {summary.fitted} that a parameter was "
        "fitted to; what excludes another claim or has no condition does not count."
    )


def markdown(paper: Paper, rows: Sequence[Row], summary: Summary, swept: Swept) -> str:
    """docs/reproduction/NAME.md."""
    lines = [
        f"# {paper.title}",
        "",
        f"{paper.source}. Made by `rpsim reproduce {paper.name} --pages docs/reproduction`; not written by hand.",
        "",
        *paragraph_of(paper.about),
        "",
        *paragraph_of(_bar(summary)),
        "",
        "| claim | figure | says | status | published | simulated | verdict |",
        "| --- | --- | --- | --- | --- | --- | --- |",
    ]
    for claim, found in rows:
        published = _number(found.published) if claim.kind == "value" else claim.kind
        simulated = _number(found.simulated) if claim.kind == "value" else f"{_low(found.simulated):.0%}"
        cells = [claim.id, claim.figure, claim.words, found.status.replace("_", " "), published, simulated]
        lines.append("| " + " | ".join([*cells, "met" if found.met else "missed"]) + " |")
    lines += swept_over.markdown(swept, BAR)
    missed = [(claim, found) for claim, found in rows if not found.met]
    if missed:
        lines += ["", "## Missed, and why", ""]
        for claim, found in missed:
            lines += paragraph_of(f"- {claim.id}: {_reason(claim, found)}")
    return "\n".join(lines) + "\n"


def paragraph_of(words: str) -> list[str]:
    """Wrapped as the docs are."""
    import textwrap

    return textwrap.wrap(words, 120, subsequent_indent="  " if words.startswith("- ") else "", break_on_hyphens=False)


def page(paper: Paper, rows: Sequence[Row], summary: Summary, measured: dict[SchemeRun, Measured], swept: Swept) -> str:
    """The whole page as text."""
    from plotly.offline import get_plotlyjs

    from .... import __version__
    from ...pages.report import inline, template

    figures = {
        f"figure-{name}": found for name in paper.figures if (found := _figure(paper, name, measured)) is not None
    }
    sections = "".join(
        f"<h3>Figure {escape(name)}: {escape(figure.title)}</h3><div class='plot' id='plot-figure-{name}'></div>"
        for name, figure in paper.figures.items()
        if f"figure-{name}" in figures
    )
    parts = {
        "title": f"rpsim: {escape(paper.title)}",
        "kind": f"rpsim reproduce {paper.name}",
        "heading": escape(paper.title),
        "summary": "".join(f"<p>{escape(words)}</p>" for words in (_bar(summary), f"{paper.source}. {paper.about}")),
        "missed": _table([row for row in rows if not row[1].met])
        + "<h2>Met</h2>"
        + _table([r for r in rows if r[1].met]),
        "sweep": swept_over.html(swept, BAR),
        "curves": sections or "<p>None of the runs that a figure takes was needed.</p>",
        "version": escape(__version__),
        "style": template("style.css"),
        "plotly": get_plotlyjs(),
        "figures": inline(figures),
    }
    return re.sub(r"\{\{(\w+)\}\}", lambda match: parts[match[1]], template("scoreboard.html"))


def _table(rows: Sequence[Row]) -> str:
    if not rows:
        return "<p>None.</p>"
    head = "".join(f"<th>{name}</th>" for name in ("claim", "says", "status", "numbers", "reason"))
    body = "".join(
        f"<tr><th>{escape(claim.id)}</th><td>{escape(claim.words)}</td><td>{found.status.replace('_', ' ')}</td>"
        f"<td>{escape(_numbers(claim, found))}</td><td>{'' if found.met else escape(_reason(claim, found))}</td></tr>"
        for claim, found in rows
    )
    return f"<div class='scroll'><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"


def _figure(paper: Paper, name: str, measured: dict[SchemeRun, Measured]) -> Figure | None:
    """What has been measured of a figure: of a quick look a few points; None if of no scheme there are two."""
    figure = paper.figures[name]
    axis = list(paper.axes[figure.x].values)
    layout = figure_layout(340, len(figure.schemes))
    layout["xaxis"] |= {
        "title": {"text": AXES.get(figure.x, figure.x)}, "type": "category", "categoryorder": "array",
        "categoryarray": axis,
    }  # fmt: skip
    layout["yaxis"] |= {"title": {"text": MEASURES[figure.y]}, "rangemode": "tozero"}
    traces = []
    for turn, scheme in enumerate(figure.schemes):
        runs = {value: SchemeRun(scheme, tuple(sorted({**figure.at, figure.x: value}.items()))) for value in axis}
        found = {value: measured[run][figure.y] for value, run in runs.items() if run in measured}
        if len(found) < 2:
            continue
        y = found.values() if figure.y == "thr" else [each[figure.operation or ""] for each in found.values()]
        traces.append({
            "type": "scatter", "mode": "lines+markers", "name": scheme, "x": list(found),
            "y": [float(f"{value:.5g}") for value in y],
            "line": {"color": COLOURS[turn % len(COLOURS)], "width": 2},
        })  # fmt: skip
    return {"data": traces, "layout": layout} if traces else None
