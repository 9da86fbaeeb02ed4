"""``rpsim litmus --witness``: for each outcome that is allowed a run of the simulator that shows it, as a timeline."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...validation.litmus.language.format import LIBRARY
from ...validation.litmus.language.program import OutcomeFinding
from ...validation.litmus.machine.explorer import CaseAnswer
from ...validation.litmus.simulator.witness import OutcomeWitness, Searched, search
from .text import count, microseconds, paragraph, plural, table

MOST_TIMELINES = 12
"""Up to so many cases have their timelines printed; of more cases only numbers are."""
WHO_WIDTH = 12


def searched(answers: Sequence[CaseAnswer]) -> list[Searched]:
    """Search a witness for each outcome that was found to be allowed; an answer a case."""
    tests: dict[int, list[CaseAnswer]] = {}
    for answer in answers:
        if answer.found is OutcomeFinding.ALLOWED:
            tests.setdefault(id(answer.test), []).append(answer)
    return [one for mine in tests.values() for one in search(mine[0].test, [answer.case for answer in mine])]


def witness_text(found: Sequence[Searched]) -> list[str]:
    """The lines of the answer: timelines of a few, numbers of many, and why there is none for the others."""
    lines: list[str] = []
    if len(found) <= MOST_TIMELINES:
        for one in found:
            if one.witness is not None:
                lines += ["", *_timeline(one.witness)]
    else:
        lines += ["", *_by_file(found)]
    reasons: dict[str, list[Searched]] = {}
    for one in found:
        if one.witness is None:
            reasons.setdefault(one.reason.partition(" (in")[0] or "", []).append(one)
    for reason, ones in sorted(reasons.items(), key=lambda item: (item[0] == "", -len(item[1]))):
        head = f"{plural(len(ones), 'outcome')} without a witness: {reason or 'nobody knows why'}"
        lines += ["", *paragraph(head, 0, 2)]
        names = list(dict.fromkeys(one.test.id for one in ones))
        shown = "; ".join(names[:8]) + (f"; and {count(len(names) - 8)} more" if len(names) > 8 else "")
        lines += paragraph(shown, 2, 2)
    witnessed = sum(one.witness is not None for one in found)
    runs = sum(one.runs for one in found)
    how_many = f"{count(witnessed)} with a witness ({plural(runs, 'run')} tried)"
    return [*lines, "", *paragraph(f"{plural(len(found), 'outcome')} allowed, {how_many}", 0, 2)]


def unexplained(found: Sequence[Searched]) -> int:
    """How many have neither a witness nor a reason."""
    return sum(one.witness is None and not one.reason for one in found)


def _by_file(found: Sequence[Searched]) -> list[str]:
    files: dict[str, list[Searched]] = {}
    for one in found:
        files.setdefault(one.test.file, []).append(one)
    rows = []
    for file, mine in files.items():
        seen = sum(one.witness is not None for one in mine)
        rows.append([name_of(file), count(len(mine)), count(seen), count(len(mine) - seen)])
    return table(["file", "allowed", "with a witness", "without"], rows, indent=0)


def _timeline(witness: OutcomeWitness) -> list[str]:
    case = witness.case
    when = f"shown by run {witness.seed} at {microseconds(witness.at_ps)} us"
    head = f"{witness.test.id}, {case.profile.name}: {case.outcome.text}, {when}"
    lines = paragraph(head, 0, 2)
    width = max([WHO_WIDTH, *(len(who) for _, who, _ in witness.lines)])
    for at_ps, who, what in witness.lines:
        lines += paragraph(f"{microseconds(at_ps):>10}  {who.ljust(width)}{what}", 2, 12 + width)
    return lines


def name_of(file: str) -> str:
    """A file of the shipped library by its name alone, others by the end of their path."""
    path = Path(file)
    name = f"{path.name} (shipped)" if path.parent == LIBRARY else file
    return name if len(name) <= 40 else f"...{name[-37:]}"


def witness_record(one: Searched) -> dict[str, Any]:
    """The answer for one outcome as JSON."""
    return {
        "id": one.test.id,
        "profile": one.case.profile.name,
        "crash": str(one.case.crash),
        "outcome": one.case.outcome.text,
        "witnessed": one.witness is not None,
        "runs": one.runs,
        "reason": one.reason or None,
        "seed": one.witness.seed if one.witness else None,
        "instant_ps": one.witness.at_ps if one.witness else None,
        "timeline": [{"time_ps": at_ps, "who": who, "what": what} for at_ps, who, what in one.witness.lines]
        if one.witness
        else None,
    }
