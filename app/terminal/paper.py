"""The output of ``rpsim reproduce PAPER``: each claim beside its result, the bar, and the swept parameters."""

from __future__ import annotations

from collections.abc import Sequence

from ...validation.published.papers.paper import PaperClaim
from ...validation.published.scoreboard import NOT_ANALYSED, Claim, ClaimStatus, Range, Summary, summarise
from .text import paragraph, plural, table

Row = tuple[PaperClaim, Claim]
Swept = dict[str, list[Row]]
"""The scoreboard over a few points, by the parameter that is changed (``cpu.request = 300 ns``) or ``AS_IT_IS``."""

AS_IT_IS = "as it is"
_IN_WORDS = (ClaimStatus.EITHER_OR, ClaimStatus.CONDITION_MISSING)
"""The statuses that the summary's last words are about."""
TITLE = "What the paper does not determine"
ABOUT = (
    "Each of these at an end of what is known of it, all others as they are, over the few points of a quick look and "
    "with fewer operations still."
)
HEAD = ("set otherwise", "predicted met", "shapes met", "median error")


def text(
    rows: Sequence[Row], shown_only: Sequence[PaperClaim], changed: Sequence[Row], summary: Summary, swept: Swept
) -> list[str]:
    """The scoreboard as lines of a terminal: claim, published, simulated, verdict; the reason where one is missed."""
    lines: list[str] = []
    for figure in dict.fromkeys(claim.figure for claim, _ in rows):
        lines.append(f"figure {figure}" if figure != "none" else "no figure")
        for claim, found in rows:
            if claim.figure == figure:
                lines += paragraph(f"{claim.id}  {claim.words}", 2, 7)
                lines += paragraph(f"{_verdict(found)}: {numbers(claim, found)}", 9, 2)
                if not found.met:
                    lines += paragraph(reason(claim, found), 9, 2)
        lines.append("")
    for one in shown_only:
        lines += paragraph(f"{one.id}  {one.words} ({status(one.status)}): {one.why}", 2, 7)
    lines += [""] if shown_only else []
    return [*lines, *sweep_lines(swept), *paragraph(short(summary)), *paragraph(_recorded(changed))]


def _verdict(found: Claim) -> str:
    plain = found.status is ClaimStatus.PREDICT and not found.chosen
    return ("met" if found.met else "MISSED") + ("" if plain else f" ({standing(found)})")


def status(one: ClaimStatus) -> str:
    """A status in words."""
    return one.replace("_", " ")


def standing(found: Claim) -> str:
    """The status of a claim, and whether a reading was chosen by it."""
    return status(found.status) + (", a reading was chosen by it" if found.chosen else "")


def numbers(claim: PaperClaim, found: Claim) -> str:
    """The published and the simulated number; of a shape or a trend, the share of points at which it is true."""
    unit = f" {claim.unit}" if claim.unit else ""
    if claim.kind == "value":
        return f"published {number(found.published)}{unit}, simulated {number(found.simulated)}{unit}"
    points = len(list(claim.points()))
    share = f"{float(low(found.simulated)):.0%}"
    if claim.kind == "trend":
        return f"{share} of what it says of {points} points"
    return f"true at {share} of {plural(points, 'point')}"


def low(value: float | Range) -> float:
    """The number, or the lower end of a range."""
    return value.low if isinstance(value, Range) else value


def number(value: object) -> str:
    """A number in short, or a range as it is."""
    return f"{value:.4g}" if isinstance(value, float | int) else str(value)


def reason(claim: PaperClaim, found: Claim) -> str:
    """The reason why a claim is missed, or does not count."""
    why = claim.why if found.status is not ClaimStatus.PREDICT else ""
    return ". ".join(words for words in (why, found.reason) if words) or NOT_ANALYSED


def short(summary: Summary) -> str:
    """How many claims are met, in two sentences."""
    share = summary.predicted_met / summary.predicted if summary.predicted else 0.0
    return (
        f"{plural(summary.predicted, 'predicted claim')}: {summary.predicted_met} met ({share:.0%}), median error of "
        f"their numbers {summary.median_error:.1%}. "
        f"Apart: {plural(summary.shapes, 'shape')}, {summary.shapes_met} met; {summary.fitted} that a parameter was "
        f"fitted to{_apart(summary)}; what excludes another claim or has no condition does not count."
    )


def _apart(summary: Summary) -> str:
    """The claims that are counted apart, in words: those by which readings were chosen, and the other statuses."""
    chosen = f"; {summary.chosen} by which a reading was chosen, {summary.chosen_met} met" if summary.chosen else ""
    others = [(ClaimStatus(name), count) for name, count in summary.others.items() if name not in _IN_WORDS]
    return chosen + (f"; {', '.join(f'{count} {status(one)}' for one, count in others)}" if others else "")


def _recorded(changed: Sequence[Row]) -> str:
    if not changed:
        return "Every claim comes out as the paper's file has recorded it."
    outcomes = (f"{claim.id} is {'met' if found.met else 'missed'} now" for claim, found in changed)
    return f"Not as the paper's file has recorded it: {', '.join(outcomes)}."


def sweep_lines(swept: Swept) -> list[str]:
    """For a terminal: how many claims are met with each value, then which."""
    if not swept:
        return []
    names = list(swept)
    numbered = [[f"{turn} {row[0]}", *row[1:]] for turn, row in enumerate(summaries(swept))]
    rows = [[claim, *("met" if cell.met else "." for cell in cells)] for claim, cells in by_claim(swept)]
    return [
        *paragraph(f"{TITLE}. {ABOUT}"),
        *table(HEAD, numbered),
        "",
        *table(["claim", *(str(turn) for turn in range(len(names)))], rows),
        "",
    ]


def summaries(swept: Swept) -> list[list[str]]:
    """A row for each value: how many claims are met with it."""
    rows = []
    for name, claims in swept.items():
        total = summarise([found for _, found in claims])
        met = f"{total.predicted_met} of {total.predicted}"
        rows.append([name, met, f"{total.shapes_met} of {total.shapes}", f"{total.median_error:.1%}"])
    return rows


def by_claim(swept: Swept) -> list[tuple[str, list[Claim]]]:
    """The claims by id, each with its verdicts in the order of the values."""
    columns = list(swept.values())
    return [(claim.id, [rows[turn][1] for rows in columns]) for turn, (claim, _) in enumerate(columns[0])]


def worth(found: Claim) -> str:
    """The simulated number, in short."""
    simulated = found.simulated
    return f"{simulated:.3g}" if isinstance(simulated, float | int) else f"{simulated.low:.3g} to {simulated.high:.3g}"
