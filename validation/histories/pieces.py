"""The shortest failing piece of a history: greedy, by taking away only what cannot be the reason.

A piece must fail for the history's own reason. Taking away a write makes the reads of its value wrong, which says
nothing; so operations are taken away only where that leaves every history that had an order one with an order: one
that changes nothing by itself, or all that the model calls related (a value's write and all reads of it). Then a piece
that has no order proves that the whole has none. It is minimal in this sense: none of these can be taken away alone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable, Sequence
from typing import Protocol

from ...protocols.guarantees import Condition, Verdict
from ..oracle.known import NEVER_PS
from ..oracle.models.simple import READS, WRITES, Model
from .fitting import Act, Subject
from .judges import Opinion, SearchJudge, Terms

SHRINKING_BUDGET = 300_000
"""How many steps shrinking may take, of all trials together; the piece that is left then is shown."""


class AnyJudge(Protocol):
    """A judge of operations by a condition, at an instant."""

    @property
    def registers(self) -> bool:
        """Whether all objects are registers with unique values: each value's operations can be looked at apart."""

    def judge(self, condition: Condition, acts: Sequence[Act], until_ps: int = ..., budget: int = ...) -> Opinion:
        """The answer about ``acts`` at ``until_ps``."""


def first_failure(judge: AnyJudge, condition: Condition, acts: Sequence[Act], found: Opinion) -> tuple[int, Opinion]:
    """The earliest response by which ``acts`` have no order: its instant, and the answer then."""
    ends_ps = sorted(
        {act.entry.return_ps for act in acts if act.entry.outcome == "ok" and act.entry.return_ps is not None}
    )
    by_line = {act.entry.line: act.entry for act in acts}
    ends_of_named = [by_line[line].return_ps or NEVER_PS for line in found.lines if line in by_line]
    low, high = 0, len(ends_ps) - 1
    left = SHRINKING_BUDGET

    def at(turn: int) -> Opinion:
        nonlocal left
        opinion = judge.judge(condition, acts, ends_ps[turn], max(left, 1))
        left -= opinion.steps
        return opinion

    if found.sure and judge.registers:
        # by the last of them all that it names had happened (and takes under way may yet explain it, of a container)
        high = bisect_left(ends_ps, min(max(ends_of_named), ends_ps[-1]))
    elif not found.sure and condition not in (Condition.BUFFERED, Condition.BUFFERED_CUT):
        # not before that one; later, if only the results of others that were under way rule it out
        low = bisect_left(ends_ps, ends_of_named[0])
        now = at(low)
        if now.verdict is Verdict.VIOLATED:
            return ends_ps[low], now
    certain = high
    while low < high:
        middle = (low + high) // 2
        if at(middle).verdict is Verdict.VIOLATED:
            high = middle
        else:
            low = middle + 1
    now = at(low)
    return (ends_ps[low], now) if now.verdict is Verdict.VIOLATED else (ends_ps[certain], found)


def prefix_of(
    condition: Condition, model: Model, subject: Subject, at_ps: int, terms: Terms, budget: int | None = None
) -> tuple[int | None, tuple[int, ...] | None]:
    """Until when the longest prefix of ``subject`` goes that has an order, and one of its orders, by lines.

    None for the order where ``budget`` steps do not find one.
    """
    ends_ps = [act.entry.return_ps for act in subject.acts if act.entry.outcome == "ok"]
    before_ps = max((end for end in ends_ps if end is not None and end < at_ps), default=None)
    if before_ps is None:
        return None, ()
    opinion = SearchJudge(subject, model, terms).judge(condition, subject.acts, before_ps, budget)
    return before_ps, opinion.order if opinion.verdict is Verdict.HOLDS else None


def shrink(
    judge: AnyJudge, condition: Condition, model: Model, acts: Sequence[Act], at_ps: int, found: Opinion
) -> list[Act]:
    """The least of ``acts`` that still has no order at ``at_ps``, in the order of invocation."""
    piece = [act for act in acts if act.entry.invoke_ps <= at_ps and not (_open(act, at_ps) and model.inert(act.call))]
    left = SHRINKING_BUDGET

    def fails(some: list[Act]) -> bool:
        nonlocal left
        opinion = judge.judge(condition, some, at_ps, max(left, 1))
        left -= max(opinion.steps, len(some))
        return opinion.verdict is Verdict.VIOLATED

    named = _named(piece, found.lines)
    if (judge.registers or found.sure) and named and fails(named):
        piece = named
    groups = _groups(model, piece, at_ps)
    size = max(1, len(groups) // 2)
    while left > 0:
        start, removed = 0, False
        while start < len(groups) and left > 0:
            gone = {id(act) for group in groups[start : start + size] for act in group}
            smaller = [act for act in piece if id(act) not in gone]
            if fails(smaller):
                piece, removed = smaller, True
                groups = groups[:start] + [[a for a in g if id(a) not in gone] for g in groups[start + size :]]
                groups = [group for group in groups if group]
            else:
                start += size
        if size == 1 and not removed:
            break
        size = max(1, size // 2)
    return piece


def named_and_written(acts: Sequence[Act], lines: Sequence[int]) -> list[Act]:
    """The operations on ``lines`` and the writers of the values that they read."""
    return _named(acts, lines)


def _named(acts: Sequence[Act], lines: Sequence[int]) -> list[Act]:
    wanted = set(lines)
    read: set[Hashable] = {(a.entry.key, a.call.result) for a in acts if a.entry.line in wanted and a.call.f in READS}
    return [
        a for a in acts if a.entry.line in wanted or (a.call.f in WRITES and (a.entry.key, a.call.argument) in read)
    ]


def _open(act: Act, at_ps: int) -> bool:
    return act.entry.outcome != "ok" or act.entry.return_ps is None or act.entry.return_ps > at_ps


def _groups(model: Model, acts: Sequence[Act], at_ps: int) -> list[list[Act]]:
    """What can be taken away: related operations together first, then single ones that change nothing.

    All operations of one key together where there are several keys: what lacks an object had an order without it, too.
    """
    keys: dict[Hashable, list[Act]] = {}
    related: dict[Hashable, list[Act]] = {}
    alone = []
    for act in acts:
        call = act.span(at_ps).call
        keys.setdefault(act.entry.key, []).append(act)
        name = model.related(call)
        if name is not None:
            related.setdefault((act.entry.key, name), []).append(act)
        if model.inert(call):
            alone.append([act])
    return [*(keys.values() if len(keys) > 1 else ()), *related.values(), *alone]
