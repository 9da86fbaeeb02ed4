"""Who judges an object of a history file by a condition: zones where it is a register with unique values, items where
it is a queue or a stack with unique ones, else search.

A judge answers for a set of operations as they were known at an instant, so that prefixes and pieces can be asked about
too. For the conditions that allow some order (``linearizable``, ``durable``, ``persistent``, ``strict`` and the
buffered ones) what is wrong at an instant stays wrong: the first response at which it is names the operation that
cannot be placed.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeGuard

from typing_extensions import override

from ...protocols.guarantees import Condition, Verdict
from ...scenarios.history import Operation, Removed
from ..oracle import FINDERS, NOT_READ
from ..oracle.conditions.bounded_loss import find as find_unbounded
from ..oracle.conditions.exactly_once import counted_once, put_in
from ..oracle.known import NEVER_PS, RECOVERY, Flaw, ObjectHistory
from ..oracle.models.simple import MODELS, PUTS, REMOVES, UNKNOWN, WRITES, Call, Model, State
from ..oracle.models.structures import number_of
from ..oracle.search import fifo, lifo
from ..oracle.search.general import Budget, Interval, Search, SearchAnswer
from ..oracle.search.items import ItemClash, NotForItems
from ..oracle.wording import Moment, Named, Recorded
from .entries import FRESH
from .fitting import Act, Subject, key_text
from .read import HistoryFile, show

LOCAL = frozenset({Condition.LINEARIZABLE, Condition.DURABLE, Condition.PERSISTENT, Condition.STRICT})
"""The conditions that ask for an order of each object."""
ORDERED = LOCAL | {Condition.BUFFERED, Condition.BUFFERED_CUT}
"""The conditions that ask for an order."""


@dataclass(frozen=True)
class Opinion:
    """A judge's answer. ``lines`` are the operations that ``explanation`` names, the offending one first.

    ``order`` is a legal order, by lines, where one was looked for and found; of what has none, the longest that was
    known before the end. ``passed`` of ``of`` responses were looked at when an undecided search gave up.
    """

    verdict: Verdict
    steps: int
    lines: tuple[int, ...] = ()
    explanation: str = ""
    order: tuple[int, ...] | None = None
    passed: int = 0
    of: int = 0
    by: str = ""
    sure: bool = False
    """Whether ``lines`` are all the operations that the explanation needs: it is true of them alone."""


@dataclass(frozen=True)
class Terms:
    """The question beside the condition: a budget for searches, and how much may be lost (``bounded_loss``)."""

    budget: Budget = field(default_factory=Budget)
    loss_ps: int | None = None
    crashes_ps: tuple[int, ...] | None = None
    """The crashes that a loss is blamed on; by default those that end an era."""

    def fresh(self, steps: int | None = None) -> Budget:
        """A budget of which nothing is spent."""
        return Budget(self.budget.steps if steps is None else steps, self.budget.bytes)


_UPDATES = frozenset(WRITES + REMOVES)
_BY_ITEMS = {"queue": fifo.find, "stack": lifo.find}
"""How models of ours are judged in which no item is put twice."""


class ZoneJudge:
    """Registers with unique values: n log n. A step is an operation looked at.

    Where operations remove the object, only by conditions that are judged by bounds (``Removed``, ``Absent``).
    """

    by = "zones"
    registers = True

    def __init__(self, history: HistoryFile, subject: Subject, loss_ps: int | None = None) -> None:
        everything = [*subject.acts, *subject.failed]
        values = dict.fromkeys(a.call.argument if a.call.f in WRITES else a.call.result for a in everything)
        self._stamps = {
            value: Named(n, show(value)) for n, value in enumerate(values, 1) if value not in (None, UNKNOWN)
        }
        removals = [act.entry.line for act in everything if act.call.f in REMOVES]
        self._removals = {line: Removed(n) for n, line in enumerate(removals, len(values) + 1)}
        self._name = None if subject.key is None else key_text(subject.key)
        self._zero_ns, self._timed = history.time_zero_ns, history.timed
        self._recorded = history.place == "operation"
        self._crashes_ps = history.eras_ps()
        self._loss_ps = loss_ps
        self._operations = {act.entry.line: self._operation(act) for act in everything}
        live = {a.call.argument for a in subject.acts if a.call.f in WRITES}
        self._failed = [
            a for a in subject.failed if a.call.f in REMOVES or (a.call.f in WRITES and a.call.argument not in live)
        ]
        self._whole = self._known(subject.acts, NEVER_PS)
        self._acts = subject.acts

    def judge(self, condition: Condition, acts: Sequence[Act], until_ps: int = NEVER_PS, budget: int = 0) -> Opinion:
        """The answer about ``acts`` at ``until_ps``; the budget plays no part."""
        whole = acts is self._acts and until_ps == NEVER_PS
        known = self._whole if whole else self._known(acts, until_ps)
        flaw = self._find(condition, known)
        if flaw is None:
            return Opinion(Verdict.HOLDS, len(acts))
        lines = tuple(operation.number for operation in flaw.operations)
        return Opinion(Verdict.VIOLATED, len(acts), lines, flaw.explanation, sure=True)

    def _find(self, condition: Condition, known: ObjectHistory) -> Flaw | None:
        if condition is Condition.BOUNDED_LOSS:
            return find_unbounded(known, self._loss_ps or 0)
        return FINDERS[condition](known, NOT_READ)

    def _known(self, acts: Sequence[Act], until_ps: int) -> ObjectHistory:
        known = ObjectHistory(self._name, _UPDATES, loaded=False)
        known.crashes_ps += [at_ps for at_ps in self._crashes_ps if at_ps <= until_ps]
        for act in self._failed:
            operation = self._operations[act.entry.line]
            known.failed[operation.argument] = operation
        for act in acts:
            entry, operation = act.entry, self._operations[act.entry.line]
            if operation.invoke_ps > until_ps:
                continue
            returned = entry.returned_by(until_ps)
            if operation.f not in _UPDATES:
                if returned:
                    known.reads.append(operation)
                continue
            known.writes[operation.argument] = operation
            if returned and operation.return_ps is not None:
                known.acknowledged_ps[operation.argument] = operation.return_ps
            if entry.promised_ps is not None and entry.promised_ps <= until_ps:
                known.promised_ps[operation.argument] = self._moment(entry.promised_ps)
            for at_ps, table in ((entry.killed_ps, known.killed_ps), (entry.reborn_ps, known.reborn_ps)):
                if not returned and at_ps is not None and at_ps <= until_ps:
                    table[operation.argument] = self._moment(at_ps)
        return known

    def _operation(self, act: Act) -> Operation:
        entry, call = act.entry, act.call
        argument = self._stamps.get(call.argument) if call.f in WRITES else self._removals.get(entry.line)
        result = self._stamps.get(call.result) if call.f not in _UPDATES and entry.outcome == "ok" else None
        began_ps = self._moment(entry.begin_ps)
        ended_ps = None if entry.return_ps is None else self._moment(entry.return_ps)
        kind, process = (Operation, RECOVERY if entry.process == FRESH else 0) if self._recorded else (Recorded, 0)
        return kind(entry.line, process, call.f, self._name, argument, began_ps, ended_ps, result, entry.outcome)

    def _moment(self, at_ps: int) -> int:
        if self._recorded:
            return at_ps
        moment = Moment(at_ps)
        if self._zero_ns:
            moment.zero_ns = self._zero_ns
        if not self._timed:
            moment.timed = False
        return moment


@dataclass(frozen=True)
class AroundCrash:
    """What is left of an object's history to see if a crash has lost updates: ``no_lost_ack`` of any model.

    That is ``durable`` without the reads before the crash: they may have been as weakly isolated as they like. What a
    list has more than once, and was appended once, counts once: that is ``exactly_once``. What happened behind the next
    crash is left out, too. An update that had returned at most ``spared_ps`` before the crash
    takes effect by then or never, if that is more than nothing (``bounded_loss``).
    """

    at_ps: int
    until_ps: int
    spared_ps: int = 0

    def spans(self, model: Model, spans: Iterable[Interval]) -> list[Interval]:
        """The operations that are left."""
        found, spans = [], list(spans)
        if model.name in ("append", "log"):
            put = put_in(span.call for span in spans)
            spans = [span._replace(call=counted_once(span.call, put)) for span in spans]
        for span in spans:
            before = span.invoke_ps <= self.at_ps
            if span.invoke_ps > self.until_ps or (before and model.inert(span.call)):
                continue
            unknown = span._replace(call=Call(span.call.f, span.call.argument, UNKNOWN), return_ps=None)
            returned_ps = NEVER_PS if span.return_ps is None else span.return_ps
            if span.return_ps is None:
                found.append(span)
            elif returned_ps > self.until_ps:
                found.append(unknown)
            elif before and returned_ps <= self.at_ps and 0 < self.spared_ps >= self.at_ps - returned_ps:
                found.append(unknown._replace(by_ps=self.at_ps))
            else:
                isolated = before and span.call.f == "txn"  # of what it read before it wrote nothing is asked
                found.append(span._replace(call=unknown.call) if isolated else span)
        return found


class SearchJudge:
    """Any model: the general search. A step is a transition of the model tried."""

    by = "search"
    registers = False

    def __init__(
        self, subject: Subject, model: Model, terms: Terms | None = None, around: AroundCrash | None = None
    ) -> None:
        self._subject = subject
        self._model = model
        self._terms = terms or Terms()
        self._around = around

    def start(self, condition: Condition, acts: Sequence[Act], until_ps: int, budget: int | None) -> Search:
        """The search for an order of ``acts`` at ``until_ps``, not begun."""
        return Search(self._model, self._spans(condition, acts, until_ps), self._terms.fresh(budget))

    def _spans(self, condition: Condition, acts: Sequence[Act], until_ps: int) -> list[Interval]:
        spans = [act.span(until_ps, condition) for act in acts if act.entry.invoke_ps <= until_ps]
        return spans if self._around is None else self._around.spans(self._model, spans)

    def judge(
        self, condition: Condition, acts: Sequence[Act], until_ps: int = NEVER_PS, budget: int | None = None
    ) -> Opinion:
        """Whether ``acts`` have an order at ``until_ps``; undecided after ``budget`` steps."""
        known = self.at_once(condition, acts, until_ps)
        return known or self.opinion(self.start(condition, acts, until_ps, budget).run(), acts)

    def at_once(self, condition: Condition, acts: Sequence[Act], until_ps: int = NEVER_PS) -> Opinion | None:
        """The same where no search is needed, else None."""
        return None

    def opinion(self, answer: SearchAnswer, acts: Sequence[Act]) -> Opinion:
        """The answer of the search in words."""
        name = "the object" if self._subject.key is None else key_text(self._subject.key)
        return told(answer, acts, name, answer.states)


class ItemJudge(SearchJudge):
    """Queues and stacks in which no item is put twice: n log n, a step being an operation looked at.

    What that does not reach (takes of unknown outcome from a stack, or with a deadline) is searched.
    """

    @override
    def at_once(self, condition: Condition, acts: Sequence[Act], until_ps: int = NEVER_PS) -> Opinion | None:
        """By items, if they suffice."""
        try:
            misfit = _BY_ITEMS[self._model.name](self._spans(condition, acts, until_ps))
        except NotForItems:
            return None
        if misfit is None:
            return Opinion(Verdict.HOLDS, len(acts), by="items")
        by_line = {act.entry.line: act for act in acts}
        named = [by_line[line] for line in misfit.numbers]
        if misfit.clash is ItemClash.LEFT:  # what was ahead is told, not the puts of what has overtaken it
            taken = {act.call.result for act in named}
            named = [act for act in named if act.call.f not in PUTS or act.call.argument not in taken]
        why = _why_not(misfit.clash, [f"{act.text} {act.where}" for act in named])
        return Opinion(Verdict.VIOLATED, len(acts), misfit.numbers, why, by="items", sure=True)


def _why_not(clash: ItemClash, named: Sequence[str]) -> str:
    """A misfit in words; ``named`` are its operations."""
    first, rest = named[0], ", ".join(named[1:])
    if clash is ItemClash.NEVER_PUT:
        return f"{first}: nobody put that in"
    if clash is ItemClash.TWICE:
        return f"{first}, which {named[1]} had taken: it was put in once"
    if clash is ItemClash.TOO_EARLY:
        return f"{first} had returned before {rest} was invoked"
    if clash is ItemClash.OVERTAKEN:
        _, put, later, *take = named
        order = f"{put} had returned before {later} was invoked"
        if take:
            return f"{first} had returned before {take[0]} was invoked, yet {order}"
        return f"{first} had returned, yet {order}, and nobody had taken it out"
    if clash is ItemClash.NOT_EMPTY:
        return f"{first}, and all the time something was inside: {rest}"
    if clash is ItemClash.LEFT:
        return f"{first} had returned, and too few others were asked for by then to have had all that was ahead: {rest}"
    return f"something was inside all the time, and nothing can have lain below the rest: {', '.join(reversed(named))}"


def told(answer: SearchAnswer, acts: Sequence[Act], name: str, states: Sequence[State]) -> Opinion:
    """A search's answer in words; ``states`` is what ``name`` can have held before what cannot be placed."""
    if answer.verdict is Verdict.HOLDS:
        return Opinion(Verdict.HOLDS, answer.steps, order=answer.order)
    stuck = next((act for act in acts if act.entry.line == answer.stuck), acts[-1])
    where = f"{stuck.text} {stuck.where}"
    line = stuck.entry.line
    if answer.verdict is Verdict.UNDECIDED:
        spent = "for want of memory " if answer.lacking == "memory" else ""
        why = f"given up {spent}at {where} after {answer.steps} steps, past {answer.returns} of {answer.of} responses"
        return Opinion(answer.verdict, answer.steps, (line,), why, answer.order, answer.returns, answer.of)
    shown = [show(state) for state in states]
    some = " or ".join(shown) if len(shown) <= 4 else f"{', '.join(shown[:4])} or {len(shown) - 4} others"
    why = f"{where} fits no order of the operations around it: until it returned, {name} can only have held {some}"
    return Opinion(answer.verdict, answer.steps, (line,), why + _in_sum(stuck.call, answer.states), answer.order)


def _in_sum(call: Call, states: Sequence[State]) -> str:
    """What the numbers that a transaction found come to, where no whole transactions leave such a sum."""
    steps = call.result if isinstance(call.result, tuple) else ()
    looks = [(step[1], number_of(step[2])) for step in steps if isinstance(step, tuple) and step[0] == "look"]
    sums = sorted({sum(number_of(dict(held).get(name)) for name, _ in looks) for held in states if _held(held)})
    found = sum(number for _, number in looks)
    if not looks or not sums or found in sums:
        return ""
    return f"; their numbers come to {found}, and can only come to {' or '.join(map(str, sums[:4]))}"


def _held(state: State) -> TypeGuard[frozenset[tuple[Hashable, Hashable]]]:
    return isinstance(state, frozenset)


Judge = ZoneJudge | SearchJudge


def judge_for(history: HistoryFile, subject: Subject, model: Model, terms: Terms | None = None) -> Judge:
    """Who judges ``subject``; a search answers for the conditions that ask for an order alone."""
    terms = terms or Terms()
    if subject.unique is None:
        return ZoneJudge(history, subject, terms.loss_ps)
    return search_for(subject, model, terms)


def search_for(subject: Subject, model: Model, terms: Terms, around: AroundCrash | None = None) -> SearchJudge:
    """Who searches for an order of ``subject``, of all of it or of what is left ``around`` a crash."""
    ours = model.name in _BY_ITEMS and model is MODELS[model.name]  # a user's queue may have a bound, or priorities
    return (ItemJudge if ours and _unique_items(subject) else SearchJudge)(subject, model, terms, around)


def _unique_items(subject: Subject) -> bool:
    items = [act.call.argument for act in subject.acts if act.call.f in PUTS]
    return len(set(items)) == len(items)
