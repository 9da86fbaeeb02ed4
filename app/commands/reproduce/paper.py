"""``rpsim reproduce PAPER``: a paper's claims beside the simulator's numbers, and its figures; the scoreboard."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ....sim.errors import InputError, Mistake, nearest
from ....sim.jobs.cluster import workers
from ....validation.published.papers.judge import judge, quick, values_of
from ....validation.published.papers.paper import Paper, PaperClaim, load_paper
from ....validation.published.papers.runs import Measured, SchemeRun, needed, perform
from ....validation.published.scoreboard import Summary, summarise
from ...terminal.envelope import envelope
from ...terminal.output import folder, footer, manifest, replacing, write_json
from ...terminal.paper import Row, Swept, text
from ...terminal.progress import bar
from ...terminal.text import plural
from . import sweep as swept_over


def main(options: argparse.Namespace) -> int:
    """Perform the runs of the paper's claims, print, write; returns 0 if all claims come out as recorded, else 1."""
    began = time.monotonic()
    paper, all_claims = _chosen(options.subject)
    claims = [claim for claim in all_claims if claim.expression is not None]
    shown_only = [claim for claim in all_claims if claim.expression is None]
    if options.quick:
        claims = quick(paper, claims)
    settings = {"subject": options.subject, "quick": options.quick, "sweep": options.sweep}
    target = folder(options.out, options.subject.replace("/", "-"), settings, 1, "reproduce")
    target.parent.mkdir(parents=True, exist_ok=True)
    kept = target.parent / f".{paper.name}-runs.jsonl"
    runs = needed(paper, claims, figures=not options.quick)
    operations = paper.quick_operations if options.quick else None
    done: list[str] = []
    try:
        with bar(f"reproduce {paper.name}", len(runs)) as shown, workers(options.jobs, options.dask) as some:

            def on_step(run: str) -> None:
                done.append(run)
                shown.update()

            measured = perform(paper, runs, jobs=some, operations=operations, kept=kept, on_step=on_step)
    except KeyboardInterrupt:
        print(
            f"{len(done)} of {plural(len(runs), 'run')} are kept: the same command goes on from there", file=sys.stderr
        )
        raise
    values = values_of(paper, measured)
    rows = [(claim, judge(paper, claim, values)) for claim in claims]
    summary = summarise([found for _, found in rows], ungraded=[claim.status for claim in shown_only])
    changed = [row for row in rows if row[1].met != row[0].recorded(quick=options.quick)]
    swept: Swept = {}
    if options.sweep:
        few = min(paper.sweep_operations, paper.quick_operations)
        with workers(options.jobs, options.dask) as some:
            swept = swept_over.sweep(paper, claims, kept, some, few)
    answer = document(paper, rows, shown_only, changed, summary, swept)
    with replacing(target) as draft:
        write_json(draft / "summary.json", answer)
        write_json(draft / "runs.json", [_measured(run, measured[run]) for run in runs])
        if not options.no_report:
            from ...pages.paper import page

            (draft / "report.html").write_text(
                page(paper, rows, summary, measured, swept), encoding="utf-8", newline="\n"
            )
        about = {"settings": settings, "runs": len(runs), "platform": paper.scenario["platform"]}
        write_json(draft / "manifest.json", manifest("reproduce", time.monotonic() - began, **about))
    if options.pages is not None:
        from ...pages.paper import markdown

        folder_of_pages = Path(options.pages)
        folder_of_pages.mkdir(parents=True, exist_ok=True)
        (folder_of_pages / f"{paper.name}.md").write_text(
            markdown(paper, rows, summary, swept), encoding="utf-8", newline="\n"
        )
    if options.json:
        print(envelope(options, {**answer, "results": target.as_posix()}, 1), end="")
    else:
        end = footer(target, "" if options.no_report else "report.html")
        print("\n".join([*text(rows, shown_only, changed, summary, swept), "", *end]))
    return 1 if changed else 0


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


def _measured(run: SchemeRun, found: Measured) -> dict[str, Any]:
    """A run and its measurements, or its verdicts, as JSON."""
    return {"scheme": run.scheme, **dict(run.at), **({"holds": dict(found)} if run.explored else found)}


def document(
    paper: Paper,
    rows: Sequence[Row],
    shown_only: Sequence[PaperClaim],
    changed: Sequence[Row],
    summary: Summary,
    swept: Swept,
) -> dict[str, Any]:
    """The scoreboard and its summary as JSON."""
    return {
        "subject": paper.name,
        "claims": [
            {**found.row(), "figure": claim.figure, "words": claim.words, "why": claim.why} for claim, found in rows
        ],
        "not_compared": [
            {"id": one.id, "status": str(one.status), "figure": one.figure, "words": one.words, "why": one.why}
            for one in shown_only
        ],
        "summary": summary.counts(),
        "as_recorded": not changed,
        "changed": [claim.id for claim, _ in changed],
        "sweep": swept_over.document(swept),
    }
