"""Events in the order of time made into operations and crashes, with every mistake in its line.

What crashes do to operations:

- ``system`` kills all processes. What had not returned takes effect before the crash, later or never; no response of
  it can follow. The ids of processes may be used again.
- ``server`` and ``replica`` kill no client: operations stay open across the crash and may return after it.
- ``client`` kills one process. Its operation stays open: packets in flight land later.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping
from typing import Any

from ...sim.errors import InputError, Mistake, nearest
from ...sim.yaml_source import describe
from ..oracle.known import NEVER_PS
from ..oracle.models.simple import FENCES, SYNCS
from .entries import MISSING, NODES, TYPES, CrashLine, HistoryEntry, HistoryFile, freeze, settle, show

FIELDS = (
    "process", "type", "f", "key", "value", "time", "node", "id", "retry_of", "session", "batch", "scope",
    "index", "error",
)  # fmt: skip
"""All fields; those of the last row say nothing."""

_KNOWN = frozenset(FIELDS)

NO_OPERATIONS = "no operations"
"""What is found in a history in which nothing was invoked."""
MOST_MISTAKES = 20
FARTHEST_NS = 1 << 63
LONGEST_NS = NEVER_PS // 4000
"""How long a history may last (13 days): instants are picoseconds in 63 bits."""


class Enough(Exception):
    """So many mistakes that the rest is no help."""


class Events:
    """Takes event by event; a process whose lines are wrong is not complained about again."""

    def __init__(self, file: str, format: str) -> None:
        self.file, self.format = file, format
        self.mistakes: list[Mistake] = []
        self.entries: list[HistoryEntry] = []
        self.crashes: list[CrashLine] = []
        self.pending: dict[int | str, list[HistoryEntry]] = {}
        self.open: dict[HistoryEntry, None] = {}
        self.by_id: dict[Hashable, HistoryEntry] = {}
        self.ended: dict[int | str, str] = {}
        self.promises: set[str] = set()
        """The operations whose ``ok`` is a promise, also where no ``applied`` says so."""
        self.promised: dict[int | str, list[HistoryEntry]] = {}
        """By process: operations that returned and whose ``applied`` may still come."""
        self.waiting: dict[int | str, list[HistoryEntry]] = {}
        self.muddled: set[int | str] = set()
        self.lost = False
        self.zero_ns: int | float | None = None
        self.last_ns: int | float = -math.inf
        self.last_line = 0
        self.keyed: tuple[int, bool] | None = None
        self.kills: Counter[int | str] = Counter()
        self.systems = 0

    def finish(self, timed: bool = True) -> HistoryFile:
        """The history that was read. Raises InputError with all mistakes if there were any."""
        if not self.mistakes and not self.entries:
            self.mistakes.append(Mistake(NO_OPERATIONS, "at least one line of type invoke", self.file))
        if self.mistakes:
            raise InputError(self.mistakes)
        settle(self.entries, self.crashes, self.promises)
        return HistoryFile(self.file, self.entries, self.crashes, self.zero_ns or 0, timed, self.format)

    def wrong(
        self, line: int, found: str, expected: str, field: str | None = None, known: Iterable[str] = (), word: str = ""
    ) -> None:
        """Note a mistake; Enough is raised when there are too many."""
        self.mistakes.append(Mistake(found, expected, self.file, line, field, nearest(word, known) if word else None))
        if len(self.mistakes) >= MOST_MISTAKES:
            raise Enough

    def unreadable(self, line: int, found: str, expected: str) -> None:
        """A line that cannot be read: its missing event excuses mistakes after it."""
        self.lost = True
        self.wrong(line, found, expected)

    def event(self, number: int, data: Mapping[str, Any]) -> None:
        """Take the event of a line."""
        before = len(self.mistakes)
        if not _KNOWN.issuperset(data):
            for name in data:
                if name not in FIELDS:
                    found = f"a field {describe(name)}"
                    self.wrong(number, found, f"fields among {', '.join(FIELDS)}", None, FIELDS, name)
        kind = data.get("type")
        if kind not in TYPES:
            word = kind if isinstance(kind, str) else ""
            self.wrong(number, describe(kind), f"one of {', '.join(TYPES)}", "type", TYPES, word)
        at_ps = self._time(number, data.get("time"))
        process = data.get("process")
        if kind != "crash" and (not isinstance(process, int | str) or isinstance(process, bool)):
            self.wrong(number, describe(process), "the number or name of a process", "process")
        if len(self.mistakes) > before:
            self.muddled.add(process if isinstance(process, int | str) else "")
            self.lost |= not isinstance(process, int | str)
        elif kind == "crash":
            self._crash(number, data, at_ps)
        elif kind == "invoke":
            self._invoke(number, data, at_ps)
        elif kind == "applied":
            self._applied(number, data, at_ps)
        else:
            self._complete(number, data, at_ps)

    def _time(self, line: int, time: Any) -> int:
        if not isinstance(time, int | float) or isinstance(time, bool) or not -FARTHEST_NS < time < FARTHEST_NS:
            self.wrong(line, describe(time)[:60], "the time in nanoseconds", "time")
            return 0
        if time < self.last_ns:
            self.wrong(line, str(time), f"at least {self.last_ns}, the time of line {self.last_line}", "time")
            return 0
        if self.zero_ns is None:
            self.zero_ns = time if abs(time) > LONGEST_NS else 0
        self.last_ns, self.last_line = time, line
        if time - self.zero_ns > LONGEST_NS:
            self.wrong(line, str(time), f"at most {LONGEST_NS} ns after the first", "time")
            return 0
        return round((time - self.zero_ns) * 1000)

    def _crash(self, line: int, data: Mapping[str, Any], at_ps: int) -> None:
        node, process = data.get("node"), data.get("process")
        if node not in NODES:
            word = node if isinstance(node, str) else ""
            self.wrong(line, describe(node), f"one of {', '.join(NODES)}", "node", NODES, word)
            self.lost = True
            return
        for name in ("f", "key", "value") + (() if node == "client" else ("process",)):
            if name in data:
                self.wrong(line, describe(data[name]), f"no {name} in the crash of a {node}", name)
        if node == "client" and (not isinstance(process, int | str) or isinstance(process, bool)):
            self.wrong(line, describe(process), "which client process crashed", "process")
            return
        self.crashes.append(CrashLine(line, node, at_ps, process if node == "client" else None))
        if node == "system":
            self.systems += 1
            for entry in self.open:
                self._kill(entry, list(entry.alive), at_ps)
            self.ended |= dict.fromkeys(self.pending, f"the crash of the system on line {line} had killed")
            self.ended |= dict.fromkeys(self.promised, f"the crash of the system on line {line} had killed")
            self.pending.clear()
            self.promised.clear()
            self.open.clear()
        elif node == "client" and process is not None:
            self.kills[process] += 1
            for entry in [entry for entry in self.open if process in entry.alive]:
                self._kill(entry, [process], at_ps)
                if not entry.alive:
                    del self.open[entry]
            if self.pending.pop(process, None):
                self.ended[process] = f"the crash of its process on line {line} had killed"

    def _kill(self, entry: HistoryEntry, processes: list[int | str], at_ps: int) -> None:
        for process in processes:
            entry.awaited.add(process)
            self.waiting.setdefault(process, []).append(entry)
        entry.alive = [other for other in entry.alive if other not in processes]
        entry.kill_ps = at_ps

    def _invoke(self, line: int, data: Mapping[str, Any], at_ps: int) -> None:
        process, f = data["process"], data.get("f")
        if not isinstance(f, str) or not f:
            self.muddled.add(process)
            self.wrong(line, describe(f), "the name of an operation", "f")
            return
        batch = freeze(data.get("batch"))
        under_way = self.pending.get(process)
        if under_way and not self._excused(process) and (batch is None or batch != under_way[-1].batch):
            one = under_way[-1]
            found = f"a second operation of process {show(process)}, whose {one.f} of line {one.line} is open"
            self.wrong(line, found, "a response of that one first", "process")
        self.ended.pop(process, None)
        for entry in self.waiting.pop(process, ()):
            entry.awaited.discard(process)
            entry.birth_ps = at_ps
        key = freeze(data.get("key"))
        if f in SYNCS + FENCES:
            self._scope(line, data)
        elif self.keyed is None:
            self.keyed = line, key is not None
        elif self.keyed[1] != (key is not None):
            what = "a key" if self.keyed[1] else "no key"
            self.wrong(line, describe(data.get("key")), f"{what}, as on line {self.keyed[0]}", "key")
        entry = HistoryEntry(line, process, f, key, data.get("value", MISSING), at_ps, batch=batch)
        entry.scope = data.get("scope", MISSING)
        connection = freeze(data["session"]) if "session" in data else process
        entry.session = (connection, self.systems, self.kills[process])
        if "retry_of" in data:
            entry = self._retried(line, data, entry)
        else:
            self.entries.append(entry)
        if "id" in data:
            known = self.by_id.setdefault(freeze(data["id"]), entry)
            if known is not entry:
                self.wrong(line, describe(data["id"]), f"an id of its own (line {known.line} has this one)", "id")
        self.pending.setdefault(process, []).append(entry)
        if entry.outcome != "ok":
            entry.outcome = entry.return_ps = None
            entry.alive.append(process)
            self.open[entry] = None

    def _retried(self, line: int, data: Mapping[str, Any], entry: HistoryEntry) -> HistoryEntry:
        first = self.by_id.get(freeze(data["retry_of"]))
        same = first is not None and (first.f, first.key, first.argument) == (entry.f, entry.key, entry.argument)
        if first is not None and same:
            return first
        expected = "the id of an earlier operation" if first is None else f"the operation of line {first.line}"
        self.wrong(line, describe(data["retry_of"]), f"{expected}, with the same f, key and value", "retry_of")
        return entry

    def _scope(self, line: int, data: Mapping[str, Any]) -> None:
        scope = data.get("scope")
        if isinstance(scope, dict) and set(scope) not in ({"from", "to"}, {"session"}):
            expected = 'a key, a list of keys, {"from": a, "to": b} or {"session": s}'
            self.wrong(line, describe(sorted(scope)), expected, "scope")

    def _complete(self, line: int, data: Mapping[str, Any], at_ps: int) -> None:
        process, kind = data["process"], data["type"]
        open_ones = self.pending.get(process)
        if not open_ones:
            self._nothing_open(line, process, kind)
            return
        chosen = self._meant(line, data, open_ones)
        if not chosen:
            return
        for entry in chosen:
            for name, started in (("f", entry.f), ("key", entry.key)):
                if name in data and len(chosen) == 1 and freeze(data[name]) != started:
                    what = f"{show(started)}, as invoked on line {entry.line}"
                    word = data[name] if isinstance(data[name], str) else ""
                    self.wrong(line, describe(data[name]), what, name, [str(started)], word)
        results = [data.get("value", MISSING)]
        if len(chosen) > 1:
            value = data.get("value")
            if value is not None and (not isinstance(value, list) or len(value) != len(chosen)):
                self.wrong(
                    line, describe(value), f"a list of {len(chosen)} results, one for each of the batch", "value"
                )
            results = list(value) if isinstance(value, list) else [MISSING] * len(chosen)
        rest = [entry for entry in open_ones if entry not in chosen]
        if rest:
            self.pending[process] = rest
        else:
            del self.pending[process]
        for entry, result in zip(chosen, results, strict=False):
            self._ended(line, entry, process, kind, result, at_ps)

    def _ended(self, line: int, entry: HistoryEntry, process: int | str, kind: str, result: Any, at_ps: int) -> None:
        if entry.outcome == "ok":
            return  # a retry of what had returned
        if kind == "ok":
            entry.outcome, entry.return_ps, entry.return_line = "ok", at_ps, line
            entry.result = result
            self.open.pop(entry, None)
            self.promised.setdefault(process, []).append(entry)
        elif kind == "fail":
            entry.alive.remove(process)
            if not entry.alive:
                self.open.pop(entry, None)
                if entry.kill_ps is None:  # else an attempt that was killed may have taken effect
                    entry.outcome, entry.return_ps, entry.return_line = "fail", at_ps, line

    def _meant(self, line: int, data: Mapping[str, Any], open_ones: list[HistoryEntry]) -> list[HistoryEntry]:
        """The operations of a process that a response may belong to, of those under way."""
        if "batch" in data:
            batch = freeze(data["batch"])
            if batch == open_ones[-1].batch:
                return list(open_ones)
            self.wrong(line, describe(data["batch"]), f"{show(open_ones[-1].batch)}, the batch under way", "batch")
            return []
        if len(open_ones) == 1:
            return list(open_ones)
        named = self.by_id.get(freeze(data.get("id")))
        if named in open_ones:
            return [named]
        what = f"{data['type']} of one of {len(open_ones)} operations of the batch {show(open_ones[-1].batch)}"
        self.wrong(line, what, "the batch (all of them), or the id of one", "batch")
        return []

    def _nothing_open(self, line: int, process: int | str, kind: str) -> None:
        ended = self.ended.get(process)
        if kind == "info" or self._excused(process):
            return  # of a process that is gone: says no more than its end did
        if ended:
            hint = " (a crash of the server alone: node server)" if "system" in ended else ""
            self.wrong(line, f"{kind} of an operation that {ended}", f"an invoke first{hint}", "type")
        else:
            found = f"{kind} of process {show(process)}, which has no operation under way"
            self.wrong(line, found, "an invoke first", "type")

    def _applied(self, line: int, data: Mapping[str, Any], at_ps: int) -> None:
        """A second completion: what ``ok`` had promised is in effect."""
        process = data["process"]
        promised = self.promised.get(process, [])
        if "id" in data:
            named = self.by_id.get(freeze(data["id"]))
            fitting = [entry for entry in promised if entry is named]
        else:
            asked = [(name, freeze(data[name])) for name in ("f", "key") if name in data]
            fitting = [e for e in promised if all(getattr(e, name) == value for name, value in asked)]
        if not fitting:
            if not self._excused(process):
                expected = "the ok of the operation first (it is named by process, f, key or id)"
                self.wrong(line, f"applied of process {show(process)}, of nothing that returned", expected, "type")
            return
        promised.remove(fitting[0])
        fitting[0].promised_ps, fitting[0].return_ps = fitting[0].return_ps, at_ps

    def _excused(self, process: int | str) -> bool:
        return self.lost or process in self.muddled
