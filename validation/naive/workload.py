"""Workloads that either model can be driven with, and their outcomes.

A workload is machines on one switch, each with a pool of memory; connections, each with a thread that keeps a window of
requests outstanding; and threads that touch their machine's pool. An outcome is what each of them saw, when, and all
memory at the end.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

from typing_extensions import override

from ...models.profiles.parameters.counts import NONE
from ...models.profiles.platform import Platform, load_platform

POOL_BYTES = 32 * 1024
"""The size of a pool, enough for workloads that are made up at random."""
Verb = Literal["WRITE", "READ", "SEND"]
Name = Literal["load", "store", "ntstore", "clwb", "clflushopt", "clflush", "sfence", "compute"]


@dataclass(frozen=True)
class Request:
    """One work request; ``offset`` is within the responder's pool."""

    verb: Verb
    length: int
    offset: int = 0
    inline: bool = False
    signalled: bool = True

    @override
    def __str__(self) -> str:
        flags = ("" if self.signalled else ", unsignalled") + (", inline" if self.inline else "")
        return f"{self.verb} of {self.length} B at {self.offset:#x}{flags}"


@dataclass(frozen=True)
class Connection:
    """A queue pair and the thread that posts to it: on ``core`` of node ``requester``, from ``start_ps`` on.

    It waits for a completion when ``window`` signalled requests are outstanding, and for all in the end.
    """

    requester: int
    responder: int
    core: int
    start_ps: int
    window: int
    requests: tuple[Request, ...]
    one_buffer: bool = False
    """All of them, of one length, have one local buffer."""


@dataclass(frozen=True)
class Instruction:
    """One instruction on a range of the node's own pool."""

    name: Name
    offset: int = 0
    length: int = 0

    @override
    def __str__(self) -> str:
        return f"{self.name} of {self.length} B at {self.offset:#x}" if self.length else self.name


def execute(
    thread: Any, instruction: Instruction, where: int, content: Callable[[], bytes]
) -> Generator[Any, Any, bytes]:
    """Let a thread of either model execute an instruction on the bytes at ``where``; returns the bytes of a load.

    ``content`` makes the bytes that a store writes.
    """
    match instruction.name:
        case "load":
            found: bytes = yield from thread.load(where, instruction.length)
            return found
        case "store" | "ntstore" as name:
            yield from getattr(thread, name)(where, content())
        case "prefetch" | "clwb" | "clflushopt" | "clflush" as name:
            yield from getattr(thread, name)(where, instruction.length)
        case "sfence" | "compute" as name:
            yield from getattr(thread, name)()
    return b""


@dataclass(frozen=True)
class Program:
    """A thread on ``core`` of ``node`` that runs instructions from ``start_ps`` on."""

    node: int
    core: int
    start_ps: int
    instructions: tuple[Instruction, ...]


@dataclass(frozen=True, repr=False)
class Workload:
    """The input of both models; ``cores`` of each node, and one more that polls for receive completions."""

    platform: Platform
    nodes: int
    cores: int
    memory: str
    """Which device the pools are in."""
    connections: tuple[Connection, ...]
    programs: tuple[Program, ...] = ()
    seed: int = 1
    pool_bytes: int = POOL_BYTES

    @override
    def __repr__(self) -> str:
        """The workload in short: of the platform, which is long, only the settings and the parameters that were
        changed.
        """
        platform = self.platform
        shipped = load_platform(platform.name, **platform.settings)
        changed = [
            f"{part}.{name}={value!r}"
            for part in ("nic", "fabric", "pcie", "llc", "private", "tlb", "imc", "media", "cpu")
            for name, value in _values(getattr(platform, part))
            if value != dict(_values(getattr(shipped, part))).get(name)
        ]
        lines = [f"{platform.name}, {dict(platform.settings)}", *changed, f"{self.nodes} nodes, {self.memory}"]
        lines += [repr(what) for what in (*self.connections, *self.programs)]
        return "\n".join([*lines, f"seed {self.seed}"])

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(repr(self))

    def comparable(self) -> Workload:
        """The same on a platform without what the naive model has not: reads that wait for writes of the medium."""
        media = {kind: replace(one, read_behind_writes=NONE) for kind, one in self.platform.media.items()}
        return replace(self, platform=replace(self.platform, media=media))

    def receives(self, node: int) -> int:
        """How many SENDs a node gets."""
        ends = (connection for connection in self.connections if connection.responder == node)
        return sum(request.verb == "SEND" for connection in ends for request in connection.requests)

    def content(self, *names: int) -> random.Random:
        """Bytes of this workload's own, a stream for each purpose: ``names`` are its numbers."""
        number = self.seed
        for name in names:
            number = number * 1_000_003 + name + 1
        return random.Random(number)


def _values(part: Any) -> list[tuple[str, Any]]:
    if isinstance(part, Mapping):
        return [(f"{kind}.{name}", value) for kind, values in part.items() for name, value in _values(values)]
    return [(one.name, getattr(part, one.name)) for one in fields(part)]


@dataclass(frozen=True)
class Seen:
    """One observation by a thread: a completion, or the end of an instruction."""

    who: str
    at_ps: int
    data: bytes = b""
    marks: tuple[tuple[str, int], ...] = field(default=(), compare=False)
    """The hops before it, and when each of them ended."""


@dataclass(frozen=True)
class Outcome:
    """All that was seen, in order of time, and all memory at the end."""

    seen: list[Seen]
    memory: dict[str, bytes]


Model = Callable[[Workload], Outcome]


def drive(model: Model, workload: Workload) -> list[Seen]:
    """Run a workload on a model: all completions and instructions, in order of time."""
    return model(workload).seen


def difference(workload: Workload, one: Model, other: Model) -> str | None:
    """The first thing that two models do not agree on, readable; None if there is none.

    A model that fails (the assertions of its own) has seen nothing from then on, and says why.
    """
    first, second = _outcome(one, workload), _outcome(other, workload)
    if isinstance(first, str) or isinstance(second, str):
        return first if isinstance(first, str) else str(second)
    names = (_name(one), _name(other))
    by_who = [{seen.who: seen for seen in outcome.seen} for outcome in (first, second)]
    apart = [who for who in {**by_who[0], **by_who[1]} if by_who[0].get(who) != by_who[1].get(who)]
    if apart:
        found = [(who, by_who[0].get(who), by_who[1].get(who)) for who in apart]
        who, here, there = min(found, key=lambda row: min(seen.at_ps for seen in row[1:] if seen is not None))
        return "\n".join([f"{who} ({len(apart)} differ, this one first)", *_difference(names, here, there)])
    for place, data in first.memory.items():
        if data != second.memory[place]:
            return f"{place} differs in the end: {_bytes_apart(data, second.memory[place])}"
    return None


def _outcome(model: Model, workload: Workload) -> Outcome | str:
    try:
        return model(workload)
    except (AssertionError, ValueError) as failure:
        return f"the {_name(model)} model fails: {type(failure).__name__}: {failure}"


def _name(model: Model) -> str:
    return getattr(model, "__name__", str(model))


def _bytes_apart(one: bytes, other: bytes) -> str:
    at = next((at for at, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))
    return f"from byte {at:#x} on {one[at : at + 8].hex()} and {other[at : at + 8].hex()}"


def _difference(names: tuple[str, str], here: Seen | None, there: Seen | None) -> list[str]:
    """The reports of two models on one operation, with the hops before it side by side."""
    if here is None or there is None:
        rows = zip(names, (here, there), strict=True)
        return [f"  {name}: " + ("never" if seen is None else f"at {seen.at_ps} ps") for name, seen in rows]
    lines = []
    if here.at_ps != there.at_ps:
        apart = f"{there.at_ps - here.at_ps:+d} ps"
        lines.append(f"  {names[0]}: at {here.at_ps} ps; {names[1]}: at {there.at_ps} ps ({apart})")
    if here.data != there.data:
        lines.append(f"  {names[0]} and {names[1]} return other bytes: {_bytes_apart(here.data, there.data)}")
    lines.append(f"  {'hop, ended at (ps)':28}{names[0]:>16}{names[1]:>16}")
    theirs = list(there.marks)
    for hop, at_ps in here.marks:
        turn = next((turn for turn, mark in enumerate(theirs) if mark[0] == hop), None)
        other_ps = None if turn is None else theirs.pop(turn)[1]
        apart = "" if other_ps in (at_ps, None) else f"{(other_ps or 0) - at_ps:+d}"
        lines.append(f"  {hop:28}{at_ps:>16}{'-' if other_ps is None else other_ps:>16}  {apart}".rstrip())
    return lines
