"""A run as a trace for ui.perfetto.dev (and chrome://tracing): a track for each client, adapter queue, core and memory.

The Trace Event Format's JSON needs no library. Its times are microseconds, and viewers keep nanoseconds of them: every
instant is rounded down to one, so that what nests here nests there; ``args`` have the picoseconds.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...models.durability.places import PLACES, Place
from ...sim.bytespace import lines
from ...sim.trace import NEVER, Chunk, Stage
from ..history import Operation, Torn
from .results import RunResult

Event = dict[str, Any]

MOST_LANES = 8
"""So many slices of a track may overlap; any more are drawn as instants."""
_ON_THE_WAY = frozenset({Place.NIC, Place.PCIE, Place.STORE_BUFFER, Place.WC_BUFFER})
"""Places that a queue pair's or a core's writes go through, one track a queue; all others are the memory's."""


def trace_events(
    result: RunResult, *, operations: int | None = None, first_pid: int = 1, marks: Sequence[tuple[int, str]] = ()
) -> list[Event]:
    """The events of a run; of its first ``operations`` after the warm-up, and what happened meanwhile, if given.

    Each client process and each node is a process of the trace, numbered from ``first_pid``; ``marks`` are instants
    (when, what) that concern all: a power failure, the lines lost by it.
    """
    shown = [o for o in result.history.operations if o.invoke_ps >= result.measured_from_ps]
    shown = shown if operations is None else shown[:operations]
    from_ps = min((o.invoke_ps for o in shown), default=0) if operations is not None else 0
    until_ps = max((o.return_ps or o.invoke_ps for o in shown), default=0)
    if operations is None:
        until_ps = max([until_ps, *(at_ps for at_ps, _ in marks)])
    drawing = _Drawing(f"{result.scheme_name} on {result.platform_label}", first_pid, until_ps)
    for operation in shown:
        _operation(drawing, operation, result.spans.get(operation.number, ()))
    _chunks(drawing, result, from_ps, until_ps)
    for at_ps, text in marks:
        drawing.instant("faults", "all", at_ps, text, scope="g")
    return drawing.events


class _Drawing:
    """Events, and the numbers of the processes and threads (tracks) that they belong to."""

    def __init__(self, title: str, first_pid: int, until_ps: int) -> None:
        self.events: list[Event] = []
        self.until_ps = until_ps
        self._title, self._first = title, first_pid
        self._pids: dict[str, int] = {}
        self._tids: dict[tuple[int, str], int] = {}
        self._ends: dict[tuple[int, str], list[int]] = {}
        """By process and track: when the last slice of each of its lanes ends."""

    def slice(
        self, process: str, track: str, start_ps: int, end_ps: int, name: str, args: Mapping[str, Any] | None = None
    ) -> int | None:
        """A slice on the first lane of the track that is free; returns the lane's number, None if all are taken."""
        pid = self._pid(process)
        ends = self._ends.setdefault((pid, track), [])
        lane = next((lane for lane, end_ns in enumerate(ends) if end_ns <= start_ps // 1000), len(ends))
        if lane >= MOST_LANES:
            self.instant(process, track, start_ps, name, args)
            return None
        if lane == len(ends):
            ends.append(0)
        ends[lane] = -(-end_ps // 1000)
        self._complete(pid, self._tid(pid, _lane(track, lane)), start_ps, end_ps, name, args)
        return lane

    def inside(self, process: str, track: str, lane: int, start_ps: int, end_ps: int, name: str) -> None:
        """A slice that lies within one of the lane."""
        pid = self._pid(process)
        self._complete(pid, self._tid(pid, _lane(track, lane)), start_ps, end_ps, name, None)

    def instant(
        self,
        process: str,
        track: str,
        at_ps: int,
        name: str,
        args: Mapping[str, Any] | None = None,
        scope: str = "t",
    ) -> None:
        """Something that takes no time; ``scope``: of the track (t), or of all (g)."""
        pid = self._pid(process)
        event = {"ph": "i", "s": scope, "pid": pid, "tid": self._tid(pid, track), "ts": at_ps // 1000 / 1000}
        self.events.append({**event, "name": name, "cat": "rpsim", "args": {"at_ps": at_ps, **(args or {})}})

    def _complete(
        self, pid: int, tid: int, start_ps: int, end_ps: int, name: str, args: Mapping[str, Any] | None
    ) -> None:
        start_ns, end_ns = start_ps // 1000, end_ps // 1000
        exact = {"start_ps": start_ps, "end_ps": end_ps, **(args or {})}
        event = {"ph": "X", "pid": pid, "tid": tid, "ts": start_ns / 1000, "dur": (end_ns - start_ns) / 1000}
        self.events.append({**event, "name": name, "cat": "rpsim", "args": exact})

    def _pid(self, process: str) -> int:
        known = self._pids.get(process)
        if known is None:
            known = self._pids[process] = self._first + len(self._pids)
            self._name("process_name", known, 0, f"{process}: {self._title}")
        return known

    def _tid(self, pid: int, track: str) -> int:
        known = self._tids.get((pid, track))
        if known is None:
            known = self._tids[pid, track] = sum(other == pid for other, _ in self._tids) + 1
            self._name("thread_name", pid, known, track)
        return known

    def _name(self, what: str, pid: int, tid: int, name: str) -> None:
        self.events.append({"ph": "M", "name": what, "pid": pid, "tid": tid, "args": {"name": name}})


def _lane(track: str, lane: int) -> str:
    return track if lane == 0 else f"{track} ({lane + 1})"


def _operation(drawing: _Drawing, operation: Operation, hops: Sequence[tuple[str, int]]) -> None:
    """A client's operation, and the hops of its way where they were kept."""
    process, name = f"client {operation.process}", operation.text
    end_ps = drawing.until_ps if operation.return_ps is None else operation.return_ps
    result = operation.result
    args = {
        "outcome": operation.outcome or "open",
        "result": str(result) if isinstance(result, Torn) else result,
        "operation": operation.number,
    }
    lane = drawing.slice(process, "operations", operation.invoke_ps, max(end_ps, operation.invoke_ps), name, args)
    at_ps = operation.invoke_ps
    for hop, until_ps in sorted(hops, key=lambda mark: mark[1]):
        if lane is not None and at_ps < until_ps <= end_ps:
            drawing.inside(process, "operations", lane, at_ps, until_ps, hop)
            at_ps = until_ps


def _chunks(drawing: _Drawing, result: RunResult, from_ps: int, until_ps: int) -> None:
    """The chunks written to persistent memory, through the places of their path, and the events that forced them on."""
    trace, devices = result.system.trace, result.system.devices()
    write_backs = trace.write_backs
    rows = [c for c in trace.chunks if from_ps <= c.reached_ps[Stage.ACCEPTED] <= until_ps]
    for chunk in sorted(rows, key=lambda chunk: (chunk.reached_ps[Stage.ACCEPTED], chunk.number)):
        node, device = devices[chunk.device]
        channel = trace.channels[chunk.channel].name
        name = device.name_of(chunk.address)
        forced_ps = chunk.forced_ps[Stage.VISIBLE]
        args: dict[str, Any] = {
            "writer": chunk.writer,
            "bytes": len(chunk.data),
            "chunk": chunk.number,
            "certainly_visible_ps": forced_ps if forced_ps < NEVER else None,
            "certainly_visible_by": chunk.forced_by or None,
            "certainly_queued_ps": max(chunk.flushed_ps.values(), default=None),
        }
        for place, start_ps, end_ps in _stays(chunk, write_backs, drawing.until_ps):
            track = channel if place in _ON_THE_WAY else f"{device.name}: {place}"
            what = f"{place}: {name}" if place in _ON_THE_WAY else name
            drawing.slice(node.name, track, start_ps, end_ps, what, args)
            args = {"chunk": chunk.number}  # the rest is drawn once
        if forced_ps <= until_ps:
            drawing.instant(node.name, "ordering edges", forced_ps, f"{name} is visible: {chunk.forced_by}")
        for line, at_ps in chunk.flushed_ps.items():
            if at_ps <= until_ps:
                text = f"line {line:#x} of {device.name} is in the write pending queue: a flush"
                drawing.instant(node.name, "ordering edges", at_ps, text)


def _stays(
    chunk: Chunk, write_backs: Mapping[tuple[int, int], list[tuple[int, int, int]]], until_ps: int
) -> Iterator[tuple[Place, int, int]]:
    """The places that a chunk was in, in this timing, and from when until when."""
    reached = list(chunk.reached_ps)
    line = next(iter(lines(chunk.address, len(chunk.data))))
    if reached[Stage.VISIBLE] < NEVER and reached[Stage.QUEUED] == NEVER:
        moved = write_backs.get((chunk.device, line), [])
        at = bisect_left(moved, (reached[Stage.VISIBLE],))
        if at < len(moved):
            reached[Stage.QUEUED :] = moved[at][1:]
    places, stage = PLACES[chunk.path], 0
    while stage < len(places) and reached[stage] <= until_ps:
        after = stage + 1
        while after < len(places) and places[after] == places[stage]:
            after += 1
        end_ps = min(reached[after], until_ps) if after < len(places) else reached[stage]
        if end_ps >= reached[stage]:
            yield places[stage], reached[stage], end_ps
        stage = after
