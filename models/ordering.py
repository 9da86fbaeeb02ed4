"""The ordering rules: one table, obeyed by the component models and read by whoever reasons about them.

A rule says which *event* (something that code can observe) forces which earlier writes to which stage. Whatever no
rule has forced may lag behind without bound: how long a drain took in one run proves nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ..sim.trace import Chunk, Flush, Stage, Trace


class Event(StrEnum):
    """What code observes."""

    READ_COMPLETION = "READ completion"
    RECV_COMPLETION = "receive completion"
    LOAD = "load"
    SFENCE = "sfence"
    CLFLUSH = "clflush"
    DOORBELL = "doorbell"


class Scope(StrEnum):
    """Which writes an event speaks of."""

    QP_EARLIER = "earlier writes of the same queue pair"
    CORE_EARLIER = "earlier stores of the same core"
    CORE_NT_EARLIER = "earlier non-temporal stores of the same core"
    RETURNED = "writes whose bytes it returned"
    FLUSHED = "what the lines certainly held when their flush was issued"


@dataclass(frozen=True)
class Rule:
    """After ``event``, the writes in ``scope`` are at ``stage`` or beyond; ``only_ddio`` limits it to a setting."""

    name: str
    event: Event
    scope: Scope
    stage: Stage
    source: str
    only_ddio: bool | None = None


RULES: tuple[Rule, ...] = (
    Rule(
        "read-pushes-writes",
        Event.READ_COMPLETION,
        Scope.QP_EARLIER,
        Stage.VISIBLE,
        "PCIe base specification 3.0, table 2-40: a read may not pass earlier posted writes",
    ),
    Rule(
        "appliance-read",
        Event.READ_COMPLETION,
        Scope.QP_EARLIER,
        Stage.QUEUED,
        "Intel, rpmemd(1): appliance persistency method, a read behind non-allocating writes",
        only_ddio=False,
    ),
    Rule(
        "read-returns-visible",
        Event.READ_COMPLETION,
        Scope.RETURNED,
        Stage.VISIBLE,
        "coherence: a DMA read returns what coherent memory shows",
    ),
    Rule(
        "receive-publishes",
        Event.RECV_COMPLETION,
        Scope.QP_EARLIER,
        Stage.VISIBLE,
        "IBTA, o9-20: a receive completion makes earlier writes of its queue pair visible",
    ),
    Rule(
        "load-returns-visible",
        Event.LOAD,
        Scope.RETURNED,
        Stage.VISIBLE,
        "coherence: a load returns what coherent memory shows (its own core's store buffer apart)",
    ),
    Rule(
        "fence-drains-stores",
        Event.SFENCE,
        Scope.CORE_EARLIER,
        Stage.VISIBLE,
        "Intel SDM, volume 2: SFENCE makes earlier stores globally visible before any later one",
    ),
    Rule(
        "fence-drains-wc",
        Event.SFENCE,
        Scope.CORE_NT_EARLIER,
        Stage.QUEUED,
        "Intel SDM, volume 1, section 10.4.6.2: SFENCE flushes write-combining buffers; the write queue takes them",
    ),
    Rule(
        "fence-completes-flushes",
        Event.SFENCE,
        Scope.FLUSHED,
        Stage.QUEUED,
        "Intel SDM, volume 2: CLWB and CLFLUSHOPT are ordered by SFENCE; Yang et al., FAST'20, section 2.2",
    ),
    Rule(
        "clflush-completes",
        Event.CLFLUSH,
        Scope.FLUSHED,
        Stage.QUEUED,
        "Intel SDM, volume 2: CLFLUSH is ordered with stores; the line is written back before any later store",
    ),
    Rule(
        "doorbell-drains-stores",
        Event.DOORBELL,
        Scope.CORE_EARLIER,
        Stage.VISIBLE,
        "rdma-core, udma_to_device_barrier(): earlier stores are visible before the device is told",
    ),
)


class Ordering:
    """Applies the table to one system's trace; the component models report events, nothing else."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self._by_event: dict[Event, tuple[Rule, ...]] = {
            event: tuple(rule for rule in RULES if rule.event is event) for event in Event
        }

    def happened(
        self,
        event: Event,
        at_ps: int,
        *,
        ddio: bool | None = None,
        qp: tuple[int, int] | None = None,
        core: tuple[int, int] | None = None,
        core_nt: tuple[int, int] | None = None,
        returned: Iterable[Chunk] = (),
        reader: int | None = None,
        flushes: Sequence[Flush] = (),
    ) -> None:
        """``event`` was observed at ``at_ps``: force what the rules say.

        ``qp``, ``core`` and ``core_nt`` are (channel, number of chunks before the event); ``reader`` is the channel of
        the core that loads; ``ddio`` is the setting at the memory's host.
        """
        earlier = {Scope.QP_EARLIER: qp, Scope.CORE_EARLIER: core, Scope.CORE_NT_EARLIER: core_nt}
        for rule in self._by_event[event]:
            if rule.only_ddio is not None and rule.only_ddio != ddio:
                continue
            if rule.scope is Scope.RETURNED:
                self.trace.force_observed(returned, at_ps, rule.name, reader)
            elif rule.scope is Scope.FLUSHED:
                self.trace.retire(flushes, at_ps)
            else:
                channel = earlier[rule.scope]
                if channel is not None:
                    self.trace.force_channel(*channel, rule.stage, at_ps, rule.name)


def events_that_force(scope: Scope) -> str:
    """The events that would have forced the writes in ``scope``, in words: for explanations."""
    names = list(dict.fromkeys(rule.event.value for rule in RULES if rule.scope is scope))
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " or " + names[-1]
