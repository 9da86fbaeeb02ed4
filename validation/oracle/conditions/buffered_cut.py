"""``buffered_cut``: buffered durable linearizability, consistent cuts (Izraelevitz, Mendes, Scott, DISC 2016).

For each crash there is an instant of the era before it, the cut, such that for each era the history is linearizable
that consists of what the eras before it had seen up to their cuts, and of the era itself. The cuts are the same for all
eras; the orders need not be, which makes this weaker than ``buffered``. What was under way at a cut may take effect
later or never. What returned before a completed sync was invoked stays, if it is in the sync's scope.

An operation that is open across a crash and was invoked behind the cut may take effect after the crash or not; whatever
is open across a crash took effect by its response or not at all.

Once the cuts are chosen each object is judged alone. For registers with unique values the earliest cuts that keep what
was read later are the best: an earlier one only asks for less. Else the cuts are tried, the latest first.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass

from ....protocols.guarantees import Verdict
from ..eras import Barrier, Eras, Op
from ..known import BEFORE_PS, NEVER_PS
from ..models.model import READS, UNKNOWN, WRITES, Call, State
from ..search.general import Budget, Interval, Search, SearchAnswer
from .durable import Zone, conflict

_BEGIN = BEFORE_PS
"""When the first era begins: a history's times may be negative."""


@dataclass(frozen=True)
class Cuts:
    """The answer: the cuts, if there are some; else the operations and the object of the farthest failure."""

    verdict: Verdict
    steps: int
    cuts_ps: tuple[int, ...] = ()
    era: int = 0
    object: int = 0
    numbers: tuple[int, ...] = ()
    answer: SearchAnswer | None = None


class _Seen:
    """One era's history: which operations it knows of, given the cuts of the eras before."""

    def __init__(self, eras: Eras, forced: frozenset[int], cuts_ps: Sequence[int], era: int) -> None:
        self._eras, self._forced, self._cuts_ps, self._era = eras, forced, cuts_ps, era

    def since_ps(self, op: Op) -> int | None:
        """From when on ``op`` may take effect; None if this era knows nothing of it."""
        invoked = self._eras.era(op.invoke_ps)
        if invoked > self._era:
            return None
        if invoked == self._era or op.invoke_ps <= self._cuts_ps[invoked]:
            return op.invoke_ps
        return self._eras.crashes_ps[invoked] if self._eras.spans(op) else None

    def answered(self, op: Op) -> bool:
        """Whether the response of ``op`` is known."""
        if op.return_ps is None:
            return False
        era = self._eras.era(op.return_ps)
        if era >= self._era or op.number in self._forced:
            return era <= self._era
        return op.return_ps < self._cuts_ps[era]

    def span(self, op: Op) -> Interval | None:
        """``op`` as the search sees it."""
        since_ps = self.since_ps(op)
        if since_ps is None:
            return None
        if self.answered(op) and not self._eras.spans(op):
            return Interval(op.number, op.call, since_ps, op.return_ps)
        by_ps = op.return_ps if self.answered(op) and op.return_ps is not None else NEVER_PS
        return Interval(op.number, Call(op.call.f, op.call.argument, UNKNOWN), since_ps, None, by_ps)


def _forced(eras: Eras) -> frozenset[int]:
    """The numbers of the updates that a completed sync made durable."""
    numbers: set[int] = set()
    for barrier in eras.barriers:
        era = eras.completed(barrier)
        numbers.update(op.number for op in eras.ops if era is not None and _kept_by(eras, barrier, era, op))
    return frozenset(numbers)


def _kept_by(eras: Eras, barrier: Barrier, era: int, op: Op) -> bool:
    if op.return_ps is None or op.return_ps >= barrier.invoke_ps or eras.era(op.invoke_ps) != era:
        return False
    return (barrier.tags is None or op.tag in barrier.tags) and not eras.model.inert(op.call)


# registers with unique values -----------------------------------------------------------------------------------


def find_in_registers(eras: Eras) -> Cuts:
    """The earliest cuts that keep every value read later, and whether they fit."""
    forced = _forced(eras)
    cuts_ps = [eras.began_ps(era, _BEGIN) for era in range(len(eras.crashes_ps))]
    written = {(op.object, op.call.argument): op for op in eras.ops if op.call.f in WRITES}
    for op in eras.ops:
        write = op if op.number in forced else None
        era = eras.era(op.invoke_ps)
        if op.call.f in READS and op.return_ps is not None and not eras.spans(op):
            write = written.get((op.object, op.call.result))
            if write is not None and (eras.era(write.invoke_ps) >= era or eras.spans(write)):
                write = None
        if write is not None and eras.era(write.invoke_ps) < len(cuts_ps):
            at = eras.era(write.invoke_ps)
            cuts_ps[at] = max(cuts_ps[at], write.invoke_ps)
    by_object: dict[int, list[Op]] = {}
    for op in eras.ops:
        by_object.setdefault(op.object, []).append(op)
    steps = 0
    for era in range(len(eras.crashes_ps) + 1):
        seen = _Seen(eras, forced, cuts_ps, era)
        for object, ops in by_object.items():
            if era and not any(op.call.f in READS and eras.era(op.invoke_ps) == era for op in ops):
                continue
            steps += len(ops)
            numbers = _wrong(eras, seen, ops)
            if numbers:
                return Cuts(Verdict.VIOLATED, steps, era=era, object=object, numbers=numbers)
    return Cuts(Verdict.HOLDS, steps, tuple(cuts_ps))


def _wrong(eras: Eras, seen: _Seen, ops: Sequence[Op]) -> tuple[int, ...]:
    """The operations at fault in one object's part of one era's history."""
    finish_ps: dict[State, int] = {None: BEFORE_PS}
    start_ps: dict[State, int] = {None: BEFORE_PS}
    deadline_ps: dict[State, int] = {}
    reads = []
    for op in ops:
        span = seen.span(op)
        if span is None:
            continue
        if op.call.f in READS:
            reads += [(op, span.invoke_ps, span.return_ps)] if span.return_ps is not None else []
            continue
        value = op.call.argument
        finish_ps[value] = NEVER_PS if span.return_ps is None else span.return_ps
        start_ps[value] = span.invoke_ps
        deadline_ps[value] = span.by_ps
    written_ps = dict(start_ps)
    for op, invoke_ps, return_ps in reads:
        value = op.call.result
        if value not in written_ps or return_ps < written_ps[value]:
            return (op.number,)
        finish_ps[value] = min(finish_ps[value], return_ps, deadline_ps.get(value, NEVER_PS))
        start_ps[value] = max(start_ps[value], invoke_ps)
    pair = conflict([Zone(end, start_ps[value], value) for value, end in finish_ps.items() if end < NEVER_PS])
    values = {zone.value for zone in pair or ()}
    return tuple(op.number for op in ops if _value(op) in values and values)


def _value(op: Op) -> Hashable:
    return op.call.argument if op.call.f in WRITES else op.call.result


# any model --------------------------------------------------------------------------------------------------------


class CutSearch:
    """Tries cuts from the latest on; ``run`` gives the answer."""

    def __init__(self, eras: Eras, budget: Budget) -> None:
        self._eras = eras
        self._forced = _forced(eras)
        self._budget = budget
        self._by_object: dict[int, list[Op]] = {}
        for op in eras.ops:
            self._by_object.setdefault(op.object, []).append(op)
        self._known: dict[tuple[Hashable, ...], SearchAnswer] = {}
        self._worst = Cuts(Verdict.VIOLATED, 0, era=-1)

    def run(self) -> Cuts:
        """Cuts that fit, or the failure that came farthest."""
        cuts_ps = self._fit(())
        steps = self._budget.spent
        if cuts_ps is not None:
            return Cuts(Verdict.HOLDS, steps, cuts_ps)
        worst = self._worst
        return Cuts(worst.verdict, steps, (), worst.era, worst.object, worst.numbers, worst.answer)

    def _fit(self, cuts_ps: tuple[int, ...]) -> tuple[int, ...] | None:
        era = len(cuts_ps)
        seen = _Seen(self._eras, self._forced, cuts_ps, era)
        for object, ops in self._by_object.items():
            spans = [span for span in map(seen.span, ops) if span is not None]
            key = (object, era, *((s.number, s.invoke_ps, s.return_ps, s.by_ps) for s in spans))
            answer = self._known.get(key)
            if answer is None:
                answer = self._known[key] = Search(self._eras.model, spans, self._budget).run()
            if answer.verdict is Verdict.HOLDS:
                continue
            undecided = Verdict.UNDECIDED in (answer.verdict, self._worst.verdict)
            verdict = Verdict.UNDECIDED if undecided else Verdict.VIOLATED
            if era >= self._worst.era:
                stuck = () if answer.stuck is None else (answer.stuck,)
                self._worst = Cuts(verdict, 0, (), era, object, stuck, answer)
            elif undecided:
                self._worst = Cuts(verdict, 0, (), self._worst.era, self._worst.object, self._worst.numbers)
            return None
        if era == len(self._eras.crashes_ps):
            return cuts_ps
        for cut_ps in self._candidates(era):
            found = self._fit((*cuts_ps, cut_ps))
            if found is not None:
                return found
        return None

    def _candidates(self, era: int) -> Iterator[int]:
        """The cuts of an era that differ, latest first: the invocations of its updates, and the instants behind
        responses that tell something, as the address of a block: without it nobody knows what the update had done.
        """
        mine = [op for op in self._eras.ops if self._eras.era(op.invoke_ps) == era]
        # what returned that there was nothing to take may take something when it is cut off from its response
        calls = [(op, Call(op.call.f, op.call.argument, UNKNOWN)) for op in mine]
        updates = {op.invoke_ps for op, call in calls if not self._eras.model.inert(call)}
        updates |= {
            op.return_ps + 1
            for op in mine
            if op.return_ps is not None
            and self._eras.era(op.return_ps + 1) == era
            and op.call.result not in (None, UNKNOWN)
            and not self._eras.model.inert(op.call)
        }
        least = max((op.invoke_ps for op in mine if op.number in self._forced), default=_BEGIN)
        begin_ps = self._eras.began_ps(era, _BEGIN)
        return (at_ps for at_ps in sorted({begin_ps, *updates}, reverse=True) if at_ps >= least)
