"""The ordering rules: one table, obeyed by the component models and by the litmus explorer.

Two halves. ``EXECUTION`` says of two requests on one queue pair whether the responder executes the first before the
second. ``RULES`` says which *event* (something that code can observe) forces which earlier updates to which stage.
A move that nothing has forced may lag behind without bound: how long a drain took in one run proves nothing.

Where sources conflict or are silent there is a switch (:class:`Switches`), with the cautious reading as its default.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from ...sim.trace import Stage


class RequestKind(StrEnum):
    """The verbs, as far as ordering distinguishes them. SEND, WRITE and both with an immediate order alike."""

    WRITE = "WRITE"
    SEND = "SEND"
    READ = "READ"
    ATOMIC = "ATOMIC"
    ATOMIC_WRITE = "ATOMIC WRITE"
    FLUSH = "FLUSH"


POSTED = frozenset({RequestKind.WRITE, RequestKind.SEND, RequestKind.ATOMIC})
"""Updates that the responder's adapter writes to memory as posted TLPs (an atomic: its result)."""


class Event(StrEnum):
    """The events that code can observe."""

    READ_COMPLETION = "READ completion"
    RECV_COMPLETION = "receive completion"
    ATOMIC_RESULT = "atomic result"
    ATOMIC_WRITE_PLACED = "ATOMIC WRITE in memory"
    FLUSH_GLOBAL = "FLUSH response (global visibility)"
    FLUSH_PERSISTENT = "FLUSH response (persistence)"
    ACK = "ACK"
    LOAD = "load"
    STATUS_READ = "read of PMRSTS"
    SFENCE = "sfence"
    CLFLUSH = "clflush"
    DOORBELL = "doorbell"
    STAGING_DRAINED = "drain of the adapter's staging"
    ZERO_LENGTH_READ = "zero-length PCIe read"
    LINES_QUEUED = "write-back by the root complex, queued"
    LINES_STORED = "write-back by the root complex, stored"
    BLOCK_WRITE = "completion of an NVMe write"
    BLOCK_FUA = "completion of an NVMe write (FUA)"
    BLOCK_READ = "completion of an NVMe read"
    BLOCK_FLUSH = "completion of an NVMe FLUSH"


class Scope(StrEnum):
    """Which updates an event speaks of."""

    QP_EARLIER = "earlier writes of the same queue pair"
    """To the same destination only: host memory, or one peer device (PCIe orders nothing between destinations)."""
    FLUSH_TARGET = "earlier updates of the same queue pair in the FLUSH's range or region"
    CORE_EARLIER = "earlier stores of the same core"
    """Of those through a write-combining mapping the ones that have certainly left its buffers."""
    CORE_NT_EARLIER = "earlier non-temporal stores of the same core"
    RETURNED = "writes whose bytes it returned"
    FLUSHED = "what the lines certainly held when their flush was issued"
    DEVICE_EARLIER = "what the peer device's buffer certainly held"
    COMMAND = "what the command wrote"
    DRIVE_EARLIER = "what the drive's write cache certainly held when the command was submitted"


@dataclass(frozen=True)
class Switches:
    """Readings of the points that the sources leave open; a platform or a litmus profile may turn each of them."""

    ddio_off_ack_durable: bool = False
    """With DDIO off a WRITE's ACK proves it durable (PMRDirect's claim; refuted by SC'21, section 2.4)."""
    flush_orders_writes: bool = False
    """A WRITE behind a FLUSH is placed after it (rxe does; IBTA A19 as quoted does not promise it)."""
    flush_covers_sends: bool = False
    """FLUSH covers SEND payloads (absent from the list of oA19-1)."""
    reads_in_order: bool = True
    """A READ executes after earlier READs (IBTA; coreRMA lets them overtake)."""
    writes_wait_for_atomics: bool = True
    """A WRITE executes after earlier atomics without a fence (IBTA 1.4, page 291; sources conflict)."""
    relaxed_reads: bool = False
    """Reads carry the relaxed-ordering bit and may pass posted writes (AMD PG344)."""
    reads_push_relaxed: bool = False
    """A READ pushes earlier WRITEs although both carry the relaxed-ordering bit (PCIe table 2-40: of the bits only
    ID-based ordering lets a read pass a posted write; AMD PG344 lets relaxed ones pass)."""
    read_back_publishes: bool = True
    """A READ behind a WRITE makes it visible (PCIe B2a; coreRMA gives no visibility)."""
    iio_wc_survives: bool = False
    """eADR covers the IIO's write cache."""


class Order(StrEnum):
    """Whether the first of two requests on one queue pair is executed before the second."""

    ALWAYS = "#"
    FENCE = "F"
    """Only if the second carries IBV_SEND_FENCE: it is then not sent before the first has completed."""
    NONE = "-"


@dataclass(frozen=True)
class ExecutionRule:
    """One field of the execution table; ``switch`` names the switch that turns it into ALWAYS (or out of it)."""

    order: Order
    source: str
    switch: str | None = None


_HDTX = "IBTA 1.4 table 76, as quoted in HDTX, table 1"
_A19 = "IBTA annex A19, as quoted on linux-rdma, December 2021 to January 2022"
_RXE = "Linux, drivers/infiniband/sw/rxe (rxe_req.c, rxe_resp.c)"
_TALPEY = "Talpey on linux-rdma, January 2022: later writes may overtake an ATOMIC WRITE"
_INFERRED = "inferred: executed one after the other by the unit that answers with READ responses"


def _execution() -> dict[tuple[RequestKind, RequestKind], ExecutionRule]:
    write, read, atomic, aw, flush = (
        RequestKind.WRITE, RequestKind.READ, RequestKind.ATOMIC, RequestKind.ATOMIC_WRITE, RequestKind.FLUSH
    )  # fmt: skip
    always, fence, none = Order.ALWAYS, Order.FENCE, Order.NONE
    table = {
        (write, write): ExecutionRule(always, _HDTX),
        (write, read): ExecutionRule(always, _HDTX),
        (write, atomic): ExecutionRule(always, _HDTX),
        (write, aw): ExecutionRule(always, _A19),
        (write, flush): ExecutionRule(always, _A19),
        (read, write): ExecutionRule(fence, _HDTX),
        (read, read): ExecutionRule(always, _HDTX, "reads_in_order"),
        (read, atomic): ExecutionRule(fence, _HDTX),
        (read, aw): ExecutionRule(fence, _INFERRED),
        (read, flush): ExecutionRule(always, _INFERRED),
        (atomic, write): ExecutionRule(always, "IBTA 1.4, page 291", "writes_wait_for_atomics"),
        (atomic, read): ExecutionRule(always, _HDTX),
        (atomic, atomic): ExecutionRule(fence, _HDTX),
        (atomic, aw): ExecutionRule(fence, _INFERRED),
        (atomic, flush): ExecutionRule(always, _A19),
        (aw, write): ExecutionRule(none, _TALPEY),
        (aw, read): ExecutionRule(always, _INFERRED),
        (aw, atomic): ExecutionRule(always, _INFERRED),
        (aw, aw): ExecutionRule(always, _INFERRED),
        (aw, flush): ExecutionRule(always, _A19),
        (flush, write): ExecutionRule(none, _A19, "flush_orders_writes"),
        (flush, read): ExecutionRule(always, _INFERRED),
        (flush, atomic): ExecutionRule(always, _INFERRED),
        (flush, aw): ExecutionRule(always, _RXE + "; librpma, example 07"),
        (flush, flush): ExecutionRule(always, _INFERRED),
    }
    send = RequestKind.SEND
    for other in (write, read, atomic, aw, flush):
        table[send, other] = table[write, other]
        table[other, send] = table[other, write]
    table[send, send] = table[write, write]
    return table


EXECUTION: Mapping[tuple[RequestKind, RequestKind], ExecutionRule] = _execution()
"""By (first, second): the order in which the responder executes them. It is no promise of placement in memory: that is
the business of ``RULES`` and of the way to memory (in order, relaxed, or out of order)."""


FENCE_WAITS_FOR = frozenset({RequestKind.READ, RequestKind.ATOMIC, RequestKind.ATOMIC_WRITE})
"""A request with IBV_SEND_FENCE is not sent before these, posted earlier on its queue pair, have completed: not for
FLUSH (rxe_req.c, rxe_wqe_is_fenced; IBTA 10.8.3.3)."""


def executed_before(
    first: RequestKind,
    second: RequestKind,
    fenced: bool,
    switches: Switches,
    execution: Mapping[tuple[RequestKind, RequestKind], ExecutionRule] = EXECUTION,
) -> bool:
    """Whether ``second`` of one queue pair executes only after ``first``, which was posted earlier.

    ``execution`` is the table to use: the tests of a table pass one with a field changed.
    """
    pair = execution[first, second]
    if fenced and first in FENCE_WAITS_FOR:
        return True
    if pair.switch is not None:
        return bool(getattr(switches, pair.switch))
    return pair.order is Order.ALWAYS


class Target(StrEnum):
    """The kinds of memory that a request may go to."""

    MEMORY = "host memory"
    PMR = "persistent memory region"
    DRIVE = "drive"


class Placement(StrEnum):
    """How an adapter places the WRITEs of one queue pair in memory."""

    STRICT = "strict"
    RELAXED = "ro"
    """IBV_ACCESS_RELAXED_ORDERING on the region: writes and reads carry PCIe's RO bit."""
    OUT_OF_ORDER = "ooo"
    """Out-of-order data placement (adaptive routing, mlx5 OOO_DP): writes in any order, reads and atomics in order."""


@dataclass(frozen=True)
class Circumstances:
    """The facts that a rule's validity may depend on, at one event."""

    ddio: bool = True
    target: Target = Target.MEMORY
    placement: Placement = Placement.STRICT
    pmrwbm: int = 0
    """PMRCAP.PMRWBM of the device: bit 0, a read of the PMR is a write barrier; bit 1, a read of PMRSTS."""
    switches: Switches = Switches()


@dataclass(frozen=True)
class Rule:
    """After ``event``, the updates in ``scope`` (of the kinds in ``covers``) are at ``stage`` or beyond.

    The other fields limit it to circumstances; ``None`` means any.
    """

    name: str
    event: Event
    scope: Scope
    stage: Stage
    source: str
    only_ddio: bool | None = None
    only_target: Target | None = None
    not_placement: Placement | None = None
    """That of reads which may pass writes; the switch ``reads_push_relaxed`` says that none may."""
    needs_pmrwbm: int = 0
    switches: tuple[str, ...] = ()
    """Switches that must be on; with a leading ``!`` that must be off."""
    covers: frozenset[RequestKind] = POSTED
    shows: bool = True
    """Whether bytes at ``stage`` are visible as well: persistence alone does not imply that (IBTA A19). Such a
    rule is about persistence itself: where the domain begins behind the memory's queue, it reaches further."""

    def holds(self, here: Circumstances) -> bool:
        """Whether it applies in these circumstances."""
        if self.only_ddio is not None and self.only_ddio != here.ddio:
            return False
        if self.only_target is not None and self.only_target is not here.target:
            return False
        if self.not_placement is here.placement and not here.switches.reads_push_relaxed:
            return False
        if self.needs_pmrwbm & here.pmrwbm != self.needs_pmrwbm:
            return False
        return all(bool(getattr(here.switches, name.lstrip("!"))) is not name.startswith("!") for name in self.switches)

    @property
    def where(self) -> str:
        """The circumstances in words; empty if it always holds."""
        ddio = {None: "", True: "DDIO on", False: "DDIO off"}[self.only_ddio]
        target = f"to {self.only_target}" if self.only_target else ""
        placement = f"not placed {self.not_placement} or reads_push_relaxed" if self.not_placement else ""
        barrier = f"PMRWBM {self.needs_pmrwbm}" if self.needs_pmrwbm else ""
        switches = (name.replace("!", "not ") for name in self.switches)
        return ", ".join(filter(None, (ddio, target, placement, barrier, *switches)))


_ALL = POSTED | {RequestKind.ATOMIC_WRITE}
_FLUSHED = frozenset({RequestKind.WRITE, RequestKind.ATOMIC, RequestKind.ATOMIC_WRITE})
_SENDS = frozenset({RequestKind.SEND})

RULES: tuple[Rule, ...] = (
    Rule(
        "read-pushes-writes",
        Event.READ_COMPLETION,
        Scope.QP_EARLIER,
        Stage.VISIBLE,
        "PCIe base specification 3.0, table 2-40: a read may not pass earlier posted writes",
        not_placement=Placement.RELAXED,
        switches=("read_back_publishes", "!relaxed_reads"),
        covers=_ALL,
    ),
    Rule(
        "appliance-read",
        Event.READ_COMPLETION,
        Scope.QP_EARLIER,
        Stage.QUEUED,
        "Intel, rpmemd(1): appliance persistency method, a read behind non-allocating writes",
        only_ddio=False,
        only_target=Target.MEMORY,
        not_placement=Placement.RELAXED,
        switches=("!relaxed_reads",),
        covers=_ALL,
    ),
    Rule(
        "read-returns-visible",
        Event.READ_COMPLETION,
        Scope.RETURNED,
        Stage.VISIBLE,
        "coherence: a DMA read returns what coherent memory shows",
    ),
    Rule(
        "pmr-read-is-barrier",
        Event.READ_COMPLETION,
        Scope.QP_EARLIER,
        Stage.QUEUED,
        "NVMe 1.4, PMRCAP.PMRWBM bit 0: a completed read of the PMR makes earlier writes persistent",
        only_target=Target.PMR,
        not_placement=Placement.RELAXED,
        needs_pmrwbm=1,
        switches=("!relaxed_reads",),
        covers=_ALL,
    ),
    Rule(
        "pmr-read-empties-buffer",
        Event.READ_COMPLETION,
        Scope.DEVICE_EARLIER,
        Stage.QUEUED,
        "NVMe 1.4, PMRCAP.PMRWBM bit 0: a read of any PMR address, whoever wrote before",
        only_target=Target.PMR,
        needs_pmrwbm=1,
    ),
    Rule(
        "load-pushes-mmio",
        Event.LOAD,
        Scope.CORE_EARLIER,
        Stage.VISIBLE,
        "PCIe base specification 3.0, table 2-40: a read may not pass earlier posted writes; mapped write-combining, "
        "those that a fence or an uncached read has sent (Intel SDM, volume 3, section 12.3.1)",
        only_target=Target.PMR,
    ),
    Rule(
        "pmr-load-is-barrier",
        Event.LOAD,
        Scope.DEVICE_EARLIER,
        Stage.QUEUED,
        "NVMe 1.4, PMRCAP.PMRWBM bit 0: a completed read of the PMR makes earlier writes persistent",
        only_target=Target.PMR,
        needs_pmrwbm=1,
    ),
    Rule(
        "status-read-pushes-mmio",
        Event.STATUS_READ,
        Scope.CORE_EARLIER,
        Stage.VISIBLE,
        "PCIe base specification 3.0, table 2-40: a read may not pass earlier posted writes; an uncached one empties "
        "write-combining buffers (Intel SDM, volume 3, section 12.3.1)",
        only_target=Target.PMR,
    ),
    Rule(
        "status-read-is-barrier",
        Event.STATUS_READ,
        Scope.DEVICE_EARLIER,
        Stage.QUEUED,
        "NVMe 1.4, PMRCAP.PMRWBM bit 1: a read of PMRSTS makes earlier writes persistent",
        only_target=Target.PMR,
        needs_pmrwbm=2,
    ),
    Rule(
        "receive-publishes",
        Event.RECV_COMPLETION,
        Scope.QP_EARLIER,
        Stage.VISIBLE,
        "IBTA, o9-20: a receive completion makes earlier writes of its queue pair visible",
        only_target=Target.MEMORY,
    ),
    Rule(
        "atomic-publishes",
        Event.ATOMIC_RESULT,
        Scope.QP_EARLIER,
        Stage.VISIBLE,
        "IBTA, o9-20: an atomic's result makes earlier writes of its queue pair visible",
        covers=_ALL,
    ),
    Rule(
        "atomic-returns-visible",
        Event.ATOMIC_RESULT,
        Scope.RETURNED,
        Stage.VISIBLE,
        "the adapter reads an atomic's operand from coherent memory, behind its own posted writes",
    ),
    Rule(
        "atomic-write-releases",
        Event.ATOMIC_WRITE_PLACED,
        Scope.QP_EARLIER,
        Stage.VISIBLE,
        "IBTA A19.4.2; Talpey on linux-rdma, January 2022: placed after all earlier writes of its queue pair",
        covers=_ALL,
    ),
    Rule(
        "flush-publishes",
        Event.FLUSH_GLOBAL,
        Scope.FLUSH_TARGET,
        Stage.VISIBLE,
        "IBTA A19, oA19-1: answered once preceding updates of the range or region are globally visible",
        covers=_FLUSHED,
        only_target=Target.MEMORY,
    ),
    Rule(
        "flush-persists",
        Event.FLUSH_PERSISTENT,
        Scope.FLUSH_TARGET,
        Stage.QUEUED,
        "IBTA A19, oA19-1: answered once preceding updates of the range or region are persistent",
        covers=_FLUSHED,
        shows=False,
        only_target=Target.MEMORY,
    ),
    Rule(
        "flush-publishes-sends",
        Event.FLUSH_GLOBAL,
        Scope.FLUSH_TARGET,
        Stage.VISIBLE,
        "open: SEND is not in the list of IBTA A19, oA19-1",
        switches=("flush_covers_sends",),
        covers=_SENDS,
        only_target=Target.MEMORY,
    ),
    Rule(
        "flush-persists-sends",
        Event.FLUSH_PERSISTENT,
        Scope.FLUSH_TARGET,
        Stage.QUEUED,
        "open: SEND is not in the list of IBTA A19, oA19-1",
        switches=("flush_covers_sends",),
        covers=_SENDS,
        shows=False,
        only_target=Target.MEMORY,
    ),
    Rule(
        "ack-behind-no-ddio",
        Event.ACK,
        Scope.QP_EARLIER,
        Stage.QUEUED,
        "open: PMRDirect takes it so; Duan et al., SC'21, section 2.4, does not",
        only_ddio=False,
        only_target=Target.MEMORY,
        switches=("ddio_off_ack_durable",),
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
        only_target=Target.MEMORY,
    ),
    Rule(
        "fence-drains-wc",
        Event.SFENCE,
        Scope.CORE_NT_EARLIER,
        Stage.QUEUED,
        "Intel SDM, volume 1, section 10.4.6.2: SFENCE flushes write-combining buffers; the write queue takes them",
        only_target=Target.MEMORY,
    ),
    Rule(
        "fence-completes-flushes",
        Event.SFENCE,
        Scope.FLUSHED,
        Stage.QUEUED,
        "Intel SDM, volume 2: CLWB and CLFLUSHOPT are ordered by SFENCE; Yang et al., FAST'20, section 2.2",
        only_target=Target.MEMORY,
    ),
    Rule(
        "clflush-completes",
        Event.CLFLUSH,
        Scope.FLUSHED,
        Stage.QUEUED,
        "Intel SDM, volume 2: CLFLUSH is ordered with stores; the line is written back before any later store",
        only_target=Target.MEMORY,
    ),
    Rule(
        "doorbell-drains-stores",
        Event.DOORBELL,
        Scope.CORE_EARLIER,
        Stage.VISIBLE,
        "rdma-core, udma_to_device_barrier(): earlier stores are visible before the device is told",
        only_target=Target.MEMORY,
    ),
)
