"""What a paper does not determine, beside its scoreboard: each such parameter at the ends of what is known of it.

Over the few points of a quick look: how many claims are met, and which of them with which value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from ....validation.published.papers.judge import judge, quick, values_of
from ....validation.published.papers.paper import Paper, PaperClaim
from ....validation.published.papers.runs import needed, perform
from ....validation.published.scoreboard import Bar, Claim, summarise
from ...terminal.progress import progress
from ...terminal.text import paragraph, table

Row = tuple[PaperClaim, Claim]
Swept = dict[str, list[Row]]
"""By what is set otherwise (``cpu.request = 300 ns``), or ``AS_IT_IS``: the scoreboard over the few points."""

AS_IT_IS = "as it is"
TITLE = "What the paper does not determine"
ABOUT = (
    "Each of these at an end of what is known of it, all others as they are, over the few points of a quick look and "
    "with fewer operations still."
)
HEAD = ("set otherwise", "predicted met", "shapes met", "median error")


def sweep(paper: Paper, claims: Sequence[PaperClaim], kept: Path, jobs: int, operations: int) -> Swept:
    """The scoreboard's few points as it is, and again with each parameter set otherwise."""
    few = quick(paper, claims)
    runs = needed(paper, few, figures=False)
    variants: dict[str, Mapping[str, Any]] = {AS_IT_IS: {}}
    variants |= {f"{path} = {value}": {path: value} for path, value in paper.sweep}
    found: Swept = {}
    with progress("sweep", len(runs) * len(variants)) as bar:
        for name, values in variants.items():
            measured = perform(
                paper, runs, jobs=jobs, operations=operations, kept=kept, tell=lambda _: bar.step(), values=values
            )
            looked_up = values_of(paper, measured, values)
            found[name] = [(claim, judge(paper, claim, looked_up)) for claim in few]
    return found


def document(swept: Swept, bar: Bar) -> list[dict[str, Any]]:
    """As JSON has it."""
    return [
        {
            "parameter": name,
            **summarise([found for _, found in rows], bar).row(),
            "claims": [found.row() for _, found in rows],
        }
        for name, rows in swept.items()
    ]


def lines(swept: Swept, bar: Bar) -> list[str]:
    """For a terminal: how many claims are met with each value, then which."""
    if not swept:
        return []
    names = list(swept)
    numbered = [[f"{turn} {row[0]}", *row[1:]] for turn, row in enumerate(_summaries(swept, bar))]
    rows = [[claim, *("met" if cell.met else "." for cell in cells)] for claim, cells in _by_claim(swept)]
    return [
        *paragraph(f"{TITLE}. {ABOUT}"),
        *table(HEAD, numbered),
        "",
        *table(["claim", *(str(turn) for turn in range(len(names)))], rows),
        "",
    ]


def markdown(swept: Swept, bar: Bar) -> list[str]:
    """For a page of the docs."""
    if not swept:
        return []
    return [
        "", f"## {TITLE}", "", ABOUT, "",
        *_piped(HEAD, _summaries(swept, bar)),
        "", "What each claim comes to; in bold where it is met.", "",
        *_piped(["claim", *swept], [[name, *map(_bold, cells)] for name, cells in _by_claim(swept)]),
    ]  # fmt: skip


def html(swept: Swept, bar: Bar) -> str:
    """For the report."""
    if not swept:
        return ""
    cells = [
        f"<tr><th>{name}</th>{''.join(_cell(found) for found in row)}</tr>" for name, row in _by_claim(swept)
    ]  # fmt: skip
    return (
        f"<h2>{TITLE}</h2><p>{ABOUT}</p>"
        + _table(HEAD, ["".join(_row(row)) for row in _summaries(swept, bar)])
        + "<p>What each claim comes to; in bold where it is met.</p>"
        + _table(["claim", *swept], cells)
    )


def _summaries(swept: Swept, bar: Bar) -> list[list[str]]:
    rows = []
    for name, claims in swept.items():
        short = summarise([found for _, found in claims], bar)
        met = f"{short.predicted_met} of {short.predicted}"
        rows.append([name, met, f"{short.shapes_met} of {short.shapes}", f"{short.median_error:.1%}"])
    return rows


def _by_claim(swept: Swept) -> list[tuple[str, list[Claim]]]:
    columns = list(swept.values())
    return [(claim.id, [rows[turn][1] for rows in columns]) for turn, (claim, _) in enumerate(columns[0])]


def _worth(found: Claim) -> str:
    simulated = found.simulated
    return f"{simulated:.3g}" if isinstance(simulated, float | int) else f"{simulated.low:.3g} to {simulated.high:.3g}"


def _bold(found: Claim) -> str:
    return f"**{_worth(found)}**" if found.met else _worth(found)


def _piped(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    return ["| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows)]


def _cell(found: Claim) -> str:
    return f"<td>{f'<b>{_worth(found)}</b>' if found.met else _worth(found)}</td>"


def _row(row: Sequence[str]) -> str:
    return f"<tr>{''.join(f'<td>{escape(cell)}</td>' for cell in row)}</tr>"


def _table(head: Sequence[str], rows: Sequence[str]) -> str:
    heads = "".join(f"<th>{escape(name)}</th>" for name in head)
    return f"<div class='scroll'><table><thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
