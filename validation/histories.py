"""History files: JSON Lines in Jepsen's words, read into operations and crashes, with every mistake in its line.

A line is an event: ``invoke``, ``ok``, ``fail`` (certainly not in effect) or ``info`` (unknown) of a process, or a
``crash`` of the system, the server, a client process or a replica. What crashes do to operations:

- ``system`` kills all processes. What had not returned takes effect before the crash, later or never; no response of
  it can follow. The ids of processes may be used again.
- ``server`` and ``replica`` kill no client: operations stay open across the crash and may return after it.
- ``client`` kills one process. Its operation stays open: packets in flight land later.
"""

from __future__ import annotations

import json
import math
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from ..sim.errors import InputError, Mistake, nearest
from ..sim.yaml_source import describe, nearest_file, printable
from .oracle.known import NEVER_PS

TYPES = ("invoke", "ok", "fail", "info", "crash")
NODES = ("system", "server", "client", "replica")
FIELDS = (
    "process", "type", "f", "key", "value", "time", "node", "id", "retry_of",
    "session", "batch", "scope", "index", "error",
)  # fmt: skip
"""All fields; those of the last row say nothing to the conditions that are judged so far."""

MOST_MISTAKES = 20
FARTHEST_NS = 1 << 63
LONGEST_NS = NEVER_PS // 4000
"""How long a history may last (13 days): instants are picoseconds in 63 bits."""

_MISSING = object()


@dataclass(frozen=True)
class Other:
    """A JSON value that is neither a number nor a text, a list or null, by its text; equal if that is equal."""

    text: str


def freeze(value: Any) -> Hashable:
    """A JSON value as something to compare and to hash (true is not 1)."""
    if isinstance(value, list):
        return tuple(freeze(item) for item in value)
    return Other(json.dumps(value, sort_keys=True)) if isinstance(value, bool | dict) else value


def show(value: Hashable) -> str:
    """A frozen value as it stood in the file."""
    if isinstance(value, tuple):
        return f"[{', '.join(map(show, value))}]"
    if isinstance(value, frozenset):
        return f"{{{', '.join(sorted(map(show, value)))}}}"
    return value.text if isinstance(value, Other) else json.dumps(value)


@dataclass(eq=False)
class Entry:
    """One operation: ``argument`` and ``result`` are JSON values as they stand in the file (or missing).

    ``outcome`` is ``ok``, ``fail``, or None: pending or unknown. ``killed_ps`` is when the last process that was at it
    was killed by a crash.
    """

    line: int
    process: int | str
    f: str
    key: Hashable
    argument: Any
    invoke_ps: int
    result: Any = _MISSING
    return_ps: int | None = None
    return_line: int | None = None
    outcome: str | None = None
    killed_ps: int | None = None
    alive: list[int | str] = field(default_factory=list)
    """The process of each attempt that may still take effect: several where it was retried."""

    @property
    def has_argument(self) -> bool:
        return self.argument is not _MISSING

    @property
    def has_result(self) -> bool:
        return self.result is not _MISSING


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
    """What a history file says; ``time_zero_ns`` is what was taken off its times, if they were too large."""

    file: str
    entries: list[Entry]
    crashes: list[CrashLine]
    time_zero_ns: int | float


def read_history(path: Path) -> HistoryFile:
    """Read a file; raises InputError with file, line, field, found and expected for all that is wrong (20 at most)."""
    file = printable(str(path))
    expected = "a history: JSON Lines, one event a line"
    try:
        if path.is_dir():
            raise InputError(Mistake("a directory", expected, file))
        raw = path.read_bytes()
    except FileNotFoundError:
        raise InputError(Mistake("no such file", expected, file, nearest=nearest_file(path))) from None
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise InputError(Mistake(f"a file that cannot be read ({reason.lower()})", expected, file)) from None
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw[: error.start].count(b"\n") + 1
        raise InputError(
            Mistake(f"a binary file (byte {error.start} is 0x{raw[error.start]:02x})", expected, file, line)
        ) from None
    return parse_history(text, file)


def parse_history(text: str, file: str) -> HistoryFile:
    """Read the text of a history; ``file`` is what messages call it. Raises InputError."""
    return _Reader(file).read(text)


class _Enough(Exception):
    """So many mistakes that the rest is no help."""


class _Wrong(ValueError):
    """A line that cannot be read, with what was found."""


class _Reader:
    """Reads line by line; a process whose lines are wrong is not complained about again."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.mistakes: list[Mistake] = []
        self.entries: list[Entry] = []
        self.crashes: list[CrashLine] = []
        self.pending: dict[int | str, Entry] = {}
        self.open: dict[Entry, None] = {}
        self.by_id: dict[Hashable, Entry] = {}
        self.ended: dict[int | str, str] = {}
        self.muddled: set[int | str] = set()
        self.lost = False
        self.zero_ns: int | float | None = None
        self.last_ns: int | float = -math.inf
        self.last_line = 0
        self.keyed: tuple[int, bool] | None = None

    def read(self, text: str) -> HistoryFile:
        try:
            for number, line in enumerate(text.split("\n"), start=1):
                if line.strip():
                    self._line(number, line)
        except _Enough:
            pass
        if not self.mistakes and not self.entries:
            self.mistakes.append(Mistake("no operations", "at least one line of type invoke", self.file))
        if self.mistakes:
            raise InputError(self.mistakes)
        return HistoryFile(self.file, self.entries, self.crashes, self.zero_ns or 0)

    def _wrong(
        self, line: int, found: str, expected: str, field: str | None = None, known: Iterable[str] = (), word: str = ""
    ) -> None:
        self.mistakes.append(Mistake(found, expected, self.file, line, field, nearest(word, known) if word else None))
        if len(self.mistakes) >= MOST_MISTAKES:
            raise _Enough

    def _line(self, number: int, line: str) -> None:
        try:
            data = json.loads(line, object_pairs_hook=_object, parse_constant=_constant)
        except (ValueError, RecursionError) as error:
            self.lost = True
            self._wrong(number, _malformed(line, error), 'a JSON object, as in {"process": 0, "type": "invoke", ...}')
            return
        if not isinstance(data, dict):
            self.lost = True
            self._wrong(number, describe(data), "a JSON object: one event a line")
            return
        before = len(self.mistakes)
        for name in data:
            if name not in FIELDS:
                found = f"a field {describe(name)}"
                self._wrong(number, found, f"fields among {', '.join(FIELDS)}", None, FIELDS, name)
        kind = data.get("type")
        if kind not in TYPES:
            word = kind if isinstance(kind, str) else ""
            self._wrong(number, describe(kind), f"one of {', '.join(TYPES)}", "type", TYPES, word)
        at_ps = self._time(number, data.get("time"))
        process = data.get("process")
        if kind != "crash" and (not isinstance(process, int | str) or isinstance(process, bool)):
            self._wrong(number, describe(process), "the number or name of a process", "process")
        if len(self.mistakes) > before:
            self.muddled.add(process if isinstance(process, int | str) else "")
            self.lost |= not isinstance(process, int | str)
        elif kind == "crash":
            self._crash(number, data, at_ps)
        elif kind == "invoke":
            self._invoke(number, data, at_ps)
        else:
            self._complete(number, data, at_ps)

    def _time(self, line: int, time: Any) -> int:
        if not isinstance(time, int | float) or isinstance(time, bool) or not -FARTHEST_NS < time < FARTHEST_NS:
            self._wrong(line, describe(time)[:60], "the time in nanoseconds", "time")
            return 0
        if time < self.last_ns:
            self._wrong(line, str(time), f"at least {self.last_ns}, the time of line {self.last_line}", "time")
            return 0
        if self.zero_ns is None:
            self.zero_ns = time if abs(time) > LONGEST_NS else 0
        self.last_ns, self.last_line = time, line
        if time - self.zero_ns > LONGEST_NS:
            self._wrong(line, str(time), f"at most {LONGEST_NS} ns after the first", "time")
            return 0
        return round((time - self.zero_ns) * 1000)

    def _crash(self, line: int, data: Mapping[str, Any], at_ps: int) -> None:
        node, process = data.get("node"), data.get("process")
        if node not in NODES:
            self._wrong(
                line, describe(node), f"one of {', '.join(NODES)}", "node", NODES, node if isinstance(node, str) else ""
            )
            self.lost = True
            return
        for name in ("f", "key", "value") + (() if node == "client" else ("process",)):
            if name in data:
                self._wrong(line, describe(data[name]), f"no {name} in the crash of a {node}", name)
        if node == "client" and (not isinstance(process, int | str) or isinstance(process, bool)):
            self._wrong(line, describe(process), "which client process crashed", "process")
            return
        self.crashes.append(CrashLine(line, node, at_ps, process if node == "client" else None))
        if node == "system":
            for entry in self.open:
                entry.killed_ps = at_ps
                entry.alive.clear()
            self.ended |= dict.fromkeys(self.pending, f"the crash of the system on line {line} had killed")
            self.pending.clear()
            self.open.clear()
        elif node == "client":
            for entry in [entry for entry in self.open if process in entry.alive]:
                entry.alive = [other for other in entry.alive if other != process]
                if not entry.alive:
                    entry.killed_ps = at_ps
                    del self.open[entry]
            if process is not None and self.pending.pop(process, None) is not None:
                self.ended[process] = f"the crash of its process on line {line} had killed"

    def _invoke(self, line: int, data: Mapping[str, Any], at_ps: int) -> None:
        process, f = data["process"], data.get("f")
        if not isinstance(f, str) or not f:
            self.muddled.add(process)
            self._wrong(line, describe(f), "the name of an operation", "f")
            return
        under_way = self.pending.get(process)
        if under_way is not None and not self._excused(process):
            found = (
                f"a second operation of process {show(process)}, whose {under_way.f} of line {under_way.line} is open"
            )
            self._wrong(line, found, "a response of that one first", "process")
        self.ended.pop(process, None)
        key = freeze(data.get("key"))
        if self.keyed is None:
            self.keyed = line, key is not None
        elif self.keyed[1] != (key is not None):
            what = "a key" if self.keyed[1] else "no key"
            self._wrong(line, describe(data.get("key")), f"{what}, as on line {self.keyed[0]}", "key")
        entry = Entry(line, process, f, key, data.get("value", _MISSING), at_ps)
        if "retry_of" in data:
            first = self.by_id.get(freeze(data["retry_of"]))
            same = first is not None and (first.f, first.key, first.argument) == (f, key, entry.argument)
            if first is None or not same:
                expected = "the id of an earlier operation" if first is None else f"the operation of line {first.line}"
                self._wrong(line, describe(data["retry_of"]), f"{expected}, with the same f, key and value", "retry_of")
            else:
                entry = first
        else:
            self.entries.append(entry)
        if "id" in data:
            known = self.by_id.setdefault(freeze(data["id"]), entry)
            if known is not entry:
                self._wrong(line, describe(data["id"]), f"an id of its own (line {known.line} has this one)", "id")
        self.pending[process] = entry
        if entry.outcome != "ok":
            entry.outcome = entry.return_ps = entry.killed_ps = None
            entry.alive.append(process)
            self.open[entry] = None

    def _complete(self, line: int, data: Mapping[str, Any], at_ps: int) -> None:
        process, kind = data["process"], data["type"]
        entry = self.pending.get(process)
        if entry is None:
            ended = self.ended.get(process)
            if kind == "info" or self._excused(process):
                return  # of a process that is gone: says no more than its end did
            if ended:
                hint = " (a crash of the server alone: node server)" if "system" in ended else ""
                self._wrong(line, f"{kind} of an operation that {ended}", f"an invoke first{hint}", "type")
            else:
                found = f"{kind} of process {show(process)}, which has no operation under way"
                self._wrong(line, found, "an invoke first", "type")
            return
        for name, started in (("f", entry.f), ("key", entry.key)):
            if name in data and freeze(data[name]) != started:
                what = f"{show(started)}, as invoked on line {entry.line}"
                word = data[name] if isinstance(data[name], str) else ""
                self._wrong(line, describe(data[name]), what, name, [str(started)], word)
        del self.pending[process]
        if entry.outcome == "ok":
            return  # a retry of what had returned
        if kind == "ok":
            entry.outcome, entry.return_ps, entry.return_line = "ok", at_ps, line
            entry.result = data.get("value", _MISSING)
            self.open.pop(entry, None)
        elif kind == "fail":
            entry.alive.remove(process)
            if not entry.alive:
                entry.outcome, entry.return_ps, entry.return_line = "fail", at_ps, line
                self.open.pop(entry, None)

    def _excused(self, process: int | str) -> bool:
        return self.lost or process in self.muddled


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data: dict[str, Any] = {}
    for name, value in pairs:
        if name in data:
            raise _Wrong(f"the field {describe(name)} twice")
        data[name] = value
    return data


def _constant(name: str) -> NoReturn:
    raise _Wrong(f"{name}, which is no JSON")


def _malformed(line: str, error: Exception) -> str:
    if isinstance(error, _Wrong):
        return str(error)
    if isinstance(error, RecursionError):
        return "lists in lists without end"
    if line.lstrip().startswith(("{:", "#jepsen")):
        return "EDN"
    column = f" at column {error.colno}" if isinstance(error, json.JSONDecodeError) else ""
    return f"{describe(line.strip())}, which is no JSON{column}"


def in_order(entries: Iterable[Entry]) -> Iterator[Entry]:
    """The operations in the order of their invocations."""
    return iter(sorted(entries, key=lambda entry: (entry.invoke_ps, entry.line)))
