"""The updates that a primitive's own packet waits for in the abstract machine, step by step: same rules, same order.

Nothing in here knows the guarantees of a primitive. Each step has an event of the ordering rules (docs/primitives.md)
and a subject: the updates that a ``drain`` before it has passed on, or earlier updates where it says so. A step that
the answer does not wait for proves nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ....models.durability.rules import Event, Rule, Scope
from ....models.primitives.language import Step
from ....models.primitives.vocabulary import StepPlace


@dataclass(frozen=True)
class Packet:
    """One packet's steps at the responder's adapter, those of them that its end (or its thread) waits for."""

    steps: tuple[Step, ...]
    after: Mapping[str, tuple[str, ...]]
    silent: bool = False
    """Its requester has its answer already; its effect is that later requests are held up, or that a message is sent.
    """
    holds: frozenset[str] = frozenset()
    notifies: bool = False
    by_thread: bool = False
    """B's thread is woken behind these steps, and lets the answer go."""


def ancestors(steps: Sequence[Step], after: Mapping[str, tuple[str, ...]], last: str) -> list[Step]:
    """The steps that a step waits for, directly or not, in order; without the step itself."""
    found: set[str] = set()
    todo = list(after[last])
    while todo:
        name = todo.pop()
        if name not in found:
            found.add(name)
            todo += after[name]
    return [step for step in steps if step.id in found]


@dataclass
class _Known:
    """The updates before a step, sorted by how far they certainly are when it begins: sets of updates as masks."""

    drained: int = 0
    behind: int = 0
    written: int = 0

    def join(self, other: _Known) -> None:
        """Add the knowledge of another step before it."""
        self.drained |= other.drained
        self.behind |= other.behind
        self.written |= other.written


@dataclass
class Surroundings:
    """The updates that a packet may be about, as masks, and how rules become needs."""

    earlier: int
    """Of its queue pair."""
    same: int
    """Of those, to the same destination."""
    hit: int
    """Of its queue pair, in its range."""
    rules: Callable[[Event], Sequence[Rule]]
    need: Callable[[Sequence[Rule], Mapping[Scope, int]], None]
    """Adds to the needs of the packet."""
    known: dict[str, _Known] = field(default_factory=dict)

    def visit(self, packet: Packet) -> None:
        """Visit every step of the packet in turn."""
        for step in packet.steps:
            mine = self.known[step.id] = _Known()
            for name in packet.after[step.id]:
                if name in self.known:
                    mine.join(self.known[name])
            self._step(step, mine)

    def _step(self, step: Step, mine: _Known) -> None:
        match step.place, step.do:
            case StepPlace.RESPONDER_NIC, "drain":
                mine.drained |= self.earlier
            case StepPlace.PCIE, "read":
                self._pushed(mine, Event.READ_COMPLETION if step["length"] else Event.ZERO_LENGTH_READ)
            case StepPlace.PCIE, "request" if step["behind"] == "drained":
                self._pushed(mine, Event.ZERO_LENGTH_READ if step["promise"] else None)
            case StepPlace.PCIE, "request":
                mine.behind |= self.earlier
                if step["promise"]:
                    self.need(self.rules(Event.FLUSH_GLOBAL), {Scope.FLUSH_TARGET: self._extent(str(step["behind"]))})
            case StepPlace.LLC, _:
                mine.written |= self._extent(str(step["lines"])) & mine.behind
            case StepPlace.MEDIUM, "wait":
                self.need(self.rules(Event.LINES_STORED), {Scope.FLUSH_TARGET: mine.written})
            case StepPlace.IMC, "wait":
                event = Event.FLUSH_PERSISTENT if step["until"] == "persistent" else Event.LINES_QUEUED
                self.need(self.rules(event), {Scope.FLUSH_TARGET: mine.written})

    def _extent(self, lines: str) -> int:
        return self.hit if lines == "range" else self.earlier

    def _pushed(self, mine: _Known, event: Event | None) -> None:
        """Add the needs of a request behind the updates drained before it."""
        if event is not None:
            self.need(self.rules(event), {Scope.QP_EARLIER: mine.drained & self.same})
        if self.rules(Event.ZERO_LENGTH_READ):
            mine.behind |= mine.drained & self.same
