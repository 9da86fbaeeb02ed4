"""Where operations took effect: a linearization point for each, out of a legal order of each object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ...protocols.guarantees import Condition, Verdict
from .check import Report
from .judges import SearchJudge

MOST_ACTS = 5_000
"""Objects with more operations are not placed."""


@dataclass(frozen=True)
class Placed:
    """One object's order: by the line of each operation, its turn (from 1) and its instant.

    ``stuck`` is the line of the first operation that cannot be placed, if there is one; then the order is that of the
    longest prefix that has one.
    """

    turns: Mapping[int, tuple[int, int]]
    stuck: int | None = None


def place(report: Report, condition: Condition = Condition.LINEARIZABLE) -> list[Placed]:
    """The objects of a report, in their order, placed as ``condition`` wants them; without those that are too large."""
    found = []
    for subject in report.subjects:
        if len(subject.acts) > MOST_ACTS:
            continue
        answer = SearchJudge(subject, report.model).start(condition, subject.acts, 1 << 62, None).run()
        invoked_ps = {act.entry.line: act.entry.invoke_ps for act in subject.acts}
        turns, at_ps = {}, -1 << 62
        for turn, line in enumerate(answer.order, start=1):
            at_ps = max(at_ps, invoked_ps[line])
            turns[line] = turn, at_ps
        found.append(Placed(turns, answer.stuck if answer.verdict is Verdict.VIOLATED else None))
    return found
