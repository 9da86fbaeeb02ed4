"""Who judges an object of a history file by a condition: zones where it is a register with unique values, else search.

A judge answers for a set of operations as they were known at an instant, so that prefixes and pieces can be asked about
too. For the conditions that allow some order (``linearizable``, ``durable``, ``strict``) what is wrong at an instant
stays wrong: the first response at which it is names the operation that cannot be placed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..protocols.guarantees import Condition, Verdict
from .fitting import Act, Subject, key_text
from .histories import HistoryFile, show
from .oracle import FINDERS, NOT_READ
from .oracle.known import NEVER_PS, ObjectHistory
from .oracle.models import UNKNOWN, WRITES, Model
from .oracle.search import search
from .oracle.wording import Moment, Named, Recorded

ORDERED = frozenset({Condition.LINEARIZABLE, Condition.DURABLE, Condition.STRICT})
"""The conditions that ask for an order."""


@dataclass(frozen=True)
class Opinion:
    """What a judge says. ``lines`` are the operations that ``explanation`` names, the offending one first.

    ``order`` is a legal order, by lines, where one was looked for and found. ``passed`` of ``of`` responses were looked
    at when an undecided search gave up.
    """

    verdict: Verdict
    steps: int
    lines: tuple[int, ...] = ()
    explanation: str = ""
    order: tuple[int, ...] | None = None
    passed: int = 0
    of: int = 0


class ZoneJudge:
    """Registers with unique values: n log n. A step is an operation looked at."""

    by = "zones"

    def __init__(self, history: HistoryFile, subject: Subject) -> None:
        everything = [*subject.acts, *subject.failed]
        values = dict.fromkeys(a.call.argument if a.call.f in WRITES else a.call.result for a in everything)
        self._stamps = {
            value: Named(n, show(value)) for n, value in enumerate(values, 1) if value not in (None, UNKNOWN)
        }
        self._name = None if subject.key is None else key_text(subject.key)
        self._zero_ns = history.time_zero_ns
        self._crashes_ps = [crash.at_ps for crash in history.crashes if crash.ends_era]
        self._operations = {act.entry.line: self._operation(act) for act in everything}
        live = {a.call.argument for a in subject.acts if a.call.f in WRITES}
        self._failed = [a for a in subject.failed if a.call.f in WRITES and a.call.argument not in live]
        self._whole = self._known(subject.acts, NEVER_PS)
        self._acts = subject.acts

    def judge(self, condition: Condition, acts: Sequence[Act], until_ps: int = NEVER_PS, budget: int = 0) -> Opinion:
        """What is wrong with ``acts`` at ``until_ps``; the budget plays no part."""
        whole = acts is self._acts and until_ps == NEVER_PS
        flaw = FINDERS[condition](self._whole if whole else self._known(acts, until_ps), NOT_READ)
        if flaw is None:
            return Opinion(Verdict.HOLDS, len(acts))
        lines = tuple(operation.number for operation in flaw.operations)
        return Opinion(Verdict.VIOLATED, len(acts), lines, flaw.explanation)

    def _known(self, acts: Sequence[Act], until_ps: int) -> ObjectHistory:
        known = ObjectHistory(self._name, frozenset(WRITES), loaded=False)
        known.crashes_ps += [at_ps for at_ps in self._crashes_ps if at_ps <= until_ps]
        for act in self._failed:
            operation = self._operations[act.entry.line]
            known.failed[operation.argument] = operation
        for act in acts:
            operation = self._operations[act.entry.line]
            if operation.invoke_ps > until_ps:
                continue
            return_ps = operation.return_ps
            returned = operation.outcome == "ok" and return_ps is not None and return_ps <= until_ps
            if operation.f in WRITES:
                known.writes[operation.argument] = operation
                killed_ps = act.entry.killed_ps
                if returned and return_ps is not None:
                    known.acknowledged_ps[operation.argument] = return_ps
                elif killed_ps is not None and killed_ps <= until_ps:
                    known.killed_ps[operation.argument] = self._moment(killed_ps)
            elif returned:
                known.reads.append(operation)
        return known

    def _operation(self, act: Act) -> Recorded:
        entry, call = act.entry, act.call
        argument = self._stamps.get(call.argument) if call.f in WRITES else None
        result = self._stamps.get(call.result) if call.f not in WRITES and entry.outcome == "ok" else None
        began_ps = self._moment(entry.invoke_ps)
        ended_ps = None if entry.return_ps is None else self._moment(entry.return_ps)
        return Recorded(entry.line, 0, call.f, self._name, argument, began_ps, ended_ps, result, entry.outcome)

    def _moment(self, at_ps: int) -> Moment:
        moment = Moment(at_ps)
        if self._zero_ns:
            moment.zero_ns = self._zero_ns
        return moment


class SearchJudge:
    """Any model: the general search. A step is a transition of the model tried."""

    by = "search"

    def __init__(self, subject: Subject, model: Model) -> None:
        self._subject = subject
        self._model = model

    def judge(self, condition: Condition, acts: Sequence[Act], until_ps: int = NEVER_PS, budget: int = 0) -> Opinion:
        """Whether ``acts`` have an order at ``until_ps``; undecided after ``budget`` steps."""
        strict = condition is Condition.STRICT
        spans = [act.span(until_ps, strict) for act in acts if act.entry.invoke_ps <= until_ps]
        answer = search(self._model, spans, budget)
        if answer.verdict is Verdict.HOLDS:
            return Opinion(Verdict.HOLDS, answer.steps, order=answer.order)
        assert answer.stuck is not None
        stuck = next(act for act in acts if act.entry.line == answer.stuck)
        where = f"{stuck.text} (line {stuck.entry.line})"
        if answer.verdict is Verdict.UNDECIDED:
            why = f"given up at {where} after {answer.steps} steps, past {answer.returns} of {answer.of} responses"
            return Opinion(answer.verdict, answer.steps, (answer.stuck,), why, None, answer.returns, answer.of)
        states = [show(state) for state in answer.states]
        some = " or ".join(states) if len(states) <= 4 else f"{', '.join(states[:4])} or {len(states) - 4} others"
        name = "the object" if self._subject.key is None else key_text(self._subject.key)
        why = f"{where} fits no order of the operations around it: until it returned, {name} can only have held {some}"
        return Opinion(answer.verdict, answer.steps, (answer.stuck,), why)


Judge = ZoneJudge | SearchJudge


def judge_for(history: HistoryFile, subject: Subject, model: Model) -> Judge:
    """Who judges ``subject``; a search answers for the conditions that ask for an order alone."""
    return ZoneJudge(history, subject) if subject.unique is None else SearchJudge(subject, model)
