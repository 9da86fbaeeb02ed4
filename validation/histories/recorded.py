"""Histories of runs judged as files are: any model, any condition, several objects at once.

:class:`..oracle.RegisterHistory` answers for one register incrementally. Here every answer is computed anew, by
:func:`.check.check_history` on the history so far, a crash, and what was read after it.
"""

from __future__ import annotations

from collections.abc import Collection, Container, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

from ...protocols.guarantees import Condition, Verdict
from ...protocols.objects import REGISTERS, VALUED, conditions_of
from ...scenarios.calls import probes
from ...scenarios.history import Crash, History, Operation, Torn, Unread, Value
from ..oracle.known import NEVER_PS, Flaw
from ..oracle.wording import microseconds
from .check import Report, check_history
from .entries import FRESH, HistoryFile
from .events import Events

RUN = "the run"


def recorded(history: History, loaded: Iterable[Hashable] = ()) -> HistoryFile:
    """A run's history as a history file has it; its operations go by their numbers."""
    events = Events(RUN, "a run")
    events.promises |= history.promises
    numbers = count(1 + max((operation.number for operation in history.operations), default=0))
    given = [(number or next(numbers), row) for number, row in history.rows(loaded)]
    for number, row in given:
        if row.get("process") == _READER:
            row["process"] = FRESH
        events.event(number, row)
    return replace(events.finish(), place="operation")


_READER = -1
"""The process of reads after a crash that a run does not have: as in ``oracle.known.RECOVERY``."""


def judged(
    history: History,
    loaded: Iterable[Hashable],
    conditions: Collection[Condition],
    loss_ps: int | None = None,
    undecided: set[Condition] | None = None,
) -> dict[Condition, tuple[Hashable, Flaw]]:
    """The object at fault (None: all together) and how, by each of the conditions that a run's history violates.

    Losses are blamed on any of its crashes, be it a client's. The conditions about which a search gives up are added to
    ``undecided``.
    """
    fitting = [c for c in conditions_of(history.model) if c in conditions]
    model = "kv" if history.model in REGISTERS else history.model
    crashes_ps = tuple(sorted({crash.at_ps for crash in history.crashes}))
    file, names = recorded(history, loaded), list(map(str, fitting))
    report = check_history(file, model, names, loss_ps=loss_ps, crashes_ps=crashes_ps)
    if undecided is not None:
        undecided |= {c for c, one in report.verdicts.items() if one.verdict is Verdict.UNDECIDED}
    return {c: _flaw(report, c, history) for c, one in report.verdicts.items() if one.verdict is Verdict.VIOLATED}


def _flaw(report: Report, condition: Condition, history: History) -> tuple[Hashable, Flaw]:
    witness = report.verdicts[condition].witness
    assert witness is not None
    numbered = {operation.number: operation for operation in history.operations}
    lines = dict.fromkeys([witness.act.entry.line, *(act.entry.line for act in witness.piece)])
    named = tuple(numbered[line] for line in lines if line in numbered and numbered[line].process != _READER)
    return witness.key, Flaw(named, witness.explanation)


class JudgedHistory:
    """Objects that are judged together, followed event by event, as :class:`..oracle.RegisterHistory` follows one.

    ``probe`` is the operation by which a fresh client finds out what became of each, in their order; the value that is
    judged is what it found, of several objects a tuple. ``loss_ps`` is the time of ``bounded_loss``.
    """

    def __init__(
        self,
        history: History,
        probe: Sequence[Operation],
        loaded: Container[Hashable],
        conditions: Collection[Condition],
        loss_ps: int | None = None,
    ) -> None:
        self.version = 0
        self.undecided: set[Condition] = set()
        """The conditions about which a search has given up so far."""
        self._history = History(history.updates, model=history.model, promises=history.promised)
        self._probe = probe
        names = [name for one in probe for name in (one.object if isinstance(one.object, tuple) else (one.object,))]
        self._loaded = [name for name in names if name in loaded] if history.model in VALUED else []
        self._conditions = frozenset(conditions)
        self._loss_ps = loss_ps
        self._now_ps = 0
        self._place: dict[int, int] = {}
        self._answers: dict[Value, dict[Condition, tuple[Hashable, Flaw]]] = {}

    def invoke(self, operation: Operation) -> None:
        """Note that ``operation`` is invoked now."""
        self._place[operation.number] = len(self._history.operations)
        pending = replace(operation, return_ps=None, result=None, outcome=None, applied_ps=None, retries=())
        self._history.operations.append(pending)
        self._changed(operation.invoke_ps)

    def complete(self, operation: Operation) -> None:
        """``operation``, invoked before, has got its response now."""
        assert operation.return_ps is not None
        how = {"return_ps": operation.return_ps, "result": operation.result, "outcome": operation.outcome}
        self._replace(operation, operation.return_ps, **how)

    def applied(self, operation: Operation) -> None:
        """``operation``, which had returned, takes effect now."""
        assert operation.applied_ps is not None and operation.return_ps is not None
        at_ps = max(operation.applied_ps, operation.return_ps)
        self._replace(operation, at_ps, applied_ps=at_ps)

    def passed(self, at_ps: int) -> None:
        """So much time has gone by without any other event, which ``bounded_loss`` counts."""
        self._changed(at_ps)

    def judge(self, value: Value) -> frozenset[Condition]:
        """The conditions violated if the system crashes now and what is found after recovery is ``value``."""
        return frozenset(self._judged(value))

    def explain(self, value: Value, condition: Condition) -> str:
        """In one sentence, why ``condition`` is among ``judge(value)``; KeyError if it is not."""
        return self._judged(value)[condition][1].explanation

    def flaw(self, value: Value, condition: Condition) -> Flaw | None:
        """The same with the operations that the sentence names; None if it is not violated."""
        found = self._judged(value).get(condition)
        return None if found is None else found[1]

    def _judged(self, value: Value) -> Mapping[Condition, tuple[Hashable, Flaw]]:
        answer = self._answers.get(value)
        if answer is None:
            unread = self._unread(value)
            answer = self._answers[value] = self._by_oracle(value) if unread is None else self._lost(*unread)
        return answer

    def _by_oracle(self, value: Value) -> dict[Condition, tuple[Hashable, Flaw]]:
        whole = replace(self._history, operations=[*self._history.operations, *self._reads(value)])
        whole.crashes = [Crash("system", self._now_ps)]
        return judged(whole, self._loaded, self._conditions, self._loss_ps, self.undecided)

    def _own(self, value: Value) -> Sequence[tuple[Operation, Value]]:
        """What was found by each probe."""
        values = value if len(self._probe) > 1 and isinstance(value, tuple) else (value,)
        return list(zip(self._probe, values, strict=True))

    def _unread(self, value: Value) -> tuple[Operation, Torn] | None:
        """A probe that found nothing which its model could have returned."""
        if self._history.model in REGISTERS:
            return None
        for probe, own in self._own(value):
            if isinstance(own, Torn):
                return probe, own
            if isinstance(own, tuple) and isinstance(own[-1] if own else None, Unread):
                return probe, own[-1]
        return None

    def _lost(self, probe: Operation, found: Torn) -> dict[Condition, tuple[Hashable, Flaw]]:
        """The conditions that an object breaks which cannot be read any more: whatever it held is lost."""
        by_ps = {Condition.NO_LOST_ACK: self._now_ps, Condition.BOUNDED_LOSS: self._now_ps - (self._loss_ps or 0) - 1}
        answer: dict[Condition, tuple[Hashable, Flaw]] = {}
        for condition in self._conditions - {Condition.EXACTLY_ONCE}:
            if condition is Condition.COMMITTED and isinstance(found, Unread):
                continue
            updates = [o for o in self._history.operations if o.outcome == "ok" and o.f in self._history.updates]
            late_ps = by_ps.get(condition, NEVER_PS)
            lost = [o for o in updates if o.return_ps is not None and o.return_ps <= late_ps]
            if condition in by_ps and not lost:
                continue
            after = f", but {lost[-1].text} had returned at {microseconds(lost[-1].return_ps or 0)}" if lost else ""
            why = f"{probe.text} -> {found} after recovery{after}"
            answer[condition] = probe.object, Flaw(tuple(lost[-1:]), why)
        return answer

    def _reads(self, value: Value) -> Iterator[Operation]:
        """The operations of a fresh client that found ``value``, one after the other."""
        numbers = count(1 + max((o.number for o in self._history.operations), default=0))
        at_ps = self._now_ps
        for probe, own in self._own(value):
            for f, argument, result in probes(probe, own):
                at_ps += 2
                yield Operation(next(numbers), _READER, f, probe.object, argument, at_ps - 1, at_ps, result, "ok")

    def _replace(self, operation: Operation, now_ps: int, **how: Any) -> None:
        place = self._place[operation.number]
        self._history.operations[place] = replace(self._history.operations[place], **how)
        self._changed(now_ps)

    def _changed(self, now_ps: int) -> None:
        self.version += 1
        self._now_ps = now_ps
        self._answers = {}
