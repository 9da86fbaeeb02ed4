"""What requester and responder of an RDMA adapter share: the port, the slot, and completions on their way to the host.

Completions of sends wait in an inbox of the slot's entrance, sorted by instant and key, that is caught up before the
slot is used for anything later, and when the completion may be visible (a lazy merge, as in ``models.nic.port``).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial
from heapq import heappop, heappush
from typing import Any

import numpy as np

from ...sim.clock import HARDWARE, Clock
from ...sim.trace import NEVER
from ..durability.ordering import Ordering
from ..fabric.fabric import Fabric
from ..host.hostmemory import HostMemory
from ..pcie.rootport import root_link
from ..profiles.platform import Platform
from ..verbs.objects import CompletionQueue, QueuePair, WorkCompletion
from ..verbs.opcodes import NON_POSTED, RECEIVING, Opcode, Status
from ..verbs.ties import COMPLETION
from ..verbs.work import MemoryRegion
from .contexts import Contexts
from .dma import DmaReader
from .ends import ReceiveEnd, SendEnd
from .execution import ExecutionOrder
from .inbound import Inbound
from .message import Message
from .port import Port
from .protection import Regions
from .responses import Responses
from .sram import Sram, SramEntry

_WRITE = Opcode.IBV_WR_RDMA_WRITE
_SUCCESS = Status.IBV_WC_SUCCESS
NOT_VISIBLE = -1
"""``Message.start_ps`` of a completion whose instant is not known yet."""


class Adapter:
    """One adapter with one port; ``name`` is its vertex in the fabric, ``number`` its place among the vertices."""

    def __init__(
        self,
        clock: Clock,
        ordering: Ordering,
        name: str,
        platform: Platform,
        host: HostMemory,
        fabric: Fabric,
        arbiter: Callable[[], np.random.Generator],
    ) -> None:
        self.clock = clock
        self.name = name
        self.number = fabric.number(name)
        self.host = host
        self.parameters = platform.nic
        self.port = self._make_port(clock, fabric, platform)
        self.link_in = fabric.last_link(name)
        """From the last switch."""
        self.pcie = root_link(platform.pcie)
        self.dma = DmaReader(clock, host, self.pcie, arbiter, self.settle)
        self.receivers = [0] * platform.nic.processing_units
        """The units of the receive engine: when each has done all that has come so far."""
        self.regions = Regions(host, platform.nic.write_ordering == "force_relax")
        self.sram = Sram(platform.nic.sram_bytes, partial(host.stream, f"SRAM of {name}"))
        """What it holds of the host's tables."""
        self.contexts = Contexts(self)
        self.doorbells = self.listed = self.wqe_fetches = 0
        """Doorbells; work requests that came behind the first of a posted list; reads of work requests."""
        self.posted: dict[Opcode, int] = {}
        """Work requests by verb, WRITEs left out: they are the rest of them (:meth:`counters`)."""
        self.queue_pairs: list[QueuePair] = []
        self.off_ps = NEVER
        """When the adapter lost power."""
        self._qp_numbers = itertools.count(1)
        self.ordering = ordering
        self._switches = platform.switches
        self._queue: list[Any] = clock._queue
        self._propagation_ps, self._switch_ps, self._last_ps = fabric.lead_ps, fabric.crossing_ps, fabric.last_ps
        """From a port to the last switch, through it, and from it to the other port."""
        self._receive_ps = platform.nic.rx_processing_ps
        self._first_ps = platform.nic.rx_occupancy_ps
        self._ack_ps = platform.nic.ack_generation_ps
        self._acked_ps = platform.nic.ack_processing_ps
        self._posted_write_ps = platform.pcie.visible_ps
        self._cqe_bytes = platform.nic.cqe_bytes
        self._cqe_ps = self.pcie.write_ps(self._cqe_bytes) + self._posted_write_ps
        """From the entrance of the slot to a visible completion, undisturbed."""
        self._doorbell_ps = platform.nic.doorbell_ps
        self._blueflame = platform.nic.blueflame
        self._mtu_bytes = platform.nic.mtu_bytes
        self._gather_bytes = platform.nic.part_bytes
        self._write_bytes = platform.nic.headers.write_bytes
        self._ack_bytes = platform.nic.headers.ack_bytes
        self._cqes: list[tuple[int, int, Message]] = []

    def _make_port(self, clock: Clock, fabric: Fabric, platform: Platform) -> Port:
        return Port(clock, fabric, self.name, platform.nic)

    # queue pairs --------------------------------------------------------------------------------------------
    def next_qp_number(self) -> int:
        """A queue pair number that is free on this adapter."""
        return next(self._qp_numbers)

    def context_bytes(self, max_send_wr: int | None) -> int:
        """What a queue pair takes of the SRAM: its context and its send queue (unbounded: one request)."""
        return self.parameters.qp_context_bytes + (max_send_wr or 1) * self.parameters.wqe_bytes

    def region_bytes(self, region: MemoryRegion) -> int:
        """What a region takes of the SRAM: its protection entry and a translation entry for each page."""
        pages = len(region.pages(region.address, region.length))
        return self.parameters.mpt_bytes + pages * self.parameters.mtt_bytes

    def execution_order(self) -> ExecutionOrder:
        """For a new queue pair at its responder."""
        return ExecutionOrder(self._switches)

    def responses(self) -> Responses:
        """For a new queue pair at its responder."""
        return Responses(self.clock)

    def inbound(self, qp: QueuePair) -> Inbound:
        """What will arrive through a new queue pair."""
        name = f"queue pair {qp.number} at {self.name}"
        return Inbound(self.ordering, self.host, name, qp.out_of_order, self._switches)

    def counters(self) -> dict[str, int]:
        """What has happened at this adapter so far, as its driver's counters would tell.

        Hits count only while not everything fits into the SRAM: before that there is nothing to ask.
        """
        posted = self.doorbells + self.listed
        writes = posted - sum(self.posted.values())
        found = {"doorbells": self.doorbells, "wqe_fetches": self.wqe_fetches, "posted": posted}
        found |= {f"posted {opcode}": number for opcode, number in ((_WRITE, writes), *self.posted.items()) if number}
        for entry in SramEntry:
            found[f"sram_hits {entry}"] = self.sram.hits.get(entry, 0)
            found[f"sram_misses {entry}"] = self.sram.misses.get(entry, 0)
        return found

    # packets ------------------------------------------------------------------------------------------------
    def crossed(self, remote: Adapter, end_ps: int, n_bytes: int) -> int:
        """When the tail of a packet is at ``remote`` whose head is at the switch now and whose tail leaves here at
        ``end_ps``.

        Cut-through: the tail leaves the switch when the output has carried it, and not before it is in. The plain form
        of what requests and acknowledgements of one packet have written out.
        """
        tail_in_ps = end_ps + self._propagation_ps + self._switch_ps
        _, tail_ps = remote.link_in.send(self.clock._now + self._switch_ps, n_bytes)
        return max(tail_ps, tail_in_ps) + self._last_ps

    def received(self, tail_ps: int, end: SendEnd | ReceiveEnd, occupancy_ps: int) -> int:
        """When a packet for ``end`` has been processed whose tail is here at ``tail_ps``, in order of arrival.

        The plain form of what a request of one packet has written out.
        """
        free_ps = self.receivers[end.unit]
        start_ps = tail_ps if tail_ps > free_ps else free_ps
        self.receivers[end.unit] = start_ps + occupancy_ps
        return start_ps + self._receive_ps

    def request_received(self, tail_ps: int, end: ReceiveEnd, message: Message, at: int) -> int:
        """The same of the packet of the request ``message`` whose payload starts at ``at``."""
        nic = self.parameters
        occupancy_ps = nic.rx_read_occupancy_ps if message.opcode in NON_POSTED else nic.rx_occupancy_ps
        return self.received(tail_ps, end, nic.rx_packet_occupancy_ps if at else occupancy_ps)

    def response_received(self, tail_ps: int, end: SendEnd) -> int:
        """The same of a packet of a response to ``end``."""
        return self.received(tail_ps, end, self.parameters.rx_packet_occupancy_ps)

    # completions --------------------------------------------------------------------------------------------
    def settle(self, key: int) -> None:
        """Whoever asks for the slot now, with ``key``, comes behind the completions that were before it."""
        cqes, now_ps = self._cqes, self.clock._now
        while cqes and (cqes[0][0] < now_ps or (cqes[0][0] == now_ps and cqes[0][1] < key)):
            self._write_cqe()

    def _write_cqe(self) -> Message:
        at_ps, _, message = heappop(self._cqes)
        host = self.host
        message.start_ps = visible_ps = self.pcie.write(at_ps, self._cqe_bytes)[1] + self._posted_write_ps
        last_ps = host.last_visible_ps
        host.last_visible_ps = visible_ps if visible_ps > last_ps else last_ps
        return message

    def _visible(self, message: Message) -> None:
        """A completion may be visible: if it is, it goes into its queue."""
        if message.start_ps == NOT_VISIBLE:
            while self._write_cqe() is not message:
                pass
        visible_ps = message.start_ps
        if visible_ps > self.clock._now:
            heappush(self._queue, (visible_ps, HARDWARE, message.key + COMPLETION, self._visible, message))
            return
        span, end, opcode = message.span, message.end, message.opcode
        if end.off_ps != NEVER:
            return
        if span is not None and (opcode is _WRITE or opcode not in RECEIVING):
            span.mark("CQE", visible_ps)
        completion = WorkCompletion(message.work.wr_id, _SUCCESS, opcode, message.length, end.qp, span, message.observe)
        completion.slots = message.slots
        end.qp.send_cq.push(completion)

    def complete(
        self,
        queue: CompletionQueue,
        completion: WorkCompletion,
        key: int,
        hop: str | None = None,
        not_before_ps: int = 0,
    ) -> None:
        """Write a CQE now, behind everything that went to the host before it; it is polled once it is visible."""
        if completion.qp.end.off_ps != NEVER:
            return
        self.settle(key)
        host = self.host
        visible_ps = self.pcie.write(self.clock.now_ps, self._cqe_bytes)[1] + self._posted_write_ps
        host.last_visible_ps = max(visible_ps, host.last_visible_ps)
        visible_ps = max(visible_ps, not_before_ps)
        if hop is not None and completion.span is not None:
            completion.span.mark(hop, visible_ps)
        self.clock.hardware(visible_ps, key, self._push, (queue, completion))

    def _push(self, found: tuple[CompletionQueue, WorkCompletion]) -> None:
        queue, completion = found
        if completion.qp.end.off_ps == NEVER:
            queue.push(completion)
