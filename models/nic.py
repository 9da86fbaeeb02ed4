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

from ..sim.clock import Clock
from ..sim.stations import Credits, Fifo
from ..sim.trace import NEVER
from . import receive, sendqueue
from .atomics import AtomicUnit
from .execution import ExecutionOrder, Running
from .fabric import Fabric
from .hostmemory import HostMemory
from .inbound import Inbound, Observe
from .opcodes import ATOMICS, KIND, NO_PAYLOAD, NON_POSTED, RECEIVING, SENDS, QpType
from .ordering import Ordering
from .packets import request_bytes
from .pcie import PcieLink
from .platform import Platform
from .protection import Regions
from .remote_flush import flush
from .remote_read import read
from .responses import Responses
from .rules import Placement, Request
from .verbs import CompletionQueue, Opcode, QueuePair, SendFlags, SendWR, Status, WorkCompletion


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
        self.arbiter = arbiter
        self._posted_write_ps = platform.pcie.posted_write_ps
        self._engine = Fifo()
        self._receiver = Fifo()
        self._staging = Credits(platform.nic.staging_bytes)
        self._held: deque[Callable[[], bool]] = deque()
        """Requests that wait for room in staging, in order of arrival; each returns False while it has to wait."""
        self.regions = Regions(host)
        self._atomic_unit = AtomicUnit(self)
        self._switches = platform.switches
        self.flush_issue_ps, self.flush_keeps_lines = platform.cpu.clwb_ps, not platform.cpu.clwb_invalidates
        """A FLUSH writes lines back as a core does."""
        self._qp_numbers = itertools.count(1)
        self.off_ps = NEVER
        """When the adapter lost power."""

    # queue pairs --------------------------------------------------------------------------------------
    def execution_order(self) -> ExecutionOrder:
        """For a new queue pair at its responder."""
        return ExecutionOrder(self._switches)

    def responses(self) -> Responses:
        """For a new queue pair at its responder."""
        return Responses(self.clock)

    def inbound(self, qp: QueuePair) -> Inbound:
        """What will arrive through a new queue pair."""
        name = f"queue pair {qp.number} at {self.name}"
        return Inbound(self._ordering, self.host, name, qp.out_of_order, self._switches)

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
        self.complete(qp.send_cq, self._completion(qp, work, Status.IBV_WC_RETRY_EXC_ERR))
        self.flush(qp)

    # requester: from the doorbell to the wire ---------------------------------------------------------------
    def ring(self, qp: QueuePair, work: SendWR) -> None:
        """The doorbell of a post of one work request has left the core; a broken queue pair flushes it."""
        if qp.error:
            self.clock.call_at(self.clock.now_ps + self.parameters.doorbell_ps, self._flushed, qp, work)
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
        bare = inline or not work.length or work.opcode in NO_PAYLOAD
        if bare or not sendqueue.local_buffer_is_open(self, work):
            self._ready(qp, work)
            return
        at_root_ps = self.pcie.read_request(now_ps, work.length)
        latency_ps = self.host.dma_read_ps(work.local_address, work.length)
        sample_ps = self.host.read_ready_ps(at_root_ps + latency_ps // 2, work.local_address)
        fetched_ps = self.pcie.read_completion(sample_ps + latency_ps - latency_ps // 2, work.length)

        def sample() -> None:
            work.payload, _ = self.host.dma_read(self.clock.now_ps, work.local_address, work.length)

        self.clock.call_at(sample_ps, sample)
        self.clock.call_at(fetched_ps, self._ready, qp, work)

    def _ready(self, qp: QueuePair, work: SendWR) -> None:
        _mark(work, "WQE and payload fetch", self.clock.now_ps)
        work.ready = True
        self.pump(qp)

    def pump(self, qp: QueuePair) -> None:
        """Put on the wire what is ready, in the order of the posts."""
        while qp.send_queue and qp.send_queue[0].ready:
            work = qp.send_queue[0]
            if not sendqueue.may_go(qp, work):
                return
            if not sendqueue.local_buffer_is_open(self, work):
                if not qp.outstanding:  # it fails in its turn
                    qp.outstanding.append(qp.send_queue.popleft())
                    self._answered(qp, work, Status.IBV_WC_LOC_PROT_ERR, None)
                return
            qp.send_queue.popleft()
            sendqueue.goes(qp, work, self.clock.now_ps)
            start_ps = self._engine.serve(self.clock.now_ps, self.parameters.tx_processing_ps)
            self.clock.call_at(start_ps, self._request, qp, work)

    def _request(self, qp: QueuePair, work: SendWR) -> None:
        """The request's packets, one for each MTU, go out."""
        peer = qp.peer if work.destination is None else work.destination
        assert peer is not None
        if qp.gone:
            return
        _mark(work, "requester NIC", self.clock.now_ps)
        remote, headers, mtu = peer.nic, self.parameters.headers, self.parameters.mtu_bytes
        length = 0 if work.opcode in NO_PAYLOAD else work.length
        left_ps = self.clock.now_ps
        for at in range(work.sent_bytes, max(1, length), mtu):
            payload = work.payload[at : at + mtu]
            last = at + mtu >= length
            if work.opcode in NON_POSTED:
                handler = partial(remote.serve, peer, work)
            else:
                handler = partial(remote.take_in, peer, work, at, payload, last)
            n_bytes = request_bytes(headers, qp.qp_type, work, at, last) + len(payload)
            left_ps = self._packet(qp, peer, n_bytes, handler, work)
        if qp.qp_type is not QpType.IBV_QPT_RC:  # nobody answers
            self.clock.call_at(left_ps, self._answered, qp, work, Status.IBV_WC_SUCCESS, None)

    def _packet(
        self,
        qp: QueuePair,
        peer: QueuePair,
        n_bytes: int,
        handler: Callable[[], None],
        work: SendWR,
        answered: QueuePair | None = None,
    ) -> int:
        """One packet of ``qp`` on the wire now; ``handler`` runs when the remote adapter has processed it.

        Returns when its last bit has left. ``answered`` is the queue pair there whose request it answers, if it is a
        response.
        """
        remote, requester = peer.nic, qp if answered is None else answered

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
        return left_ps

    # responder ---------------------------------------------------------------------------------------------
    def take_in(self, qp: QueuePair, work: SendWR, at: int, payload: bytes, last: bool) -> None:
        """A packet of a WRITE or SEND has been processed: stage it, behind those that wait for room."""
        now_ps = self.clock.now_ps
        if qp.order.idle(now_ps):
            self._stage(qp, work, at, payload, last)
        else:
            if last and qp.qp_type is QpType.IBV_QPT_RC:
                qp.responses.expect(work)
            qp.order.arrive(KIND[work.opcode], now_ps, partial(self._stage_in_turn, qp, work, at, payload, last))

    def _stage_in_turn(
        self, qp: QueuePair, work: SendWR, at: int, payload: bytes, last: bool, at_ps: int, running: Running
    ) -> None:
        if at_ps > self.clock.now_ps:
            self.clock.call_at(at_ps, self._stage_in_turn, qp, work, at, payload, last, at_ps, running)
            return
        self._stage(qp, work, at, payload, last)
        qp.order.end(running, self.clock.now_ps)

    def _stage(self, qp: QueuePair, work: SendWR, at: int, payload: bytes, last: bool) -> None:
        if self._held or not self._admit(qp, work, at, payload, last):
            self._held.append(partial(self._admit, qp, work, at, payload, last))
            if last and qp.qp_type is QpType.IBV_QPT_RC:
                qp.responses.expect(work)

    def _admit(self, qp: QueuePair, work: SendWR, at: int, payload: bytes, last: bool) -> bool:
        """Accept a packet (or refuse it) if there is room now, else when there is: then it returns False."""
        if qp.ignores(work):
            qp.responses.forget(work)
            return True
        address = receive.target(self, qp, work, at, len(payload), last)
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
        now_ps, kind = self.clock.now_ps, KIND[work.opcode]
        qp.inbound.behind_executed(kind, now_ps)
        if payload:
            relaxed = work.opcode not in SENDS and self.regions.relaxed(work.rkey)
            before = qp.inbound.lanes(address).earlier() if work.opcode in SENDS else None
            self.post_write(qp, work, kind, qp.inbound.placement(relaxed), payload, address + at, staged=True)
            if before is not None:
                qp.inbound.note_send(address, before)
        if not last or qp.gone:
            return
        if work.opcode in RECEIVING:
            receive.received(self, qp, work)
        else:
            _mark(work, "responder NIC", now_ps)
        if qp.qp_type is QpType.IBV_QPT_RC:
            observe = qp.inbound.acknowledged(address)
            qp.responses.ready(
                work, now_ps + self.parameters.ack_processing_ps, partial(self._acknowledge, qp, work, observe)
            )

    def post_write(
        self,
        qp: QueuePair,
        work: SendWR,
        kind: Request,
        placement: Placement,
        data: bytes,
        address: int | None = None,
        staged: bool = False,
    ) -> None:
        """Posted writes of ``work``'s data go to PCIe now; what was staged gives its room back."""
        now_ps = self.clock.now_ps
        address = work.remote_address if address is None else address
        lanes = qp.inbound.lanes(address)
        writer = f"{work.opcode}, {work.span.label if work.span else f'queue pair {qp.number}'}"
        for at, piece in self.pcie.tlps(address, data):
            start_ps, at_root_ps = self.pcie.write(now_ps, len(piece))
            if staged:
                self._staging.give(at_root_ps, len(piece))
            lanes.write(kind, placement, at, piece, writer, now_ps, start_ps, at_root_ps)

    def serve(self, qp: QueuePair, work: SendWR) -> None:
        """A request that is answered once executed has been processed: it goes behind all posted writes before it."""
        qp.responses.expect(work)
        kind, now_ps = KIND[work.opcode], self.clock.now_ps
        if qp.order.idle(now_ps):
            self._serve_in_turn(qp, work, now_ps, qp.order.begin(kind))
        else:
            qp.order.arrive(kind, now_ps, partial(self._serve_in_turn, qp, work))

    def _serve_in_turn(self, qp: QueuePair, work: SendWR, not_before_ps: int, running: Running) -> None:
        if self._held:
            self._held.append(partial(self._execute, qp, work, not_before_ps, running))
        else:
            self._execute(qp, work, not_before_ps, running)

    def _execute(self, qp: QueuePair, work: SendWR, not_before_ps: int, running: Running) -> bool:
        """Start to execute a request, or refuse it; never waits for room."""
        now_ps = self.clock.now_ps
        if qp.ignores(work):
            qp.responses.forget(work)
            qp.order.end(running, now_ps)
            return True
        status = self.regions.refuses(work)
        if status is not None:
            self.refuse(qp, work, status)
            qp.order.end(running, now_ps)
            return True
        _mark(work, "responder NIC", now_ps)
        if work.opcode is Opcode.IBV_WR_RDMA_READ:
            read(self, qp, work, not_before_ps, running)
        elif work.opcode in ATOMICS:
            self._atomic_unit.execute(qp, work, running)
        elif work.opcode is Opcode.IBV_WR_FLUSH:
            flush(self, qp, work, not_before_ps, running)
        else:
            self._write_atomically(qp, work)
            qp.order.end(running, now_ps)
        return True

    def _write_atomically(self, qp: QueuePair, work: SendWR) -> None:
        """An ATOMIC WRITE: posted behind all that came before it; its answer promises neither place nor persistence."""
        now_ps = self.clock.now_ps
        qp.inbound.behind_executed(Request.ATOMIC_WRITE, now_ps)
        self.post_write(qp, work, Request.ATOMIC_WRITE, Placement.STRICT, work.payload)
        qp.responses.ready(work, now_ps + self.parameters.ack_processing_ps, partial(self.answer, qp, work))

    def refuse(self, qp: QueuePair, work: SendWR, status: Status) -> None:
        """Answer a request with an error; the connection is broken."""
        self.nak(qp, work, status)
        qp.fail()

    def nak(self, qp: QueuePair, work: SendWR, status: Status) -> None:
        """Answer a request with what its requester's completion will say, if it does not try again."""
        ready_ps = self.clock.now_ps + self.parameters.ack_processing_ps
        qp.responses.ready(work, ready_ps, partial(self._acknowledge, qp, work, None, status))

    # responses ---------------------------------------------------------------------------------------------
    def _acknowledge(
        self, qp: QueuePair, work: SendWR, observe: Observe | None, status: Status = Status.IBV_WC_SUCCESS
    ) -> None:
        assert qp.peer is not None
        requester, peer = qp.peer.nic, qp.peer
        if qp.gone:
            requester._lost(peer, work)
            return

        def arrive() -> None:
            if peer.gone or left_ps > qp.gone_ps:
                requester._lost(peer, work)
            else:
                requester._answered(peer, work, status, observe)

        def deliver(tail_ps: int) -> None:
            if work.opcode not in RECEIVING:
                _mark(work, "ACK on the wire", tail_ps)
            done_ps = peer.last_answer_ps = max(tail_ps + requester.parameters.ack_processing_ps, peer.last_answer_ps)
            requester.clock.call_at(done_ps, arrive)

        n_bytes = self.parameters.headers.ack_bytes
        left_ps = self._fabric.send(self.name, requester.name, self.clock.now_ps, n_bytes, deliver)

    def answer(self, qp: QueuePair, work: SendWR, payload: bytes = b"", observe: Observe | None = None) -> None:
        """The response to a request that has been executed leaves, with what it returns, one packet for each MTU."""
        assert qp.peer is not None
        _mark(work, "responder PCIe read", self.clock.now_ps)
        requester, headers, mtu = qp.peer.nic, self.parameters.headers, self.parameters.mtu_bytes
        if qp.gone:
            requester._lost(qp.peer, work)
            return
        for at in range(0, max(1, len(payload)), mtu):
            part = payload[at : at + mtu]
            last = at + mtu >= len(payload)
            edge_bytes = headers.read_response_bytes if at == 0 or last else headers.middle_bytes
            handler = partial(requester._take_response, qp.peer, work, at, part, last, observe)
            self._packet(qp, qp.peer, edge_bytes + len(part), handler, work, answered=qp.peer)

    def _take_response(
        self, qp: QueuePair, work: SendWR, at: int, payload: bytes, last: bool, observe: Observe | None
    ) -> None:
        now_ps = self.clock.now_ps
        for address, data in self.pcie.tlps(work.local_address + at, payload):
            start_ps, at_root_ps = self.pcie.write(now_ps, len(data))
            channel = qp.inbound.lanes(address).in_order
            self.host.dma_write(address, data, channel, f"{work.opcode} response", now_ps, start_ps, at_root_ps)
        if last:
            self._answered(qp, work, Status.IBV_WC_SUCCESS, observe)

    def _answered(self, qp: QueuePair, work: SendWR, status: Status, observe: Observe | None) -> None:
        """A response has completed the oldest outstanding request."""
        if qp.gone or not qp.outstanding:  # flushed in the meantime
            return
        if status is Status.IBV_WC_RNR_RETRY_EXC_ERR and sendqueue.will_repeat(self, qp):
            return
        done = qp.outstanding.popleft()
        assert done is work, "responses of a queue pair come in the order of its requests"
        sendqueue.is_back(qp, work)
        qp.repeats = 0
        qp.error = qp.error or status is not Status.IBV_WC_SUCCESS
        if observe is not None:
            qp.unseen.append(observe)
            qp.untold += 1
        if SendFlags.IBV_SEND_SIGNALED in work.send_flags or qp.error:
            told, qp.untold = qp.untold, 0  # completions come in order: this one tells of unsignalled ones before it
            completion = self._completion(qp, work, status)
            completion.observe = partial(qp.reveal, told) if told else None
            completion.slots += qp.unsignalled
            qp.unsignalled = 0
            self.complete(qp.send_cq, completion, None if work.opcode in RECEIVING else "CQE")
        else:
            qp.unsignalled += 1
        if qp.error:
            self.flush(qp)
        else:
            self.pump(qp)

    # completions -------------------------------------------------------------------------------------------
    def flush(self, qp: QueuePair) -> None:
        """Complete all that was posted to a broken queue pair with IBV_WC_WR_FLUSH_ERR."""
        for work in (*qp.outstanding, *qp.send_queue):
            self._flushed(qp, work)
        for waiting in qp.receive_queue:
            flushed = Status.IBV_WC_WR_FLUSH_ERR
            self.complete(qp.recv_cq, WorkCompletion(waiting.wr_id, flushed, Opcode.IBV_WC_RECV, 0, qp))
        for queue in (qp.outstanding, qp.send_queue, qp.receive_queue):
            queue.clear()

    def _flushed(self, qp: QueuePair, work: SendWR) -> None:
        self.complete(qp.send_cq, self._completion(qp, work, Status.IBV_WC_WR_FLUSH_ERR))

    @staticmethod
    def _completion(qp: QueuePair, work: SendWR, status: Status) -> WorkCompletion:
        return WorkCompletion(work.wr_id, status, work.opcode, work.length, qp, work.span, slots=1)

    def complete(
        self, queue: CompletionQueue, completion: WorkCompletion, hop: str | None = None, not_before_ps: int = 0
    ) -> None:
        """Write a CQE behind everything that went to the host before it; it is polled once it is visible."""
        _, at_root_ps = self.pcie.write(self.clock.now_ps, self.parameters.cqe_bytes)
        visible_ps = max(at_root_ps + self._posted_write_ps, not_before_ps)
        if hop is not None and completion.span is not None:
            completion.span.mark(hop, visible_ps)
        self.clock.call_at(visible_ps, queue.push, completion)


def _mark(work: SendWR, hop: str, at_ps: int) -> None:
    if work.span is not None:
        work.span.mark(hop, at_ps)
