"""The RDMA adapter, put together of its parts; what programs say to it; and what a fault does to it."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial

import numpy as np
import simpy
from typing_extensions import override

from ...sim.clock import Clock
from ...sim.trace import NEVER
from ..durability.ordering import Ordering
from ..fabric.fabric import NO_QUEUE_PAIR, Departure, Fabric
from ..host.hostmemory import HostMemory
from ..profiles.platform import Platform
from ..verbs.files import FileRegion
from ..verbs.objects import QueuePair
from ..verbs.opcodes import NON_POSTED, Access, Opcode
from ..verbs.ties import NEXT_REQUEST, RESPONSE, phase_of
from ..verbs.work import MemoryRegion, SendWR
from .adapter import Adapter
from .answers import Answers
from .duties import Reliability, Wire
from .ends import NO_WAY, PlainWay, ReceiveEnd, SendEnd
from .lossy.crossing import LossyWire
from .lossy.transport import GoBackN
from .message import Message, Packet
from .plainway.way import plain_way
from .reliability import Acknowledgements
from .requester import Requester
from .responder import Responder
from .sram import SramEntry
from .wire import ShortWire, crossed

DISCONNECT_BYTES = 290
"""A DREQ of the connection manager on the wire (IBTA 1.3: a MAD of 256 B, LRH 8, BTH 12, DETH 8, ICRC 4, VCRC 2)."""


class Nic(Adapter):
    """One adapter with one port; ``name`` is its vertex in the fabric."""

    takes_plain_way = True
    """Whether requests take the plain way where they may (``models.nic.plainway``); it changes no instant."""

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
        super().__init__(clock, ordering, name, platform, host, fabric, arbiter)
        if self.arbitration is not None:
            self.takes_plain_way = False
        self._fabric = fabric
        self.requester: Requester = Requester(self, self._way_of)
        self.responder: Responder = Responder(self, platform)
        self.answers = Answers(self)
        self.wire, self.reliability = self.between(platform)
        requester, responder, reliability = self.requester, self.responder, self.reliability
        self.ring, self.ring_list, self.flush = requester.ring, requester.ring_list, requester.flush
        self.originate = requester.originate
        self.take_in, self.serve = responder.take_in, responder.serve
        self.acknowledged, self.take_response = reliability.acknowledged, reliability.take_response
        self.unanswered, self.translate = reliability.unanswered, self._translate

    def between(self, platform: Platform) -> tuple[Wire, Reliability]:
        """What lies between this adapter and others, and what makes it reliable: a part of its generation."""
        if self._fabric.weather is None:
            return ShortWire(self, self._fabric), Acknowledgements(self)
        back = GoBackN(self, platform)
        return LossyWire(self, self._fabric, back), back

    # what programs say (``models.verbs.device``) --------------------------------------------------------------
    def register(self, address: int, length: int, access: Access, page_bytes: int) -> MemoryRegion:
        """``ibv_reg_mr``. Raises ValueError for access that the memory cannot give."""
        region = self.regions.register(address, length, access, page_bytes)
        self.keep_region(region)
        return region

    def register_file(self, ranges: Sequence[tuple[int, int]], access: Access) -> FileRegion:
        """A file's key, with an entry for each of its ranges. Raises ValueError for what is no file."""
        region = self.regions.register_file(ranges, access)
        self.keep_region(region)
        return region

    def change_file(self, region: FileRegion) -> None:
        """The entries of a file that are no more are dropped. Raises ValueError for one that is not registered."""
        before = self.regions.change_file(region)
        self.sram.exist(SramEntry.EXTENT, len(region.extents) - len(before.extents))
        kept = {extent.number for extent in region.extents}
        for extent in before.extents:
            if extent.number not in kept:
                self.sram.drop(SramEntry.EXTENT, (region.key, extent.number))

    def deregister(self, region: MemoryRegion) -> None:
        """``ibv_dereg_mr``. Raises KeyError for a region that is not registered."""
        self.regions.deregister(region)
        self.keep_region(region, -1)
        self.sram.drop_region(region)
        for qp in self.queue_pairs:
            qp.end.receive.routes.pop(region.key, None)
            qp.end.receive.read_routes.pop(region.key, None)

    def open(self, qp: QueuePair) -> SendEnd:
        """``ibv_create_qp``: its two ends; the one that sends knows the other."""
        self.queue_pairs.append(qp)
        self.keep_context(qp.max_send_wr)
        return SendEnd(qp, self)

    def connect(self, qp: QueuePair, peer: QueuePair) -> None:
        """Requests of ``qp`` go to ``peer`` from now on."""
        qp.end.to = peer.end.receive

    def keep_messages(self, qp: QueuePair) -> None:
        """Remember where messages lie that arrive through ``qp``, for a primitive's step that copies them."""
        qp.end.receive.messages = deque()

    def _way_of(self, end: SendEnd) -> PlainWay:
        to, here = end.to, isinstance(self.reliability, Acknowledgements)
        if (
            to is None
            or end.qp.cross_channel
            or to.qp.cross_channel
            or not (end.reliable and here and self.parameters.blueflame and self.takes_plain_way)
        ):
            return NO_WAY
        there = to.nic
        return plain_way(self, end, there, to) if isinstance(there, Nic) and there.takes_plain_way else NO_WAY

    @override
    def counters(self) -> dict[str, int]:
        """What has happened at this adapter so far, as its driver's counters would tell."""
        return super().counters() | self.reliability.counters()

    # requests that arrive -------------------------------------------------------------------------------------
    def _translate(self, packet: Packet) -> None:
        """A packet of a request has been processed by an adapter that may have to read what it needs to know."""
        self.contexts.arrived(packet, self.serve if packet[0].opcode in NON_POSTED else self.take_in)

    def on_their_way(self, departures: Iterable[Departure]) -> dict[tuple[str, int], list[int]]:
        """The packets that have left this adapter's port and that nobody has processed, by where they go and the number
        of the queue pair here: when the last bit of each left, in order.

        ``departures`` are those of the same run as it went on from here: port and engine may not have caught up. An
        acknowledgement counts as processed once it may be there, had it not waited at the last switch.
        """
        found: dict[tuple[str, int], set[int]] = {}
        now_ps, lead_ps = self.clock.now_ps, self.port.propagation_ps
        there_ps = lead_ps + self._fabric.crossing_ps + self._fabric.last_ps
        for when_ps, key, entry in self.clock.pending():
            message, end_ps = (entry[0], entry[-1]) if isinstance(entry, tuple) and entry else (entry, None)
            if not isinstance(message, Message) or phase_of(key) not in (0, RESPONSE):
                continue
            own, peer = (message.to, message.end) if phase_of(key) else (message.end, message.to)
            if own is None or own.nic is not self:
                continue
            if end_ps is None:  # its first packet, if that has left and is not at the switch
                left = message.start_ps >= 0 and when_ps <= message.start_ps + lead_ps
                end_ps = message.end_ps if left else NEVER
            if isinstance(end_ps, int) and end_ps <= now_ps:
                found.setdefault((peer.nic.name, own.number), set()).add(end_ps)
        for packet in departures:
            ours = packet.port == self.name and packet.queue_pair != NO_QUEUE_PAIR
            if ours and packet.end_ps <= now_ps < packet.end_ps + there_ps:
                found.setdefault((packet.to, packet.queue_pair), set()).add(packet.end_ps)
        return {path: sorted(ends) for path, ends in sorted(found.items())}

    def believe(self, other: str) -> None:
        """What the responses that have come from another adapter prove holds from now on, polled or not."""
        for qp in self.queue_pairs:
            end: SendEnd = qp.end
            if end.to is not None and end.to.nic.name == other:
                for proof in end.unseen:
                    proof(self.clock.now_ps)

    def power_off(self, last_ps: Mapping[int, int] | None = None) -> None:
        """The adapter loses its power: a packet whose last bit has not left the port is lost (a message of several
        is cut in the middle), nothing is accepted any more, and no completion appears.

        Packets on their way (:meth:`on_their_way`) arrive. ``last_ps`` has, by number of a queue pair, the instant
        until which its packets must have left to do so: those behind are lost.
        """
        self.off_ps = min(self.off_ps, self.clock.now_ps)
        for attached in self.host.attached:  # answers that have left have their data from before
            attached.device.space.catch_up(self.clock.now_ps)
        self.silence(self.queue_pairs)
        for qp in self.queue_pairs:
            end: SendEnd = qp.end
            end.off_ps = end.receive.off_ps = min(end.off_ps, (last_ps or {}).get(qp.number, NEVER))
            end.receive.acks_ps = min(end.receive.acks_ps, end.off_ps)

    def lose_acknowledgements(self, number: int, last_ps: int) -> None:
        """Those of a queue pair that leave behind an instant never arrive: the adapter is going to lose its power while
        they are on their way, and what the last switch has passed on cannot be stopped any more.
        """
        for qp in self.queue_pairs:
            if qp.number == number:
                receive = qp.end.receive
                receive.acks_ps = min(receive.acks_ps, last_ps)

    def silence(self, gone: Iterable[QueuePair]) -> None:
        """These queue pairs of this adapter cease to be now; what they had accepted is still placed.

        A packet that is on its way out keeps its time on the wire, where it is cut off. An acknowledgement counts as
        having left when its first bit is at the switch.
        """
        now_ps = self.clock.now_ps
        for qp in gone:
            end: SendEnd = qp.end
            if now_ps < end.off_ps:
                end.off_ps = end.receive.off_ps = now_ps
                end.receive.acks_ps = min(end.receive.acks_ps, now_ps)
                qp.broken()
                for waiting in end.receive.responses.waiting:  # a request in execution, which may never come to its end
                    if waiting.send is None:
                        waiting.message.end.nic.unanswered(waiting.message)
                self.keep_context(qp.max_send_wr, -1)
                self.sram.drop(SramEntry.QP, qp.number)
                for message in (*end.send_queue, *end.outstanding):
                    self.sram.drop(SramEntry.WQE, message.wqe)
                for queue in (end.send_queue, end.outstanding, qp.receive_queue):
                    queue.clear()
                self.port.withdraw(end, now_ps)

    def placed(self, qp: QueuePair) -> simpy.Event:
        """An event: all that a queue pair which has been destroyed had accepted is visible."""
        placed = simpy.Event(self.clock)

        def visible() -> None:
            placed.succeed()

        def left() -> None:
            end: ReceiveEnd = qp.end.receive
            last_ps = max(self.host.last_visible_ps, end.inbound.placed_anywhere_ps)
            self.clock.call_at(max(self.clock.now_ps, last_ps), visible)

        if not self.responder.drain.behind(qp.end.receive, left):
            left()
        return placed

    def disconnect(self, qp: QueuePair, tell: Callable[[], None]) -> None:
        """The connection manager tells the peer of ``qp`` that this end is no more; ``tell`` runs when it knows."""
        end: SendEnd = qp.end
        end.key += NEXT_REQUEST
        message = Message(SendWR(0, Opcode.IBV_WR_SEND, 0, 0), end, end.key, b"")
        message.n_bytes, message.more = DISCONNECT_BYTES, None
        self.port.response(self.clock.now_ps, message, partial(self._disconnecting, tell))

    def _disconnecting(self, tell: Callable[[], None], message: Message) -> None:
        """It may be at the switch: if it is, it goes on to the peer's software."""
        if message.start_ps < 0:
            self.port.serve_response(message)
        head_ps = message.start_ps + self.port.propagation_ps
        again = partial(self._disconnecting, tell)
        if head_ps > self.clock.now_ps:
            self.clock.hardware(head_ps, message.key + RESPONSE, again, message)
            return
        peer = message.to
        remote = peer.nic
        tail_ps = crossed(self._fabric, remote, head_ps, message.end_ps, DISCONNECT_BYTES)
        self.clock.call_at(tail_ps + remote.parameters.rx_processing_ps + self.slot.posted_write_ps, tell)
