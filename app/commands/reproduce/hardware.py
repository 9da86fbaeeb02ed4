"""``rpsim reproduce hardware``: published curves of hardware beside the models'; the scoreboard."""

from __future__ import annotations

import argparse
import csv
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ....sim.jobs.cluster import workers
from ....sim.jobs.kept import Kept
from ....sim.jobs.runner import Workers
from ....validation.published.curves.board import Board, Result, chosen, run
from ....validation.published.scoreboard import NOT_ANALYSED, Bound, Claim, ClaimStatus, Summary
from ...terminal.envelope import envelope
from ...terminal.output import folder, footer, manifest, replacing, writable, write_json
from ...terminal.progress import bar
from ...terminal.text import paragraph, plural, table
from . import without

if TYPE_CHECKING:
    from tqdm import tqdm

    from ....validation.published.curves.curves import Curve
    from ....validation.published.curves.mechanisms import Mechanism, Without
    from ....validation.published.curves.sweep import Variation

KEPT = ".hardware-points.jsonl"


def main(options: argparse.Namespace) -> int:
    """Run the curves, print, write; returns 0 if the predictions reach the bar, else 1."""
    began = time.monotonic()
    curves = chosen(options.component, options.quick)
    settings = {"component": options.component, "quick": options.quick, "sweep": options.sweep}
    mechanisms = _mechanisms(options.without)
    if mechanisms:
        settings["without"] = [mechanism.name for mechanism in mechanisms]
    target = folder(options.out, "hardware", settings, 1, "reproduce")
    kept = Kept(writable(options.out) / KEPT)
    done: list[str] = []
    try:
        with workers(options.jobs, options.dask) as some:
            board = _run(curves, some, kept, done)
            variations = _sweep(curves, board, some, kept, done) if options.sweep else []
            found = _without(curves, board, mechanisms, some, kept, done) if mechanisms else []
    except KeyboardInterrupt:
        told = f"{plural(len(done), 'point')} are kept: the same command goes on from there"
        print(told, file=sys.stderr)
        raise
    if options.pages:
        from ...pages.platforms import write

        write(board, Path(options.pages))
    summary = board.summary()
    answer = document(board, summary, variations, found)
    with replacing(target) as draft:
        write_json(draft / "summary.json", answer)
        _write_claims(draft / "claims.csv", board.claims())
        if not options.no_report:
            from ...pages.curves import page

            (draft / "report.html").write_text(page(board, summary, variations), encoding="utf-8", newline="\n")
        platforms = list(dict.fromkeys(curve.platform for curve in curves))
        about = {"settings": settings, "seed": 1, "platforms": platforms}
        write_json(draft / "manifest.json", manifest("reproduce hardware", time.monotonic() - began, **about))
    if options.json:
        print(envelope(options, {**answer, "results": target.as_posix()}, 1), end="")
    else:
        end = footer(target, "" if options.no_report else "report.html")
        print("\n".join([*text(board, summary, variations, found), "", *end]))
    return 0 if summary.met else 1


def document(
    board: Board, summary: Summary, variations: Sequence[Variation] = (), found: Sequence[Without] = ()
) -> dict[str, Any]:
    """The scoreboard and its summary as JSON."""
    answer: dict[str, Any] = {
        "subject": "hardware",
        "claims": [
            {**claim.row(), "component": result.curve.component, "platform": result.curve.platform}
            for result in board.results
            for claim in result.claims()
        ],
        "summary": summary.row(),
    }
    if variations:
        answer["sweep"] = [
            {
                "parameter": one.path,
                "value": one.text,
                "platforms": list(one.platforms),
                "predicted": one.summary.predicted,
                "predicted_met": one.summary.predicted_met,
                "median_error": one.summary.row()["median_error"],
                "met": one.summary.met,
                "lost": list(one.lost),
                "won": list(one.won),
            }
            for one in variations
        ]
    if found:
        answer["without"] = without.document(found)
    return answer


def text(
    board: Board, summary: Summary, variations: Sequence[Variation] = (), found: Sequence[Without] = ()
) -> list[str]:
    """The scoreboard as lines of a terminal: a row for each curve, the missed ones and why, the bar."""
    lines: list[str] = []
    for component in dict.fromkeys(result.curve.component for result in board.results):
        results = [result for result in board.results if result.curve.component == component]
        lines += [component, *table(["curve", "role", "met", "median", "worst"], [_row(one) for one in results], 2), ""]
    missed = [claim for claim in board.claims() if not claim.met and claim.status is not ClaimStatus.INPUT]
    if missed:
        lines += ["missed"]
        for claim in missed:
            lines += paragraph(_missed(claim), 2, 2)
        lines.append("")
    if variations:
        lines += ["with one badly known parameter at an end of its range", *_variations(summary, variations), ""]
    if found:
        lines += [*without.text(found), ""]
    return lines + _bar(summary)


def _row(result: Result) -> list[str]:
    claims = result.claims()
    errors = sorted(abs(claim.error) for claim in claims if claim.error is not None)
    met = f"{sum(claim.met for claim in claims)} of {len(claims)}"
    role = str(result.curve.role)
    if not errors:
        return [result.curve.id, role, met, "", ""]
    middle = (errors[(len(errors) - 1) // 2] + errors[len(errors) // 2]) / 2
    return [result.curve.id, role, met, f"{middle:.1%}", f"{errors[-1]:.1%}"]


def _missed(claim: Claim) -> str:
    published = str(claim.published) if isinstance(claim.published, Bound) else f"{claim.published:g}"
    off = "" if claim.error is None else f" ({claim.error:+.0%})"
    kind = "" if claim.status is ClaimStatus.PREDICT else f", {claim.status}"
    reason = claim.reason or NOT_ANALYSED
    return f"{claim.id}{kind}: published {published} {claim.unit}, simulated {claim.simulated:.4g}{off}: {reason}"


def _variations(summary: Summary, variations: Sequence[Variation]) -> list[str]:
    rows = [["as it is", *_short(summary), "", ""]]
    rows += [
        [
            f"{_leaf(one.path)} = {one.text}",
            *_short(one.summary),
            str(len(one.lost)),
            str(len(one.won)),
        ]
        for one in variations
    ]
    return table(["", "predicted met", "median", "the bar", "lost", "won"], rows, 1)


def _short(summary: Summary) -> list[str]:
    met = f"{summary.predicted_met} of {summary.predicted}"
    return [met, f"{summary.median_error:.1%}", "" if summary.met else "missed"]


def _leaf(path: str) -> str:
    """A parameter's path as short as it can be said: of ``media.optane.controller.read_buffer`` both ends."""
    first, *_, last = path.split(".")
    return f"{first}.{last}"


def _bar(summary: Summary) -> list[str]:
    share = summary.predicted_met / summary.predicted if summary.predicted else 0.0
    bar = summary.bar
    lines = paragraph(
        f"{plural(summary.predicted, 'predicted point')}: {summary.predicted_met} met ({share:.0%}; the bar is "
        f"{bar.met_share:.0%}), median error {summary.median_error:.1%} (the bar is {bar.median_error:.0%}): "
        + ("the bar is met" if summary.met else "the bar is missed")
    )
    apart = (
        f"Apart: {plural(summary.fitted, 'point')} that parameters were fitted to, {summary.fitted_met} met, median "
        f"error {summary.fitted_median_error:.1%}; {plural(summary.shapes, 'shape')}, {summary.shapes_met} met; "
        f"{plural(summary.inputs, 'point')} that the models have as an input, which count for nothing."
    )
    return lines + paragraph(apart)


def _run(curves: Sequence[Curve], jobs: Workers, kept: Kept, done: list[str]) -> Board:
    points = sum(len(curve.points) for curve in curves)
    with bar("reproduce hardware", points) as shown:
        return run(curves, jobs, _updates(shown, done), kept=kept)


def _sweep(curves: Sequence[Curve], board: Board, jobs: Workers, kept: Kept, done: list[str]) -> list[Variation]:
    from ....validation.published.curves.sweep import again, sweep

    points = sum(map(len, again(curves).values()))
    with bar("sweep", points) as shown:
        return sweep(curves, board, jobs, _updates(shown, done), kept)


def _mechanisms(names: Sequence[str] | None) -> list[Mechanism]:
    from ....validation.published.curves.mechanisms import chosen_mechanisms

    return chosen_mechanisms(names) if names else []


def _without(
    curves: Sequence[Curve], board: Board, mechanisms: Sequence[Mechanism], jobs: Workers, kept: Kept, done: list[str]
) -> list[Without]:
    from ....validation.published.curves import mechanisms as scoreboards

    points = sum(len(todo) for one in mechanisms for todo in scoreboards.touched(curves, one).values())
    with bar("without", points) as shown:
        return scoreboards.without(curves, board, mechanisms, jobs, _updates(shown, done), kept)


def _updates(shown: tqdm[Any], done: list[str]) -> Callable[[str], None]:
    def on_step(what: str) -> None:
        done.append(what)
        shown.update()

    return on_step


def _write_claims(path: Path, claims: Iterable[Claim]) -> None:
    rows = [claim.row() for claim in claims]
    with path.open("w", encoding="utf-8", newline="") as file:
        out = csv.DictWriter(file, list(rows[0]) if rows else ["id"], lineterminator="\n")
        out.writeheader()
        out.writerows(rows)
