"""What a crash exploration found, as plain data: written by the explorer, read by the command line and the report."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...protocols.guarantees import Condition, Verdict
from ...scenarios.history import Value


@dataclass(frozen=True)
class LineFate:
    """One line of the minimal counterexample that did not make it: where it may still have been, and why."""

    node: str
    device: str
    address: int
    """Byte address of the line within its device (a multiple of 64)."""
    label: str
    """What lies there, in the scheme's words: ``log+0x4c0``, ``index[17]``."""
    writer: str
    """What wrote it: ``WRITE of operation 3 (put k17 = v3)`` or ``store by server[0]``."""
    place: str
    """The place in which the adversarial view left it: ``nic``, ``llc``, ``store_buffer``, ..."""
    reason: str
    """Why nothing had forced it on, naming the rules that would have."""


@dataclass(frozen=True)
class TimelineRow:
    """One row of a counterexample's timeline: ``side`` is a process (``client 3``) or a node (``server``)."""

    time_ps: int
    side: str
    text: str
    mark: str = ""
    """``LOST`` beside the line whose absence matters, ``CRASH`` for the power failure, ``MATCH`` where a checksum is
    deceived, else empty."""


def marks_of(rows: Sequence[TimelineRow]) -> list[tuple[int, str]]:
    """What a trace marks for all to see: the failure, what was lost, what a checksum missed, what recovery found."""
    return [(row.time_ps, f"{row.mark}: {row.text}" if row.mark else row.text) for row in rows
            if row.mark or row.side == "recovery"]  # fmt: skip


@dataclass(frozen=True)
class Counterexample:
    """A 1-minimal case: without any one operation, or any one lost line, the condition is not violated; or one that
    is not ``shrunk``.
    """

    condition: Condition
    instant_ps: int
    operations: int
    object: Hashable
    lost: tuple[LineFate, ...]
    recovered: Value
    explanation: str
    """One sentence: which rule of the condition broke (``get k17 -> v1, but put k17 = v2 had returned at ...``)."""
    timeline: tuple[TimelineRow, ...]
    case: dict[str, Any] = field(default_factory=dict)
    """All that ``rpsim replay`` needs, JSON-able: resolved scenario, schedule of operations, instant, lost lines."""
    trace: list[dict[str, Any]] = field(default_factory=list, compare=False)
    """The case's run as events for Perfetto, with the failure and what was lost."""
    shrunk: bool = True
    """Whether smaller ones were tried. It shows in so many images that no trial looks at them all, if not."""
    stopped: bool = False
    """Whether not all smaller ones were tried: each takes many runs."""

    @property
    def manner(self) -> Hashable:
        """How it comes about: the places where what is lost may have been, and whether a checksum is deceived."""
        return frozenset(fate.place for fate in self.lost), any(row.mark == "MATCH" for row in self.timeline)


@dataclass
class CrashReport:
    """The verdict vector of one scheme on one platform, with counterexamples; no wall times but ``seconds``."""

    scheme: str
    platform: str
    fault: str
    view: str
    """adversarial or timed, or executed: what a run with the fault in it showed."""
    instants: int
    """Crash instants walked: between two of them neither image nor history changes."""
    states: int
    """Crash states judged: (instant, object, image of what its recovery and read look at)."""
    recoveries_run: int
    verdicts_computed: int
    exhaustive: bool
    over: str
    """What ``exhaustive`` quantifies over, or of how many states the sample was."""
    verdicts: dict[Condition, Verdict]
    violating_states: dict[Condition, int]
    counterexamples: list[Counterexample]
    seconds: float = 0.0
    one_writer: bool = True
    """Whether each object has one process that writes it: some papers claim no more."""
    executed: bool = False
    """Whether each state is a run of its own, with survivors: then a timeline goes on after the fault."""
    waiting: int = 0
    """In how many of these runs a survivor, or who reads at the end, waits for ever: no condition speaks of that."""
    windows_ps: dict[Condition, tuple[int, int]] = field(default_factory=dict)
    """Of faults that come one after the other: how long after the first one the last one came, at least and at most,
    where the condition is violated.
    """
