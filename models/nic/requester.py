"""The requester: from the doorbell to the wire, and from the response to the completion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from heapq import heappush

from ...sim.clock import HARDWARE
from ...sim.trace import NEVER
from ..verbs import wqe
from ..verbs.objects import QueuePair
from ..verbs.opcodes import NO_PAYLOAD, NON_POSTED, RECEIVING, Opcode, Status
from ..verbs.work import FENCE, INLINE, REQUEST_SHIFT, SIGNALED, SendWR, WorkCompletion
from . import sendqueue
from .adapter import NOT_VISIBLE, Adapter, mark
from .packets import request_bytes
from .port import COMPLETION, PACKET_SHIFT, RECEIVED, RESPONSE, WITHDRAWN, Packet

_WRITE = Opcode.IBV_WR_RDMA_WRITE
_SUCCESS = Status.IBV_WC_SUCCESS
_INLINE_ONLY = INLINE - FENCE


class Requester(Adapter):
    """The half of an adapter that sends requests and takes responses."""

    # from the doorbell to the engine ------------------------------------------------------------------------
    def ring(self, qp: QueuePair, work: SendWR) -> None:
        """The doorbell of a post of one work request has left the core; a broken queue pair flushes it."""
        at_ps = self.clock._now + self._doorbell_ps
        qp.key = work.key = qp.key + (1 << REQUEST_SHIFT)
        work.qp = qp
        if qp.error:
            self.clock.hardware(at_ps, work.key, self._flushed, work)
            return
        opcode, flags = work.opcode, work.send_flags
        self.doorbells += 1
        if opcode is not _WRITE:
            self.posted[opcode] = self.posted.get(opcode, 0) + 1
        if (
            not qp.send_queue
            and self._blueflame
            and not self.sram.crowded
            and (opcode is _WRITE or opcode not in NON_POSTED)
            and qp.reliable
            and not qp.stalled
            and (flags in _INLINE_ONLY or (flags not in FENCE and not work.length and work.lkey is None))
        ):
            # Nothing to fetch and nothing to wait for: it is at the engine when the doorbell is here.
            if work.span is not None:
                work.span.mark("doorbell", at_ps)
                work.span.mark("WQE and payload fetch", at_ps)
            work.attempt = qp.attempt
            qp.outstanding.append(work)
            if opcode is _WRITE and work.length <= self._mtu_bytes:  # as ``_packets``
                work.more, work.n_bytes = None, self._write_bytes + work.length
            else:
                self._packets(work)
            self.port.request(at_ps, work, self._request)
            return
        qp.send_queue.append(work)
        heappush(self._queue, (at_ps, HARDWARE, work.key, self._doorbell, [work]))

    def originate(self, qp: QueuePair, work: SendWR) -> None:
        """A message that the adapter itself sends, with its payload: no doorbell, and nothing to fetch."""
        if not qp.error:
            qp.key = work.key = qp.key + (1 << REQUEST_SHIFT)
            work.qp, work.ready = qp, True
            qp.send_queue.append(work)
            self.pump(qp)

    def ring_list(self, qp: QueuePair, works: Sequence[SendWR]) -> None:
        """The one doorbell of a posted list has left the core: its work requests are in memory (no BlueFlame)."""
        if len(works) == 1:
            self.ring(qp, works[0])
            return
        at_ps = self.clock._now + self._doorbell_ps
        self.doorbells += 1
        self.listed += len(works) - 1
        for work in works:
            qp.key = work.key = qp.key + (1 << REQUEST_SHIFT)
            work.qp = qp
            if work.opcode is not _WRITE:
                self.posted[work.opcode] = self.posted.get(work.opcode, 0) + 1
            if qp.error:
                self.clock.hardware(at_ps, work.key, self._flushed, work)
        if not qp.error:
            qp.send_queue.extend(works)
            self.clock.hardware(at_ps, works[0].key, self._doorbell, list(works))

    def _doorbell(self, works: list[SendWR]) -> None:
        for work in works:
            if work.span is not None:
                work.span.mark("doorbell", self.clock._now)
        if self.sram.crowded:
            self.contexts.posted(works, partial(self._fetch_wqes, works))
        else:
            self._fetch_wqes(works)

    def _fetch_wqes(self, works: list[SendWR]) -> None:
        """One work request came along in its doorbell, if the adapter has BlueFlame; a list is read from memory."""
        if len(works) == 1 and self._blueflame:
            self._fetch_payload(works[0])
            return
        self.settle(works[0].key)
        self.wqe_fetches += 1

        def fetched(*_: object) -> None:
            for work in works:
                self._fetch_payload(work)

        n_bytes = sum(wqe.size_bytes(self.parameters, work.qp.qp_type, work) for work in works)
        self.dma.read(works[0].key, 0, 0, fetched, n_bytes=n_bytes)

    def _fetch_payload(self, work: SendWR) -> None:
        if work.qp.off_ps != NEVER:
            return
        bare = not work.length or work.send_flags in INLINE or work.opcode in NO_PAYLOAD
        if bare or not sendqueue.local_buffer_is_open(self, work):
            self._ready(work)
            return
        if self.sram.crowded and work.lkey is not None:
            self.contexts.gathered(work, partial(self._read_payload, work))
        else:
            self._read_payload(work)

    def _read_payload(self, work: SendWR) -> None:
        if self._cqes:
            self.settle(work.key)

        parts: list[int] | None = None if work.length <= self._gather_bytes else []

        def fetched(data: bytes, _: object) -> None:
            work.payload = data
            if parts is not None:  # the engine takes them as they come
                processing_ps = self.parameters.tx_processing_ps
                work.parts, work.part_bytes = [at_ps + processing_ps for at_ps in parts], self._gather_bytes
            self._ready(work)

        self.dma.read(work.key, work.local_address, work.length, fetched, part_bytes=self._gather_bytes, parts=parts)

    def _ready(self, work: SendWR) -> None:
        if work.span is not None:
            work.span.mark("WQE and payload fetch", self.clock._now)
        work.ready = True
        self.pump(work.qp)

    def pump(self, qp: QueuePair) -> None:
        """Pass to the engine what is ready, in the order of the posts."""
        queue, now_ps = qp.send_queue, self.clock._now
        while queue and queue[0].ready:
            work = queue[0]
            if not sendqueue.may_go(qp, work):
                return
            if not sendqueue.local_buffer_is_open(self, work):
                qp.closed = bool(qp.outstanding)
                if qp.answered_ps > now_ps:
                    self.clock.call_at(qp.answered_ps, self.pump, qp)
                elif not qp.outstanding:  # it fails in its turn
                    sendqueue.goes(qp, queue.popleft(), now_ps)
                    self._answered(qp, work, Status.IBV_WC_LOC_PROT_ERR, None)
                return
            queue.popleft()
            sendqueue.goes(qp, work, now_ps)
            self._packets(work)
            if qp.reliable:
                self.port.request(now_ps, work, self._request)
            else:
                self.port.watched_request(now_ps, work, self._leave)

    def _packets(self, work: SendWR) -> None:
        """A request's packets, one for each MTU."""
        if work.opcode is _WRITE and work.length <= self._mtu_bytes and not work.sent_bytes:  # as good as always
            work.more, work.n_bytes = None, self._write_bytes + work.length
            return
        headers, mtu, qp_type = self.parameters.headers, self._mtu_bytes, work.qp.qp_type
        length, at = 0 if work.opcode in NO_PAYLOAD else work.length, work.sent_bytes
        last = at + mtu >= length
        work.n_bytes = request_bytes(headers, qp_type, work, at, last) + (length - at if last else mtu)
        work.more = None
        if not last:
            work.more = [
                request_bytes(headers, qp_type, work, start, start + mtu >= length) + min(mtu, length - start)
                for start in range(at + mtu, length, mtu)
            ]

    def _leave(self, work: SendWR) -> None:
        """A request that nobody answers may come to the port: if it does, it is done when its last bit has left."""
        now_ps = self.clock._now
        if work.start_ps == WITHDRAWN:
            return
        head_ps = self.port.serve_request(work, now_ps + self._propagation_ps)
        if work.start_ps < 0:
            self.clock.hardware(head_ps - self._propagation_ps, work.key, self._leave, work)
            return
        left_ps = work.more[-1][1] if work.more else work.end_ps
        self.clock.hardware(left_ps, work.key + COMPLETION, self._left, work)
        self.clock.hardware(head_ps, work.key, self._request, work)

    def _left(self, work: SendWR) -> None:
        self._answered(work.qp, work, _SUCCESS, None)

    # from the engine to the responder -----------------------------------------------------------------------
    def _request(self, work: SendWR) -> None:
        """The request's first packet may be at the switch: if it is, it goes on, and the others follow."""
        now_ps = self.clock._now
        start_ps = work.start_ps
        if start_ps >= 0:
            head_ps = start_ps + self._propagation_ps
        elif start_ps == WITHDRAWN:
            return
        else:
            head_ps = self.port.serve_request(work, now_ps)
        if head_ps > now_ps:
            heappush(self._queue, (head_ps, HARDWARE, work.key, self._request, work))
            return
        qp = work.qp
        if work.more is None:
            # As :meth:`_forward`, written out for the only packet.
            end_ps = work.sent_ps = work.end_ps
            if end_ps > qp.off_ps:
                return
            propagation_ps, switch_ps = self._propagation_ps, self._switch_ps
            tail_in_ps = end_ps + propagation_ps + switch_ps
            to = qp.peer or work.destination
            assert to is not None
            remote = to.nic
            _, tail_ps = remote.link_in.send(now_ps + switch_ps, work.n_bytes)
            tail_ps = (tail_ps if tail_ps > tail_in_ps else tail_in_ps) + self._last_ps
            if work.span is not None:
                work.span.mark("wire and switch", tail_ps)
            opcode, at = work.opcode, work.sent_bytes
            if opcode is _WRITE and not at:  # ``received`` written out
                units, unit, handler = remote.receivers, to.unit, remote.take_in
                free_ps = units[unit]
                start_ps = tail_ps if tail_ps > free_ps else free_ps
                units[unit] = start_ps + remote._first_ps
                done_ps, payload = start_ps + remote._receive_ps, work.payload
            else:
                done_ps = remote.request_received(tail_ps, to, work, at)
                handler = remote.serve if opcode in NON_POSTED else remote.take_in
                payload = work.payload[at:]
            if remote.sram.crowded:
                handler = remote.translate
            heappush(self._queue, (done_ps, HARDWARE, work.key, handler, (work, at, payload, True, end_ps)))
            return
        mtu, base = self._mtu_bytes, work.sent_bytes
        work.sent_ps = work.more[-1][1]
        last = len(work.more)
        for turn, (start_ps, end_ps) in enumerate(work.more, 1):
            at = base + turn * mtu
            packet = (work, at, work.payload[at : at + mtu], turn == last, end_ps)
            self.clock.hardware(start_ps + self._propagation_ps, work.key + (at >> PACKET_SHIFT), self._forward, packet)
        self._forward((work, base, work.payload[base : base + mtu], False, work.end_ps))

    def _forward(self, packet: Packet) -> None:
        """The first bit of one of several packets is at the switch: its way until the responder has processed it."""
        work, at, payload, last, end_ps = packet
        qp, headers = work.qp, self.parameters.headers
        if end_ps > qp.off_ps:  # cut off in the port
            return
        to = qp.peer or work.destination
        assert to is not None
        remote = to.nic
        n_bytes = request_bytes(headers, qp.qp_type, work, at, last) + len(payload)
        tail_ps = self.crossed(remote, end_ps, n_bytes)
        mark(work, "wire and switch", tail_ps)
        done_ps = remote.request_received(tail_ps, to, work, at)
        key = work.key + (at >> PACKET_SHIFT)
        handler = remote.translate if remote.sram.crowded else remote.take_in
        heappush(self._queue, (done_ps, HARDWARE, key, handler, packet))

    # responses ----------------------------------------------------------------------------------------------
    def acknowledged(self, work: SendWR, tail_ps: int) -> None:
        """The last bit of an acknowledgement arrives at ``tail_ps``."""
        qp = work.qp
        if work.span is not None and (work.opcode is _WRITE or work.opcode not in RECEIVING):
            work.span.mark("ACK on the wire", tail_ps)
        done_ps, last_ps = tail_ps + self._acked_ps, qp.last_answer_ps
        done_ps = qp.last_answer_ps = done_ps if done_ps > last_ps else last_ps
        outstanding = qp.outstanding
        if (
            qp.error
            or not outstanding
            or outstanding[0] is not work
            or work.status is not _SUCCESS
            or work.observe is not None
            or qp.closed
            or self.sram.crowded
        ):
            self.clock.hardware(done_ps, work.key + RESPONSE, self._take_ack, work)
            return
        # Nothing can come between: what is left to do is to let the program know, if it wants to.
        outstanding.popleft()
        qp.answered_ps, qp.repeats = done_ps, 0
        if work.send_flags in SIGNALED:
            # A CQE is written at ``done_ps``, behind what was: it waits in the entrance of the slot until then.
            work.start_ps, work.observe = NOT_VISIBLE, _told(qp) if qp.untold else None
            work.slots, qp.unsignalled = qp.unsignalled + 1, 0
            key = work.key + COMPLETION
            heappush(self._cqes, (done_ps, key, work))
            heappush(self._queue, (done_ps + self._cqe_ps, HARDWARE, key, self._visible, work))
        else:
            qp.unsignalled += 1
            clock = self.clock
            clock.quiet_ps = done_ps if done_ps > clock.quiet_ps else clock.quiet_ps

    def _take_ack(self, work: SendWR) -> None:
        if self.sram.crowded:
            go = partial(self._answered, work.qp, work, work.status, work.observe)
            self.contexts.answered(work, 0, 0, True, go)
        else:
            self._answered(work.qp, work, work.status, work.observe)

    def take_response(self, packet: Packet) -> None:
        """A packet of a response with data has been processed: that goes to memory, the last completes the request."""
        if self.sram.crowded:
            self.contexts.answered(
                packet[0], packet[1], len(packet[2]), packet[3], partial(self._take_response, packet)
            )
        else:
            self._take_response(packet)

    def _take_response(self, packet: Packet) -> None:
        work, at, payload, last, end_ps = packet
        now_ps, qp = self.clock.now_ps, work.qp
        if qp.off_ps != NEVER:
            return
        if end_ps > qp.peer.off_ps:  # type: ignore[union-attr]  # cut off in the port
            self.unanswered(work)
            return
        self.settle(work.key + RESPONSE)
        address = work.local_address + at
        tlps = self.pcie.writes(now_ps, address, len(payload))
        if tlps:
            channel = qp.inbound.lanes(address).in_order
            self.host.dma_writes(address, payload, channel, f"{work.opcode} response", now_ps, tlps)
        if last:
            self._answered(qp, work, _SUCCESS, work.observe)

    def _answered(self, qp: QueuePair, work: SendWR, status: Status, observe: Callable[[int], None] | None) -> None:
        """A response has completed the oldest outstanding request."""
        if qp.off_ps != NEVER or not qp.outstanding:  # flushed in the meantime
            return
        if status is Status.IBV_WC_RNR_RETRY_EXC_ERR and sendqueue.will_repeat(self, qp):
            return
        done = qp.outstanding.popleft()
        assert done is work, "responses of a queue pair come in the order of its requests"
        sendqueue.is_back(qp, work)
        qp.repeats = 0
        if status is not _SUCCESS:
            qp.error = True
        if observe is not None:
            qp.unseen.append(observe)
            qp.untold += 1
        if work.send_flags in SIGNALED or qp.error:
            completion = _completion(qp, work, status)
            # Completions come in order: this one tells of unsignalled ones before it.
            completion.observe = _told(qp) if qp.untold else None
            completion.slots += qp.unsignalled
            qp.unsignalled = 0
            hop = None if work.opcode in RECEIVING else "CQE"
            self.complete(qp.send_cq, completion, work.key + COMPLETION, hop)
        else:
            qp.unsignalled += 1
        if qp.error:
            self.flush(qp)
        elif qp.send_queue:
            self.pump(qp)

    # faults -------------------------------------------------------------------------------------------------
    def flush(self, qp: QueuePair) -> None:
        """Complete all that was posted to a broken queue pair with IBV_WC_WR_FLUSH_ERR, behind what was answered."""
        now_ps = self.clock.now_ps
        self.port.withdraw(qp, now_ps)
        if qp.answered_ps > now_ps:
            self.clock.call_at(qp.answered_ps, self.flush, qp)
            return
        for work in (*qp.outstanding, *qp.send_queue):
            self._flushed(work)
        for number, waiting in enumerate(qp.receive_queue):
            flushed = Status.IBV_WC_WR_FLUSH_ERR
            completion = WorkCompletion(waiting.wr_id, flushed, Opcode.IBV_WC_RECV, 0, qp)
            self.complete(qp.recv_cq, completion, qp.key + RECEIVED + 1 + number)
        for queue in (qp.outstanding, qp.send_queue, qp.receive_queue):
            queue.clear()

    def _flushed(self, work: SendWR) -> None:
        qp = work.qp
        completion = _completion(qp, work, Status.IBV_WC_WR_FLUSH_ERR)
        self.complete(qp.send_cq, completion, work.key + COMPLETION)

    def unanswered(self, work: SendWR) -> None:
        """Nobody will ever answer this request: it is repeated in vain until the retries are used up.

        The repetitions themselves are left out: nobody is there who could take them in.
        """
        after_ps = work.qp.gives_up_after_ps
        if after_ps is not None and work.qp.reliable:
            self.clock.call_at(max(self.clock.now_ps, work.sent_ps + after_ps), self._give_up, work)

    def _give_up(self, work: SendWR) -> None:
        qp = work.qp
        if not qp.error and any(work is waiting for waiting in qp.outstanding):
            self._answered(qp, qp.outstanding[0], Status.IBV_WC_RETRY_EXC_ERR, None)


def _completion(qp: QueuePair, work: SendWR, status: Status) -> WorkCompletion:
    return WorkCompletion(work.wr_id, status, work.opcode, work.length, qp, work.span, slots=1)


def _told(qp: QueuePair) -> Callable[[int], None]:
    """What a completion that shows now tells of."""
    told, qp.untold = qp.untold, 0
    return partial(qp.reveal, told)
