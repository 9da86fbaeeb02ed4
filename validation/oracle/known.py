"""The knowledge of one object at one instant: the updates that may be in effect, the acknowledged ones, the reads.

Operations carry their future when a recorded run is walked again (``outcome`` is already set at their invocation),
so nothing of an operation's response is looked at before it is handed to :meth:`ObjectHistory.complete`.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Container, Hashable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import accumulate
from operator import itemgetter
from typing import Literal

from ...scenarios.history import History, Operation, Removed, Value
from ...sim.errors import InputError, Mistake

BEFORE_PS = -(1 << 62)
"""When loaded values were written: before every operation."""
NEVER_PS = 1 << 62
"""When a pending update returns, and when the read after recovery is invoked: after every operation."""


class _NotRead(Enum):
    NOT_READ = "not read"


RECOVERY = -1
"""The process of the reads after recovery, where there are several of one object."""

NOT_READ = _NotRead.NOT_READ
"""In place of a recovered value: there was no read of the object after the crash."""

Recovered = Value | Literal[_NotRead.NOT_READ]


class Inconsistent(AssertionError):
    """The oracle contradicts itself: a bug in the oracle, whatever the history says."""


@dataclass(frozen=True)
class Flaw:
    """Why one object breaks a condition: the operations that the explanation names, the offending one first."""

    operations: tuple[Operation, ...]
    explanation: str


@dataclass(slots=True)
class ObjectHistory:
    """One object's operations so far; ``updates`` names the ``f`` that write, ``probe`` the read after recovery.

    Values are unique: no two updates write the same stamp, none writes the initial value. InputError otherwise. What
    removes the object has a stamp as well (:class:`Removed`), but all that is read of it is that the object is absent:
    where only one removal, or none, had been invoked until then, such a read counts as one of its stamp; of others it
    is not known which removal they saw, and a flaw is only what is one whichever it was.
    """

    object: Hashable
    updates: frozenset[str]
    loaded: bool = True
    probe: str = "get"
    writes: dict[Value, Operation] = field(default_factory=dict)
    """By stamp: every update invoked that did not certainly fail."""
    acknowledged_ps: dict[Value, int] = field(default_factory=dict)
    """By stamp: when the update returned ``ok``, or was applied where ``ok`` promises what takes effect later."""
    promised_ps: dict[Value, int] = field(default_factory=dict)
    """By stamp: when ``ok`` promised an update that takes effect later."""
    failed: dict[Value, Operation] = field(default_factory=dict)
    reads: list[Operation] = field(default_factory=list)
    """The updates that returned ``ok`` by now."""
    killed_ps: dict[Value, int] = field(default_factory=dict)
    """By stamp: when a crash killed the process of an update that had not returned."""
    reborn_ps: dict[Value, int] = field(default_factory=dict)
    """By stamp: when the process of such an update invoked something again, if it ever did."""
    crashes_ps: list[int] = field(default_factory=list)
    """In order: the crashes that ended an era (of the system or of the server), before which reads count as earlier."""
    returned: dict[int, int | None] = field(default_factory=dict)
    """By instant: the process whose operations returned ``ok`` then; None if those of several did."""
    given_up: bool = False
    """Whether the last search for an order of it came to no answer: that no flaw was found says nothing then."""
    initial: Value = field(init=False)
    """The value before the first update: the loaded stamp 0, or absent."""

    def __post_init__(self) -> None:
        self.initial = 0 if self.loaded else None

    def invoke(self, operation: Operation) -> None:
        """Take note that ``operation`` was invoked; InputError if it writes a value that is not unique."""
        if operation.f not in self.updates:
            return
        stamp = operation.argument
        if not isinstance(stamp, int) or stamp == 0 or stamp in self.writes or stamp in self.failed:
            found = f"{operation.f} of {stamp!r} by operation {operation.number}"
            raise InputError(Mistake(found, f"a stamp that no other operation on {self.object} writes, and not 0"))
        self.writes[stamp] = operation

    def complete(self, operation: Operation) -> Operation:
        """Take note of the response of ``operation``, invoked before; returns it as conditions see it.

        All that returned, and crashed, at the instant of its invocation has to be known. Raises ValueError if it is
        pending.
        """
        returned_ps = return_ps(operation)
        if operation.outcome == "ok":
            operation = self._behind_its_own(operation)
            process = self.returned.setdefault(returned_ps, operation.process)
            if process != operation.process:
                self.returned[returned_ps] = None
        if operation.f not in self.updates:
            if operation.outcome == "ok":
                self.reads.append(self._named(operation) if operation.result is None else operation)
        elif operation.outcome == "ok":
            self.acknowledged_ps[operation.argument] = returned_ps
            self.writes[operation.argument] = operation
        elif operation.outcome == "fail":
            self.failed[operation.argument] = self.writes.pop(operation.argument)
        return operation

    def _behind_its_own(self, operation: Operation) -> Operation:
        """An operation whose process had another one return at the instant of its invocation comes behind that one, a
        picosecond later: a process does one thing after the other. Not where others' operations returned, or something
        crashed, at that instant too.
        """
        at_ps = operation.invoke_ps
        if self.returned.get(at_ps) != operation.process or operation.return_ps == at_ps or at_ps in self.crashes_ps:
            return operation
        return replace(operation, invoke_ps=at_ps + 1)

    def crash(self, at_ps: int) -> None:
        """The system crashes: every process that has an update under way is killed."""
        self.crashes_ps.append(at_ps)
        for stamp in self.writes:
            if stamp not in self.acknowledged_ps:
                self.killed_ps.setdefault(stamp, at_ps)

    @property
    def removes(self) -> bool:
        """Whether an update invoked so far may have removed the object."""
        return any(isinstance(stamp, Removed) for stamp in self.writes)

    def may_hold(self, value: Value) -> bool:
        """Whether ``value`` is the initial value or one that an update invoked so far may have written."""
        return value == self.initial or value in self.writes or (value is None and self.removes)

    def wrote(self, read: Operation) -> bool:
        """Whether ``read`` returned a version: the initial value, or one whose write may have been in effect then."""
        return bool(self.stamps(read.result, return_ps(read)))

    def stamps(self, value: Value, by_ps: int = NEVER_PS) -> list[Value]:
        """The versions that ``value``, read by then, may have been: one, or of absent the removals as well."""
        found = [value] if value == self.initial else []
        wanted = (s for s in self.writes if isinstance(s, Removed)) if value is None else (value,)
        return found + [s for s in wanted if s in self.writes and self.writes[s].invoke_ps <= by_ps]

    def _named(self, read: Operation) -> Operation:
        """A read that found nothing, as one of the removal that it saw, if only one can be meant."""
        stamps = self.stamps(None, return_ps(read))
        return replace(read, result=stamps[0]) if len(stamps) == 1 else read


class Absent:
    """What reads that found nothing may have returned: the beginning, where nothing was there, or any removal that was
    invoked by then. ``ages_ps`` says by stamp by when a version was in effect for certain."""

    def __init__(self, known: ObjectHistory, ages_ps: Mapping[Value, int]) -> None:
        rows = [(w.invoke_ps, ages_ps.get(s, NEVER_PS)) for s, w in known.writes.items() if isinstance(s, Removed)]
        rows.sort()
        self._at_first = BEFORE_PS - 1 if known.loaded else BEFORE_PS
        self._begun_ps = [begun_ps for begun_ps, _ in rows]
        self._youngest_ps = list(accumulate((age_ps for _, age_ps in rows), max))

    @property
    def oldest_ps(self) -> int:
        """Not before this did it take effect, whichever it was; if the object was there at first and is never removed,
        what is older than all."""
        return self._begun_ps[0] if self._begun_ps and self._at_first < BEFORE_PS else self._at_first

    def youngest_ps(self, by_ps: int = NEVER_PS) -> int:
        """By when it was in effect for certain if it is the youngest that a read which returned by then may mean.

        A read that returned before any removal was invoked (it breaks ``committed``) may mean each of them.
        """
        begun = bisect_right(self._begun_ps, by_ps) or (len(self._begun_ps) if self._at_first < BEFORE_PS else 0)
        return max(self._at_first, self._youngest_ps[begun - 1]) if begun else self._at_first


Finder = Callable[[ObjectHistory, Recovered], Flaw | None]
"""A condition: the flaw of one object whose read after recovery returned the given value, or None."""


def return_ps(operation: Operation) -> int:
    """When ``operation`` returned; ValueError if it is pending."""
    if operation.return_ps is None:
        raise ValueError(f"operation {operation.number} has not returned")
    return operation.return_ps


def cut(
    history: History, crash_ps: int, loaded: Container[Hashable] | None = None, probe: str = "get"
) -> dict[Hashable, ObjectHistory]:
    """The knowledge of each object of ``history`` after a crash of the system at ``crash_ps``.

    All objects were loaded if ``loaded`` is None.
    """
    objects: dict[Hashable, ObjectHistory] = {}
    returned: list[tuple[int, int, Operation]] = []
    for operation in history.operations:
        if operation.invoke_ps > crash_ps:
            continue
        known = objects.get(operation.object)
        if known is None:
            was_loaded = loaded is None or operation.object in loaded
            known = objects[operation.object] = ObjectHistory(operation.object, history.updates, was_loaded, probe)
        known.invoke(operation)
        if operation.return_ps is not None and operation.return_ps <= crash_ps:
            returned.append((operation.return_ps, operation.number, operation))
    for _, _, operation in sorted(returned, key=itemgetter(0, 1)):
        objects[operation.object].complete(operation)
    for known in objects.values():
        known.crash(crash_ps)
    return objects
