"""The state that the parts of one RDMA adapter share: name, tables, queue pairs, counters, and the parts themselves.

The parts: the *slot* (to the host), the *port* (out of the adapter), the *wire* (from there to the far adapter), the
*reliability* (acknowledgements, or going back), *answers*, and the halves that send requests and take them. All but the
first two are known by their duties (``models.nic.duties``); ``models.nic.nic`` puts an adapter together.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial

import numpy as np

from ...sim.clock import Clock
from ...sim.trace import NEVER
from ..durability.ordering import Ordering
from ..fabric.fabric import Fabric
from ..host.hostmemory import HostMemory
from ..profiles.platform import Platform
from ..verbs.objects import QueuePair
from ..verbs.opcodes import NON_POSTED, Opcode
from ..verbs.work import MemoryRegion
from .arbitration import Arbitration
from .contexts import Contexts
from .duties import Answering, Reliability, Requesting, Responding, Wire
from .ends import ReceiveEnd, SendEnd
from .executing.order import ExecutionOrder
from .inbound import Inbound
from .message import Message, Packet
from .port import Port
from .protection import Regions
from .responses import Responses
from .slot import Slot
from .sram import SramEntry, Tables, translated_by

_WRITE = Opcode.IBV_WR_RDMA_WRITE


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
        self.slot = Slot(clock, name, host, platform, arbiter)
        self.port = Port(clock, fabric, name, platform.nic)
        self.link_in = fabric.last_link(name)
        """The link from the last switch to this adapter."""
        self.receivers = [0] * platform.nic.processing_units
        """By unit of the receive engine: when it has processed all packets so far."""
        self.arbitration: Arbitration | None = None
        """When turns come in either engine, if they do not come as soon as they can."""
        if platform.tails.arbitration:
            stream = partial(host.stream, f"arbitration of {name}")
            self.arbitration = Arbitration(platform.nic.arbitration_ps, stream)
        self.regions = Regions(host, platform.nic.write_ordering == "force_relax")
        self.sram = Tables(platform.nic, lambda which: partial(host.stream, f"SRAM of {name}{which}"))
        """The part of the host's tables that the adapter holds."""
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
        self.switches = platform.switches

    take_in: Callable[[Packet], None]
    serve: Callable[[Packet], None]
    translate: Callable[[Packet], None]
    acknowledged: Callable[[Message, int], None]
    take_response: Callable[[Packet], None]
    unanswered: Callable[[Message], None]
    # Its parts:
    wire: Wire
    reliability: Reliability
    answers: Answering
    requester: Requesting
    responder: Responding

    # queue pairs --------------------------------------------------------------------------------------------
    def next_qp_number(self) -> int:
        """A queue pair number that is free on this adapter."""
        return next(self._qp_numbers)

    def number_on(self, before: Adapter) -> None:
        """Number queue pairs on from those of the adapter that was here ``before``: what is left of them on the way
        keeps its keys to itself.
        """
        self._qp_numbers = before._qp_numbers

    def keep_context(self, max_send_wr: int | None, count: int = 1) -> None:
        """A queue pair's context and its send queue (unbounded: one request) exist; with a ``count`` of -1 no more."""
        self.sram.exist(SramEntry.QP, count)
        self.sram.exist(SramEntry.WQE, count * (max_send_wr or 1))

    def keep_region(self, region: MemoryRegion, count: int = 1) -> None:
        """A region's protection entry and a translation entry for each page exist; with a ``count`` of -1 no more."""
        self.sram.exist(SramEntry.MPT, count)
        self.sram.exist(translated_by(region), count * len(region.pages(region.address, region.length)))

    def execution_order(self) -> ExecutionOrder:
        """A new queue pair's one at its responder."""
        return ExecutionOrder(self.switches)

    def responses(self) -> Responses:
        """A new queue pair's one at its responder."""
        return Responses(self.clock)

    def inbound(self, qp: QueuePair) -> Inbound:
        """The record of the writes that will arrive through a new queue pair."""
        name = f"queue pair {qp.number} at {self.name}"
        pieces = self.parameters.piece_bytes
        return Inbound(self.ordering, self.host, name, qp.out_of_order, self.switches, pieces)

    def counters(self) -> dict[str, int]:
        """Counters of this adapter by name, as its driver would show them.

        Hits count only once not everything fits into the SRAM: before that no entry is looked up.
        """
        posted = self.doorbells + self.listed
        writes = posted - sum(self.posted.values())
        found = {"doorbells": self.doorbells, "wqe_fetches": self.wqe_fetches, "posted": posted}
        found |= {f"posted {opcode}": number for opcode, number in ((_WRITE, writes), *self.posted.items()) if number}
        for entry in SramEntry:
            room = self.sram.rooms[entry]
            if entry is SramEntry.EXTENT and not self.regions.files:
                continue
            found[f"sram_hits {entry}"] = room.hits.get(entry, 0)
            found[f"sram_misses {entry}"] = room.misses.get(entry, 0)
        return found

    # packets ------------------------------------------------------------------------------------------------
    def received(self, tail_ps: int, end: SendEnd | ReceiveEnd, occupancy_ps: int) -> int:
        """When a packet for ``end`` has been processed whose tail is here at ``tail_ps``, in order of arrival."""
        free_ps = self.receivers[end.unit]
        start_ps = tail_ps if tail_ps > free_ps else free_ps
        self.receivers[end.unit] = start_ps + occupancy_ps
        return start_ps + self.parameters.rx_processing_ps

    def request_received(self, tail_ps: int, end: ReceiveEnd, message: Message, at: int) -> int:
        """As :meth:`received`, of the packet of the request ``message`` whose payload starts at ``at``."""
        nic = self.parameters
        occupancy_ps = nic.rx_read_occupancy_ps if message.opcode in NON_POSTED else nic.rx_occupancy_ps
        done_ps = self.received(tail_ps, end, nic.rx_packet_occupancy_ps if at else occupancy_ps)
        return done_ps if self.arbitration is None else self.arbitration.turn_ps(end, done_ps)

    def response_received(self, tail_ps: int, end: SendEnd) -> int:
        """As :meth:`received`, of a packet of a response to ``end``."""
        return self.received(tail_ps, end, self.parameters.rx_packet_occupancy_ps)
