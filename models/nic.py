"""The RDMA adapter: a reliable connection's requester and responder, from the doorbell to the completion.

The responder acknowledges a WRITE when its last packet is *accepted* into volatile staging, before it has crossed PCIe:
an ACK proves arrival in the responder's adapter and nothing more (IBTA 9.7.5.1.6; Kalia et al., SoCC'20). Staging is
one queue for each queue pair; all of them drain into the one PCIe FIFO in order of acceptance. Every station is asked
at an event of its own instant where flows meet: transmit engine, link, PCIe entrance.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable
from functools import partial

import numpy as np

from ..sim.bytespace import LINE_BYTES, lines
from ..sim.clock import Clock
from ..sim.stations import Credits, Fifo
from ..sim.trace import NEVER, Chunk
from .fabric import Fabric
from .hostmemory import HostMemory
from .ordering import Event, Ordering
from .pcie import PcieLink
from .platform import Platform
from .verbs import Access, MemoryRegion, Opcode, QueuePair, RecvWR, SendFlags, SendWR, Status, WorkCompletion


class Nic:
    """One adapter with one port; ``name`` is its vertex in the fabric."""

    def __init__(
        self,
        clock: Clock,
        ordering: Ordering,
        name: str,
        platform: Platform,
        host: HostMemory,
        fabric: Fabric,
        arbiter: np.random.Generator,
    ) -> None:
        self.clock = clock
        self.name = name
        self.host = host
        self.parameters = platform.nic
        self.pcie = PcieLink(platform.pcie)
        self._ordering = ordering
        self._fabric = fabric
        self._arbiter = arbiter
        self._posted_write_ps = platform.pcie.posted_write_ps
        self._engine = Fifo()
        self._receiver = Fifo()
        self._staging = Credits(platform.nic.staging_bytes)
        self._held: deque[Callable[[], bool]] = deque()
        """Requests that wait for room in staging, in order of arrival; each returns False while it has to wait."""
        self._regions: dict[int, MemoryRegion] = {}
        self._keys = itertools.count(1)
        self._qp_numbers = itertools.count(1)
        self.off_ps = NEVER
        """When the adapter lost power."""

    # registration -------------------------------------------------------------------------------------
    def register(self, address: int, length: int, access: Access) -> MemoryRegion:
        """Register a range; its key is both ``lkey`` and ``rkey``."""
        region = MemoryRegion(address, length, next(self._keys), access)
        self._regions[region.key] = region
        return region

    def next_qp_number(self) -> int:
        """A queue pair number that is free on this adapter."""
        return next(self._qp_numbers)

    # faults -------------------------------------------------------------------------------------------
    def power_off(self) -> None:
        """Power fails now: packets whose last bit has left are out, all else never comes."""
        self.off_ps = min(self.off_ps, self.clock.now_ps)

    def _lost(self, qp: QueuePair, work: SendWR) -> None:
        """A request of ``qp`` or the answer to it went nowhere: retransmissions change nothing, then it gives up."""
        self.clock.call_at(self.clock.now_ps + qp.retries_ps, self._give_up, qp, work)

    def _give_up(self, qp: QueuePair, work: SendWR) -> None:
        if qp.error or qp.gone or not any(waiting is work for waiting in qp.outstanding):
            return
        qp.error = True
        while qp.outstanding[0] is not work:
            self._flushed(qp, qp.outstanding.popleft())
        qp.outstanding.popleft()
        self._complete(qp, work.wr_id, work.opcode, work, None, None, Status.IBV_WC_RETRY_EXC_ERR)
        self.flush(qp)

    def flush(self, qp: QueuePair) -> None:
        """Complete all that was posted to a broken queue pair with IBV_WC_WR_FLUSH_ERR."""
        for work in (*qp.outstanding, *qp.send_queue):
            self._flushed(qp, work)
        for receive in qp.receive_queue:
            empty = SendWR(receive.wr_id, Opcode.IBV_WR_SEND, 0, 0)
            status = Status.IBV_WC_WR_FLUSH_ERR
            self._complete(qp, receive.wr_id, Opcode.IBV_WC_RECV, empty, None, None, status)
        for queue in (qp.outstanding, qp.send_queue, qp.receive_queue):
            queue.clear()

    def _flushed(self, qp: QueuePair, work: SendWR) -> None:
        self._complete(qp, work.wr_id, work.opcode, work, None, None, Status.IBV_WC_WR_FLUSH_ERR)

    # requester: from the doorbell to the wire ---------------------------------------------------------------
    def ring(self, qp: QueuePair, work: SendWR) -> None:
        """The doorbell of a post of one work request has left the core; a broken queue pair flushes it."""
        if qp.error:
            flushed, at_ps = Status.IBV_WC_WR_FLUSH_ERR, self.clock.now_ps + self.parameters.doorbell_ps
            self.clock.call_at(at_ps, self._complete, qp, work.wr_id, work.opcode, work, None, None, flushed)
            return
        qp.send_queue.append(work)
        self.clock.call_at(self.clock.now_ps + self.parameters.doorbell_ps, self._doorbell, qp, work)

    def _doorbell(self, qp: QueuePair, work: SendWR) -> None:
        now_ps = self.clock.now_ps
        _mark(work, "doorbell", now_ps)
        if self.parameters.blueflame:
            self._fetch_payload(qp, work)
        else:
            at_root_ps = self.pcie.read_request(now_ps, self.parameters.wqe_bytes)
            fetched_ps = self.pcie.read_completion(at_root_ps + self.host.wqe_read_ps, self.parameters.wqe_bytes)
            self.clock.call_at(fetched_ps, self._fetch_payload, qp, work)

    def _fetch_payload(self, qp: QueuePair, work: SendWR) -> None:
        now_ps = self.clock.now_ps
        inline = SendFlags.IBV_SEND_INLINE in work.send_flags
        if inline or not work.length or work.opcode is Opcode.IBV_WR_RDMA_READ:
            self._ready(qp, work)
            return
        at_root_ps = self.pcie.read_request(now_ps, work.length)
        latency_ps = self.host.dma_read_ps(work.local_address, work.length)
        sample_ps = self.host.read_ready_ps(at_root_ps + latency_ps // 2)
        fetched_ps = self.pcie.read_completion(sample_ps + latency_ps - latency_ps // 2, work.length)

        def sample() -> None:
            work.payload, _ = self.host.dma_read(self.clock.now_ps, work.local_address, work.length)

        self.clock.call_at(sample_ps, sample)
        self.clock.call_at(fetched_ps, self._ready, qp, work)

    def _ready(self, qp: QueuePair, work: SendWR) -> None:
        _mark(work, "WQE and payload fetch", self.clock.now_ps)
        work.ready = True
        self._pump(qp)

    def _pump(self, qp: QueuePair) -> None:
        """Put on the wire what is ready, in the order of the posts."""
        while qp.send_queue and qp.send_queue[0].ready:
            work = qp.send_queue[0]
            is_read = work.opcode is Opcode.IBV_WR_RDMA_READ
            if is_read and qp.reads_under_way >= self.parameters.outstanding_reads:
                return
            qp.reads_under_way += is_read
            qp.send_queue.popleft()
            qp.outstanding.append(work)
            start_ps = self._engine.serve(self.clock.now_ps, self.parameters.tx_processing_ps)
            self.clock.call_at(start_ps, self._request, qp, work)

    def _request(self, qp: QueuePair, work: SendWR) -> None:
        """The request's packets, one for each MTU, go out."""
        assert qp.peer is not None
        if qp.gone:
            return
        _mark(work, "requester NIC", self.clock.now_ps)
        remote, headers, mtu = qp.peer.nic, self.parameters.headers, self.parameters.mtu_bytes
        if work.opcode is Opcode.IBV_WR_RDMA_READ:
            handler = partial(remote.serve_read, qp.peer, work)
            self._packet(qp, headers.read_request_bytes, handler, work)
            return
        first_bytes = headers.send_bytes if work.opcode is Opcode.IBV_WR_SEND else headers.write_bytes
        for at in range(0, max(1, work.length), mtu):
            payload = work.payload[at : at + mtu]
            last = at + mtu >= work.length
            handler = partial(remote.take_in, qp.peer, work, at, payload, last)
            self._packet(qp, (first_bytes if at == 0 else headers.middle_bytes) + len(payload), handler, work)

    def _packet(
        self,
        qp: QueuePair,
        n_bytes: int,
        handler: Callable[[], None],
        work: SendWR,
        answered: QueuePair | None = None,
    ) -> None:
        """One packet of ``qp`` on the wire now; ``handler`` runs when the remote adapter has processed it.

        ``answered`` is the queue pair there whose request it answers, if it is a response.
        """
        assert qp.peer is not None
        peer, remote, requester = qp.peer, qp.peer.nic, qp if answered is None else answered

        def arrive() -> None:
            if peer.gone or left_ps > qp.gone_ps:
                requester.nic._lost(requester, work)
            else:
                handler()

        def deliver(tail_ps: int) -> None:
            _mark(work, "wire and switch", tail_ps)
            done_ps = remote._receiver.serve(tail_ps, remote.parameters.rx_processing_ps)
            if answered is not None:
                done_ps = answered.last_answer_ps = max(done_ps, answered.last_answer_ps)
            remote.clock.call_at(done_ps, arrive)

        left_ps = self._fabric.send(self.name, remote.name, self.clock.now_ps, n_bytes, deliver)

    # responder ---------------------------------------------------------------------------------------------
    def take_in(self, qp: QueuePair, work: SendWR, at: int, payload: bytes, last: bool) -> None:
        """A packet of a WRITE or SEND has been processed: stage it, behind those that wait for room."""
        if self._held or not self._admit(qp, work, at, payload, last):
            self._held.append(partial(self._admit, qp, work, at, payload, last))

    def _admit(self, qp: QueuePair, work: SendWR, at: int, payload: bytes, last: bool) -> bool:
        """Accept a packet (or refuse it) if there is room now, else when there is: then it returns False."""
        if qp.error or qp.gone:
            return True
        address = self._target(qp, work)
        if address is None:
            return True
        if payload:
            room_ps = self._staging.take(self.clock.now_ps, len(payload))
            assert room_ps is not None, "what was accepted gives its room back at known instants"
            if room_ps > self.clock.now_ps:
                self.clock.call_at(room_ps, self._resume, qp, work, address, at, payload, last)
                return False
        self._accept(qp, work, address, at, payload, last)
        return True

    def _resume(self, qp: QueuePair, work: SendWR, address: int, at: int, payload: bytes, last: bool) -> None:
        """There is room for the first of those that wait; those behind it may follow."""
        self._held.popleft()
        self._accept(qp, work, address, at, payload, last)
        while self._held and self._held[0]():
            self._held.popleft()

    def _accept(self, qp: QueuePair, work: SendWR, address: int, at: int, payload: bytes, last: bool) -> None:
        """A packet has its room in staging: pass it to PCIe, acknowledge the last."""
        now_ps = self.clock.now_ps
        channel = self.channel(qp)
        label = work.span.label if work.span else f"queue pair {qp.number}"
        for tlp_address, data in self.pcie.tlps(address + at, payload):
            start_ps, at_root_ps = self.pcie.write(now_ps, len(data))
            self._staging.give(at_root_ps, len(data))
            self.host.dma_write(tlp_address, data, channel, f"{work.opcode}, {label}", now_ps, start_ps, at_root_ps)
        if not last or qp.gone:
            return
        if work.opcode is Opcode.IBV_WR_SEND:
            count = self._ordering.trace.count(channel)
            observe = partial(self._ordering.happened, Event.RECV_COMPLETION, qp=(channel, count))
            receive = qp.receive_queue.popleft()
            matched_ps = now_ps + self.parameters.recv_processing_ps
            hop, opcode = "responder NIC, DMA and CQE", Opcode.IBV_WC_RECV
            self.clock.call_at(matched_ps, self._complete, qp, receive.wr_id, opcode, work, observe, hop)
        else:
            _mark(work, "responder NIC", now_ps)
        self._respond(qp, now_ps + self.parameters.ack_processing_ps, partial(self._acknowledge, qp, work))

    def serve_read(self, qp: QueuePair, work: SendWR) -> None:
        """A READ request has been processed: its PCIe read goes behind all posted writes of this adapter."""
        if self._held:
            self._held.append(partial(self._fetch, qp, work))
        else:
            self._fetch(qp, work)

    def _fetch(self, qp: QueuePair, work: SendWR) -> bool:
        """Read what a READ asks for, or refuse it; never waits for room."""
        if qp.error or qp.gone or self._target(qp, work) is None:
            return True
        now_ps = self.clock.now_ps
        _mark(work, "responder NIC", now_ps)
        channel = self.channel(qp)
        # A READ of no bytes reads nothing at PCIe, so it pushes nothing.
        behind = (channel, self._ordering.trace.count(channel)) if work.length else None
        latency_ps = self.host.dma_read_ps(work.remote_address, work.length)
        at_root_ps = self.pcie.read_request(now_ps, work.length)
        first_ps = self.host.read_ready_ps(at_root_ps + latency_ps // 2)
        pieces = _by_line(work.remote_address, work.length)
        apart_ps = self.pcie.line_ps
        last_ps = first_ps + max(0, len(pieces) - 1) * apart_ps
        fetched_ps = self.pcie.read_completion(last_ps + latency_ps - latency_ps // 2, work.length)
        observed: list[Chunk] = []

        def sample() -> None:
            # Lines are fetched in any order: what comes back may mix old and new against a concurrent writer.
            content: dict[int, bytes] = {}
            order = self._arbiter.permutation(len(pieces)) if len(pieces) > 1 else range(len(pieces))
            for turn, index in enumerate(order):
                address, length = pieces[index]
                content[address], seen = self.host.dma_read(first_ps + turn * apart_ps, address, length)
                observed.extend(seen)
            work.payload = b"".join(content[address] for address, _ in pieces)

        def answer() -> None:
            observe = partial(
                self._ordering.happened,
                Event.READ_COMPLETION,
                ddio=self.host.ddio,
                qp=behind,
                returned=observed,
            )
            self._read_response(qp, work, observe)

        self.clock.call_at(last_ps, sample)
        self._respond(qp, fetched_ps, answer)
        return True

    def channel(self, qp: QueuePair) -> int:
        """The trace's channel of what arrives here through ``qp``."""
        if qp.channel is None:
            qp.channel = self._ordering.trace.channel(f"queue pair {qp.number} at {self.name}")
        return qp.channel

    def _target(self, qp: QueuePair, work: SendWR) -> int | None:
        """Where a request goes; a request that may not go there is refused and breaks the connection."""
        if work.opcode is Opcode.IBV_WR_SEND:
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
        ready_ps = self.clock.now_ps + self.parameters.ack_processing_ps
        self._respond(qp, ready_ps, partial(self._acknowledge, qp, work, status))

    # responses ---------------------------------------------------------------------------------------------
    def _respond(self, qp: QueuePair, ready_ps: int, send: Callable[[], None]) -> None:
        """Responses of one queue pair leave in the order of its requests."""
        qp.last_response_ps = max(ready_ps, qp.last_response_ps)
        self.clock.call_at(qp.last_response_ps, send)

    def _acknowledge(self, qp: QueuePair, work: SendWR, status: Status = Status.IBV_WC_SUCCESS) -> None:
        assert qp.peer is not None
        requester, peer = qp.peer.nic, qp.peer
        if qp.gone:
            requester._lost(peer, work)
            return

        def arrive() -> None:
            if peer.gone or left_ps > qp.gone_ps:
                requester._lost(peer, work)
            else:
                requester._answered(peer, work, status, None)

        def deliver(tail_ps: int) -> None:
            if work.opcode is not Opcode.IBV_WR_SEND:
                _mark(work, "ACK on the wire", tail_ps)
            done_ps = peer.last_answer_ps = max(tail_ps + requester.parameters.ack_processing_ps, peer.last_answer_ps)
            requester.clock.call_at(done_ps, arrive)

        left_ps = self._fabric.send(
            self.name, requester.name, self.clock.now_ps, self.parameters.headers.ack_bytes, deliver
        )

    def _read_response(self, qp: QueuePair, work: SendWR, observe: Callable[[int], None]) -> None:
        assert qp.peer is not None
        _mark(work, "responder PCIe read", self.clock.now_ps)
        requester, headers, mtu = qp.peer.nic, self.parameters.headers, self.parameters.mtu_bytes
        if qp.gone:
            requester._lost(qp.peer, work)
            return
        for at in range(0, max(1, work.length), mtu):
            payload = work.payload[at : at + mtu]
            last = at + mtu >= work.length
            edge_bytes = headers.read_response_bytes if at == 0 or last else headers.middle_bytes
            handler = partial(requester._take_response, qp.peer, work, at, payload, observe if last else None)
            self._packet(qp, edge_bytes + len(payload), handler, work, answered=qp.peer)

    def _take_response(
        self, qp: QueuePair, work: SendWR, at: int, payload: bytes, observe: Callable[[int], None] | None
    ) -> None:
        now_ps = self.clock.now_ps
        channel = self.channel(qp)
        for address, data in self.pcie.tlps(work.local_address + at, payload):
            start_ps, at_root_ps = self.pcie.write(now_ps, len(data))
            self.host.dma_write(address, data, channel, "READ response", now_ps, start_ps, at_root_ps)
        if observe is not None:
            qp.reads_under_way -= 1
            self._answered(qp, work, Status.IBV_WC_SUCCESS, observe)
            self._pump(qp)

    def _answered(self, qp: QueuePair, work: SendWR, status: Status, observe: Callable[[int], None] | None) -> None:
        """A response has completed the oldest outstanding request."""
        if qp.gone or not qp.outstanding:  # flushed in the meantime
            return
        done = qp.outstanding.popleft()
        assert done is work, "responses of a queue pair come in the order of its requests"
        if status is not Status.IBV_WC_SUCCESS:
            qp.error = True
        if observe is not None:
            qp.unseen.append(observe)
        if SendFlags.IBV_SEND_SIGNALED in work.send_flags or qp.error:
            seen, qp.unseen = qp.unseen, []  # completions come in order: this one tells of unsignalled ones before it
            observe = partial(_observe_all, seen) if seen else None
            hop = None if work.opcode is Opcode.IBV_WR_SEND else "CQE"
            self._complete(qp, work.wr_id, work.opcode, work, observe, hop, status)
        if qp.error:
            self.flush(qp)

    def _complete(
        self,
        qp: QueuePair,
        wr_id: int,
        opcode: Opcode,
        work: SendWR,
        observe: Callable[[int], None] | None,
        hop: str | None,
        status: Status = Status.IBV_WC_SUCCESS,
    ) -> None:
        """Write a CQE behind everything that went to the host before it; it is polled once it is visible."""
        _, at_root_ps = self.pcie.write(self.clock.now_ps, self.parameters.cqe_bytes)
        visible_ps = at_root_ps + self._posted_write_ps
        if hop is not None:
            _mark(work, hop, visible_ps)
        queue = qp.recv_cq if opcode is Opcode.IBV_WC_RECV else qp.send_cq
        completion = WorkCompletion(wr_id, status, opcode, work.length, qp, work.span, observe)
        self.clock.call_at(visible_ps, queue.push, completion)


def _observe_all(observed: list[Callable[[int], None]], at_ps: int) -> None:
    for observe in observed:
        observe(at_ps)


def _mark(work: SendWR, hop: str, at_ps: int) -> None:
    if work.span is not None:
        work.span.mark(hop, at_ps)


def _by_line(address: int, length: int) -> list[tuple[int, int]]:
    """A range cut at line boundaries: (address, length) pieces."""
    pieces = []
    for line in lines(address, length):
        start, end = max(address, line * LINE_BYTES), min(address + length, (line + 1) * LINE_BYTES)
        pieces.append((start, end - start))
    return pieces
