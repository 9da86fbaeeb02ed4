"""One object followed event by event: incrementally where all updates write, from scratch where some remove."""

from __future__ import annotations

from collections.abc import Hashable

from ...protocols.guarantees import Condition, Verdict
from ...scenarios.history import History, Operation, Removed, Value
from .check import CONDITIONS, explanation, verdict_on
from .incremental import RegisterHistory
from .known import ObjectHistory


class RemovableHistory:
    """What :class:`RegisterHistory` is, for an object that may be removed: every answer is computed anew."""

    def __init__(self, object: Hashable, updates: frozenset[str], loaded: bool = True, probe: str = "get") -> None:
        self.known = ObjectHistory(object, updates, loaded, probe)
        self.version = 0
        self.undecided: set[Condition] = set()
        """The conditions about which a search has given up so far."""
        self._answers: dict[Value, frozenset[Condition]] = {}

    def invoke(self, operation: Operation) -> None:
        """Note that ``operation`` is invoked now."""
        if operation.f in self.known.updates:
            self.known.invoke(operation)
            self._changed()

    def complete(self, operation: Operation) -> None:
        """``operation``, invoked before, has got its response now."""
        self.known.complete(operation)
        self._changed()

    def judge(self, value: Value) -> frozenset[Condition]:
        """The conditions violated if the system crashes now and the read after recovery returns ``value``."""
        if value not in self._answers:
            found = {condition: verdict_on(condition, self.known, value)[1] for condition in CONDITIONS}
            self.undecided |= {condition for condition, verdict in found.items() if verdict is Verdict.UNDECIDED}
            self._answers[value] = frozenset(c for c, verdict in found.items() if verdict is Verdict.VIOLATED)
        return self._answers[value]

    def explain(self, value: Value, condition: Condition) -> str:
        """In one sentence, why ``condition`` is among ``judge(value)``; ValueError if it is not."""
        return explanation(condition, self.known, value)

    def _changed(self) -> None:
        self.version += 1
        self._answers = {}


def followed(object: Hashable, history: History, loaded: bool = True) -> RegisterHistory | RemovableHistory:
    """Who follows an object of a history from its beginning; ``loaded``: it had a value before time zero."""
    removed = any(isinstance(o.argument, Removed) for o in history.operations if o.object == object)
    return (RemovableHistory if removed else RegisterHistory)(object, history.updates, loaded)
