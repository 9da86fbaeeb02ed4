"""The responder of a reliable connection: staging, placement, acknowledgements, READ responses.

It acknowledges a WRITE when its last packet is *accepted* into volatile staging, before it has crossed PCIe: an ACK
proves arrival in the responder's adapter and nothing more (IBTA 9.7.5.1.6; Kalia et al., SoCC'20). Staging is one queue
for each queue pair; all of them drain into the one PCIe FIFO in order of acceptance.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from heapq import heappush

import numpy as np

from ..sim.bytespace import LINE_BYTES, lines
from ..sim.clock import HARDWARE, Clock
from ..sim.stations import Credits
from ..sim.trace import NEVER, Chunk
from .adapter import Adapter, mark
from .fabric import Fabric
from .hostmemory import HostMemory
from .ordering import Event, Ordering
from .platform import Platform
from .port import PACKET_SHIFT, RECEIVED, RESPONSE, Packet
from .verbs import Access, MemoryRegion, Opcode, QueuePair, RecvWR, SendWR, Status

_WRITE = Opcode.IBV_WR_RDMA_WRITE
_SEND = Opcode.IBV_WR_SEND
_SUCCESS = Status.IBV_WC_SUCCESS
_NOWHERE = (1, 0)


class Responder(Adapter):
    """The half of an adapter that takes requests; ``arbiter`` decides in which order the lines of a READ are read."""

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
        super().__init__(clock, ordering, name, platform, host, fabric)
        self._arbiter = arbiter
        self._staging = Credits(platform.nic.staging_bytes)
        self._held: deque[tuple[Callable[[Packet], bool], Packet]] = deque()
        """Requests that wait for room in staging, in order of arrival; each returns False while it has to wait."""
        self._mps_bytes = platform.pcie.mps_bytes
        self._ack_bytes = platform.nic.headers.ack_bytes
        self._regions: dict[int, MemoryRegion] = {}
        self._writable: dict[int, tuple[int, int]] = {}
        """Where regions start and end that may be written from afar, by key."""

    # WRITE and SEND -------------------------------------------------------------------------------------------
    def take_in(self, packet: Packet) -> None:
        """A packet of a WRITE or SEND has been processed: stage it, behind those that wait for room.

        For a WRITE of one packet and one TLP all that follows is written out; :meth:`_admit` is the plain form.
        """
        work, at, payload, last, _ = packet
        qp = work.qp.peer
        if last and at == 0 and work.opcode is _WRITE and not self._held and not qp.error:  # type: ignore[union-attr]
            address, length = work.remote_address, len(payload)
            bounds = self._writable.get(work.rkey, _NOWHERE)
            room = self._mps_bytes - address % self._mps_bytes
            if 0 < length <= room and bounds[0] <= address and address + length <= bounds[1]:
                self._take_in_line(packet, qp, work, address, payload)  # type: ignore[arg-type]
                return
        if self._held or not self._admit(packet):
            self._held.append((self._admit, packet))

    def _take_in_line(self, packet: Packet, qp: QueuePair, work: SendWR, address: int, payload: bytes) -> None:
        now_ps = self.clock._now
        length = len(payload)
        room_ps = self._staging.take(now_ps, length)
        if room_ps != now_ps:
            assert room_ps is not None
            self.clock.hardware(room_ps, work.key, self._resume, (packet, address))
            self._held.append((self._admit, packet))
            return
        if self._cqes:
            self.settle(work.key)
        channel = qp.channel if qp.channel is not None else self.channel(qp)
        span = work.span
        start_ps, at_root_ps = self.pcie.write(now_ps, length)
        self._staging.give(at_root_ps, length)
        if span is None:
            writer = qp.writers[_WRITE]
        else:
            writer = f"{work.opcode}, {span.label}"
            span.mark("responder NIC", now_ps)
        self.host.dma_write(address, payload, channel, writer, now_ps, start_ps, at_root_ps)
        ready_ps, last_ps = now_ps + self._ack_ps, qp.last_response_ps
        ready_ps = qp.last_response_ps = ready_ps if ready_ps > last_ps else last_ps
        work.status, work.n_bytes, work.more = _SUCCESS, self._ack_bytes, None
        self.port.response(ready_ps, work, self._ack)

    def _admit(self, packet: Packet) -> bool:
        """Accept a packet (or refuse it) if there is room now, else when there is: then it returns False."""
        work, _, payload, _, _ = packet
        qp = work.qp.peer
        assert qp is not None
        if qp.error:
            if qp.off_ps != NEVER:
                work.qp.nic.unanswered(work)
            return True
        address: int | None = work.remote_address
        bounds = self._writable.get(work.rkey) if work.opcode is _WRITE else None
        if bounds is None or address < bounds[0] or address + work.length > bounds[1]:  # type: ignore[operator]
            address = self._target(qp, work)
            if address is None:
                return True
        if payload:
            now_ps = self.clock.now_ps
            room_ps = self._staging.take(now_ps, len(payload))
            assert room_ps is not None, "what was accepted gives its room back at known instants"
            if room_ps > now_ps:
                self.clock.hardware(room_ps, _key(packet), self._resume, (packet, address))
                return False
        self._accept(packet, qp, address)  # type: ignore[arg-type]
        return True

    def _resume(self, admitted: tuple[Packet, int]) -> None:
        """There is room for the first of those that wait; those behind it may follow."""
        packet, address = admitted
        qp = packet[0].qp.peer
        assert qp is not None
        self._held.popleft()
        if qp.off_ps != NEVER:
            self._staging.give(self.clock.now_ps, len(packet[2]))
            packet[0].qp.nic.unanswered(packet[0])
        else:
            self._accept(packet, qp, address)
        while self._held and self._held[0][0](self._held[0][1]):
            self._held.popleft()

    def _accept(self, packet: Packet, qp: QueuePair, address: int) -> None:
        """A packet has its room in staging: pass it to PCIe, acknowledge the last."""
        work, at, payload, last, _ = packet
        now_ps = self.clock.now_ps
        if self._cqes:
            self.settle(_key(packet))
        channel = qp.channel if qp.channel is not None else self.channel(qp)
        writer = f"{work.opcode}, {work.span.label}" if work.span is not None else qp.writers[work.opcode]
        address += at
        length = len(payload)
        if length and length <= self._mps_bytes - address % self._mps_bytes:
            start_ps, at_root_ps = self.pcie.write(now_ps, length)
            self._staging.give(at_root_ps, length)
            self.host.dma_write(address, payload, channel, writer, now_ps, start_ps, at_root_ps)
        else:
            for tlp_address, data in self.pcie.tlps(address, payload):
                start_ps, at_root_ps = self.pcie.write(now_ps, len(data))
                self._staging.give(at_root_ps, len(data))
                self.host.dma_write(tlp_address, data, channel, writer, now_ps, start_ps, at_root_ps)
        if not last:
            return
        if work.opcode is _SEND:
            self._match(qp, work, channel)
        elif work.span is not None:
            work.span.mark("responder NIC", now_ps)
        self._acknowledge(qp, work, Status.IBV_WC_SUCCESS)

    def _match(self, qp: QueuePair, work: SendWR, channel: int) -> None:
        """A SEND takes the oldest receive request, which completes a little later."""
        count = self._ordering.trace.count(channel)
        observe = partial(self._ordering.happened, Event.RECV_COMPLETION, qp=(channel, count))
        receive = qp.receive_queue.popleft()
        matched_ps = self.clock.now_ps + self.parameters.recv_processing_ps
        hop, opcode = "responder NIC, DMA and CQE", Opcode.IBV_WC_RECV

        def complete(_: SendWR) -> None:
            self._complete(qp, receive.wr_id, opcode, work, observe, hop)

        self.clock.hardware(matched_ps, work.key + RECEIVED, complete, work)

    # READ ---------------------------------------------------------------------------------------------------
    def serve_read(self, packet: Packet) -> None:
        """A READ request has been processed: its PCIe read goes behind all posted writes of this adapter."""
        if self._held:
            self._held.append((self._fetch, packet))
        else:
            self._fetch(packet)

    def _fetch(self, packet: Packet) -> bool:
        """Read what a READ asks for, or refuse it; never waits for room."""
        work = packet[0]
        qp = work.qp.peer
        assert qp is not None
        if qp.error:
            if qp.off_ps != NEVER:
                work.qp.nic.unanswered(work)
            return True
        if self._target(qp, work) is None:
            return True
        now_ps = self.clock.now_ps
        mark(work, "responder NIC", now_ps)
        channel = self.channel(qp)
        # A READ of no bytes reads nothing at PCIe, so it pushes nothing.
        behind = (channel, self._ordering.trace.count(channel)) if work.length else None
        latency_ps = self.host.dma_read_ps(work.remote_address, work.length)
        self.settle(work.key)
        at_root_ps = self.pcie.read_request(now_ps, work.length)
        first_ps = self.host.read_ready_ps(at_root_ps + latency_ps // 2)
        pieces = _by_line(work.remote_address, work.length)
        apart_ps = self.pcie.line_ps
        last_ps = first_ps + max(0, len(pieces) - 1) * apart_ps
        fetched_ps = self.pcie.read_completion(last_ps + latency_ps - latency_ps // 2, work.length)
        observed: list[Chunk] = []

        def sample(_: SendWR) -> None:
            # Lines are fetched in any order: what comes back may mix old and new against a concurrent writer.
            content: dict[int, bytes] = {}
            order = self._arbiter().permutation(len(pieces)) if len(pieces) > 1 else range(len(pieces))
            for turn, index in enumerate(order):
                address, length = pieces[index]
                content[address], seen = self.host.dma_read(first_ps + turn * apart_ps, address, length)
                observed.extend(seen)
            work.payload = b"".join(content[address] for address, _ in pieces)

        work.observe = partial(
            self._ordering.happened, Event.READ_COMPLETION, ddio=self.host.ddio, qp=behind, returned=observed
        )
        self.clock.hardware(last_ps, work.key, sample, work)
        self.clock.hardware(self._in_order(qp, fetched_ps), work.key + RESPONSE, self._respond, work)
        return True

    def _respond(self, work: SendWR) -> None:
        """The answer to a READ is complete: its packets, one for each MTU, are ready for the port."""
        now_ps, headers, mtu, length = (
            self.clock.now_ps,
            self.parameters.headers,
            self.parameters.mtu_bytes,
            work.length,
        )
        mark(work, "responder PCIe read", now_ps)
        work.n_bytes, work.more = headers.read_response_bytes + min(length, mtu), None
        if length > mtu:
            starts = range(mtu, length, mtu)
            work.more = [headers.middle_bytes + mtu for _ in starts[:-1]]
            work.more.append(headers.read_response_bytes + length - starts[-1])
        self.port.response(now_ps, work, self._read_response)

    # answers ------------------------------------------------------------------------------------------------
    def _target(self, qp: QueuePair, work: SendWR) -> int | None:
        """Where a request goes; a request that may not go there is refused and breaks the connection."""
        if work.opcode is _SEND:
            if not qp.receive_queue:
                self._refuse(qp, work, Status.IBV_WC_RNR_RETRY_EXC_ERR)
                return None
            receive: RecvWR = qp.receive_queue[0]
            return receive.local_address
        needed = (
            Access.IBV_ACCESS_REMOTE_READ if work.opcode is Opcode.IBV_WR_RDMA_READ else Access.IBV_ACCESS_REMOTE_WRITE
        )
        region = self._regions.get(work.rkey)
        if region is None or needed not in region.access or not region.covers(work.remote_address, work.length):
            self._refuse(qp, work, Status.IBV_WC_REM_ACCESS_ERR)
            return None
        return work.remote_address

    def _refuse(self, qp: QueuePair, work: SendWR, status: Status) -> None:
        qp.error = True
        self._acknowledge(qp, work, status)

    @staticmethod
    def _in_order(qp: QueuePair, ready_ps: int) -> int:
        """Responses of one queue pair leave in the order of its requests."""
        qp.last_response_ps = max(ready_ps, qp.last_response_ps)
        return qp.last_response_ps

    def _acknowledge(self, qp: QueuePair, work: SendWR, status: Status) -> None:
        """An answer of one packet to ``work`` will be ready for the port."""
        work.status, work.n_bytes, work.more = status, self._ack_bytes, None
        self.port.response(self._in_order(qp, self.clock.now_ps + self._ack_ps), work, self._ack)

    def _ack(self, work: SendWR) -> None:
        """An acknowledgement may be at the switch: if it is, it goes on to the requester."""
        if work.start_ps < 0:
            self.port.serve_response(work)
        head_ps = work.start_ps + self._propagation_ps
        if head_ps > self.clock._now:
            heappush(self._queue, (head_ps, HARDWARE, work.key + RESPONSE, self._ack, work))
            return
        qp = work.qp.peer
        assert qp is not None and qp.last_link is not None
        end_ps = work.end_ps
        if end_ps > qp.off_ps:  # cut off in the port
            work.qp.nic.unanswered(work)
            return
        tail_in_ps = end_ps + self._propagation_ps + self._switch_ps
        _, tail_ps = qp.last_link.send(head_ps + self._switch_ps, self._ack_bytes)
        work.qp.nic.acknowledged(work, (tail_ps if tail_ps > tail_in_ps else tail_in_ps) + self._propagation_ps)

    def _read_response(self, work: SendWR) -> None:
        """The first packet of a READ response may be at the switch: if it is, it goes on, and the others follow."""
        if work.start_ps < 0:
            self.port.serve_response(work)
        head_ps = work.start_ps + self._propagation_ps
        key = work.key + RESPONSE
        if head_ps > self.clock.now_ps:
            self.clock.hardware(head_ps, key, self._read_response, work)
            return
        mtu, more = self.parameters.mtu_bytes, work.more or []
        for turn, (start_ps, end_ps) in enumerate(more, 1):
            packet = (work, turn * mtu, work.payload[turn * mtu : (turn + 1) * mtu], turn == len(more), end_ps)
            self.clock.hardware(
                start_ps + self._propagation_ps, key + (packet[1] >> PACKET_SHIFT), self._return, packet
            )
        self._return((work, 0, work.payload[:mtu], not more, work.end_ps))

    def _return(self, packet: Packet) -> None:
        """The first bit of a packet of a READ response is at the switch: its way until it has been processed."""
        work, at, payload, last, end_ps = packet
        qp, headers = work.qp.peer, self.parameters.headers
        assert qp is not None and qp.last_link is not None
        if end_ps > qp.off_ps:  # cut off in the port
            work.qp.nic.unanswered(work)
            return
        edge_bytes = headers.read_response_bytes if at == 0 or last else headers.middle_bytes
        tail_in_ps = end_ps + self._propagation_ps + self._switch_ps
        _, tail_ps = qp.last_link.send(self.clock.now_ps + self._switch_ps, edge_bytes + len(payload))
        tail_ps = max(tail_ps, tail_in_ps) + self._propagation_ps
        mark(work, "wire and switch", tail_ps)
        requester = work.qp.nic
        done_ps = requester.receiver.serve(tail_ps, requester._receive_ps)
        done_ps = work.qp.last_answer_ps = max(done_ps, work.qp.last_answer_ps)
        key = work.key + RESPONSE + (at >> PACKET_SHIFT)
        self.clock.hardware(done_ps, key, requester.take_response, packet)


def _key(packet: Packet) -> int:
    """A request packet's place in ties."""
    return packet[0].key + (packet[1] >> PACKET_SHIFT)


def _by_line(address: int, length: int) -> list[tuple[int, int]]:
    """A range cut at line boundaries: (address, length) pieces."""
    pieces = []
    for line in lines(address, length):
        start, end = max(address, line * LINE_BYTES), min(address + length, (line + 1) * LINE_BYTES)
        pieces.append((start, end - start))
    return pieces
