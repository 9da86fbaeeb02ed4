"""The content of a history in any format: operations, crashes, and values that can be compared."""

from __future__ import annotations

import json
from collections.abc import Collection, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...scenarios.history import Described, Stamp
from ..oracle.known import NEVER_PS

TYPES = ("invoke", "ok", "fail", "info", "applied", "crash")
NODES = ("system", "server", "client", "replica")

FRESH = "a fresh client"
"""The process that reads what a crash has left, where it is not among the operations of a run."""

MISSING = object()
"""In place of a value that an event does not have."""


@dataclass(frozen=True)
class Other:
    """A JSON value that is neither a number nor a text, a list or null, by its text; equal if that is equal."""

    text: str


def freeze(value: Any) -> Hashable:
    """A JSON value as something to compare and to hash (true is not 1)."""
    kind = type(value)
    if kind is int or kind is str or value is None:  # nearly always
        known: Hashable = value
        return known
    if isinstance(value, list):
        return tuple(freeze(item) for item in value)
    return Other(json.dumps(value, sort_keys=True)) if isinstance(value, bool | dict) else value


def show(value: Hashable) -> str:
    """A frozen value as it stood in the file."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(show, value))}]"
    if isinstance(value, frozenset):
        return f"{{{', '.join(sorted(map(show, value)))}}}"
    if isinstance(value, Other):
        return value.text
    if isinstance(value, Stamp | Described):
        return str(value)
    return json.dumps(value) if isinstance(value, str | int | float | None) else repr(value)


@dataclass(eq=False, slots=True)
class HistoryEntry:
    """One operation: ``argument`` and ``result`` are JSON values as they stand in the file (or MISSING).

    ``outcome`` is ``ok``, ``fail``, or None: pending or unknown. ``return_ps`` is by when it certainly was in effect:
    when it returned, or, where ``ok`` promises what takes effect later (``applied``), when it was applied.
    """

    line: int
    process: int | str
    f: str
    key: Hashable
    argument: Any
    invoke_ps: int
    result: Any = MISSING
    return_ps: int | None = None
    return_line: int | None = None
    outcome: str | None = None
    killed_ps: int | None = None
    """When the last process that was at it was killed by a crash."""
    dead_ps: int | None = None
    """The crash of the system after which nothing of it is on its way any more."""
    reborn_ps: int | None = None
    """The last instant before the processes that were killed at it had all invoked something again."""
    promised_ps: int | None = None
    """The instant of ``applied``, where the history has one beside ``ok``."""
    session: Hashable = None
    """The connection, or else the process (a new one after a crash that killed it)."""
    batch: Hashable = None
    scope: Any = MISSING
    alive: list[int | str] = field(default_factory=list)
    """The process of each attempt that may still take effect: several where it was retried."""
    kill_ps: int | None = None
    """When the last of its attempts that were killed was."""
    awaited: set[int | str] = field(default_factory=set)
    """Processes that were killed at it and have not invoked anything since."""
    birth_ps: int | None = None
    """When the last process that was killed at it invoked something again."""
    begin_ps: int = field(init=False)
    """Not before then did it take effect: when it was invoked, or just behind what its process did before."""

    def __post_init__(self) -> None:
        self.begin_ps = self.invoke_ps

    @property
    def has_argument(self) -> bool:
        return self.argument is not MISSING

    @property
    def has_result(self) -> bool:
        return self.result is not MISSING

    def returned_by(self, until_ps: int) -> bool:
        """Whether it was certainly in effect at ``until_ps``."""
        return self.outcome == "ok" and self.return_ps is not None and self.return_ps <= until_ps


@dataclass(frozen=True)
class CrashLine:
    """A crash: of what, and when."""

    line: int
    node: str
    at_ps: int
    process: int | str | None = None

    @property
    def ends_era(self) -> bool:
        """Whether it comes between all operations before and after (clients' and replicas' crashes do not)."""
        return self.node in ("system", "server")


@dataclass(frozen=True)
class HistoryFile:
    """The content of a history file; ``time_zero_ns`` was subtracted from its times, if they were too large.

    ``timed`` is false for a file whose events have no times: then the order of its lines stands for them.
    """

    file: str
    entries: list[HistoryEntry]
    crashes: list[CrashLine]
    time_zero_ns: int | float
    timed: bool = True
    format: str = "json lines"
    place: str = "line"
    """What the numbers of operations are: ``line`` of a file, ``operation`` of a run."""

    def eras_ps(self) -> list[int]:
        """When the crashes that end an era came, each instant once."""
        return sorted({crash.at_ps for crash in self.crashes if crash.ends_era})


def in_order(entries: Iterable[HistoryEntry]) -> Iterator[HistoryEntry]:
    """The operations in the order of their invocations."""
    return iter(sorted(entries, key=lambda entry: (entry.invoke_ps, entry.line)))


def _before(birth_ps: int | None, killed_ps: int | None) -> int | None:
    """The last instant before a process that was killed invoked something again; at the crash itself both are at once.

    Intervals are closed: with the invocation itself as the deadline, both could take effect then, in either order.
    """
    return birth_ps if birth_ps is None or killed_ps is None else max(killed_ps, birth_ps - 1)


def settle(
    entries: Iterable[HistoryEntry], crashes: Iterable[CrashLine], promises: Collection[str] = frozenset()
) -> None:
    """Work out, once all is read, by when operations were in effect and when those on their way were lost.

    The ``ok`` of ``promises`` is a promise, as it is where an operation of that ``f`` was applied.
    """
    crashes = list(crashes)
    system_ps = sorted(crash.at_ps for crash in crashes if crash.node == "system")
    eras_ps = sorted(crash.at_ps for crash in crashes if crash.ends_era)
    entries = list(entries)
    late = {*promises, *(entry.f for entry in entries if entry.promised_ps is not None)}
    for entry in entries:
        if entry.outcome is None and not entry.alive:
            entry.killed_ps = entry.kill_ps
            entry.reborn_ps = None if entry.awaited else _before(entry.birth_ps, entry.killed_ps)
        if entry.killed_ps is not None:
            entry.dead_ps = next((at_ps for at_ps in system_ps if at_ps >= entry.killed_ps), None)
        if entry.outcome != "ok" or entry.f not in late or entry.return_ps is None:
            continue
        # ``ok`` is a promise: it is in effect when applied, and at the latest when a crash asks for it
        promised_ps = entry.return_ps if entry.promised_ps is None else entry.promised_ps
        applied_ps = NEVER_PS if entry.promised_ps is None else entry.return_ps
        entry.promised_ps = promised_ps
        by_ps = min(applied_ps, next((at_ps for at_ps in eras_ps if at_ps >= promised_ps), NEVER_PS))
        entry.return_ps = by_ps if by_ps < NEVER_PS else None
        entry.outcome = "ok" if by_ps < NEVER_PS else None
    _behind_their_own(entries, {crash.at_ps for crash in crashes})


def _behind_their_own(entries: Sequence[HistoryEntry], crashes_ps: Collection[int]) -> None:
    """What a process invokes at the instant at which its operation before returned comes behind that one, a picosecond
    later. Not where something else happened at that instant: then it would come behind that as well.
    """
    returned: dict[int, int | str | None] = {}
    for entry in entries:
        if entry.outcome == "ok" and entry.return_ps is not None:
            process = returned.setdefault(entry.return_ps, entry.process)
            if process != entry.process:
                returned[entry.return_ps] = None
    for entry in entries:
        at_ps = entry.invoke_ps
        if returned.get(at_ps) == entry.process and entry.return_ps != at_ps and at_ps not in crashes_ps:
            entry.begin_ps = at_ps + 1
