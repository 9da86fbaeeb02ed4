"""The requester of a reliable connection: from the doorbell to the wire, and from the response to the completion."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from heapq import heappush

from ..sim.clock import HARDWARE
from ..sim.trace import NEVER
from .adapter import Adapter, mark
from .port import PACKET_SHIFT, RESPONSE, Packet
from .verbs import INLINE, REQUEST_SHIFT, SIGNALED, Opcode, QueuePair, SendWR, Status

_READ = Opcode.IBV_WR_RDMA_READ
_SEND = Opcode.IBV_WR_SEND
_WRITE = Opcode.IBV_WR_RDMA_WRITE
_SUCCESS = Status.IBV_WC_SUCCESS


class Requester(Adapter):
    """The half of an adapter that sends requests and takes responses."""

    # from the doorbell to the engine ------------------------------------------------------------------------
    def ring(self, qp: QueuePair, work: SendWR) -> None:
        """The doorbell of a post of one work request has left the core; a broken queue pair flushes it."""
        at_ps = self.clock._now + self._doorbell_ps
        qp.key = work.key = qp.key + (1 << REQUEST_SHIFT)
        work.qp = qp
        if qp.error:
            flushed = Status.IBV_WC_WR_FLUSH_ERR
            finish = partial(self._complete, qp, work.wr_id, work.opcode, work, None, None, flushed)
            self.clock.call_at(at_ps, finish)
            return
        if (
            not qp.send_queue
            and self._blueflame
            and work.opcode is not _READ
            and (not work.length or int.__and__(work.send_flags, INLINE))
        ):
            # Nothing to fetch and nothing to wait for: it is at the engine when the doorbell is here.
            if work.span is not None:
                work.span.mark("doorbell", at_ps)
                work.span.mark("WQE and payload fetch", at_ps)
            if work.opcode is _WRITE and work.length <= self._mtu_bytes:  # as ``_send``
                qp.outstanding.append(work)
                work.more, work.n_bytes = None, self._write_bytes + work.length
                self.port.request(at_ps, work, self._request)
            else:
                self._send(qp, work, at_ps)
            return
        qp.send_queue.append(work)
        self.clock.hardware(at_ps, work.key, self._doorbell, work)

    def _doorbell(self, work: SendWR) -> None:
        now_ps = self.clock.now_ps
        mark(work, "doorbell", now_ps)
        if self.parameters.blueflame:
            self._fetch_payload(work)
        else:
            self.settle(work.key)
            at_root_ps = self.pcie.read_request(now_ps, self.parameters.wqe_bytes)
            fetched_ps = self.pcie.read_completion(at_root_ps + self.host.wqe_read_ps, self.parameters.wqe_bytes)
            self.clock.hardware(fetched_ps, work.key, self._fetch_payload, work)

    def _fetch_payload(self, work: SendWR) -> None:
        now_ps = self.clock.now_ps
        if not work.length or work.opcode is _READ or int.__and__(work.send_flags, INLINE):
            self._ready(work)
            return
        if self._cqes:
            self.settle(work.key)
        at_root_ps = self.pcie.read_request(now_ps, work.length)
        latency_ps = self.host.dma_read_ps(work.local_address, work.length)
        sample_ps = self.host.read_ready_ps(at_root_ps + latency_ps // 2)
        fetched_ps = self.pcie.read_completion(sample_ps + latency_ps - latency_ps // 2, work.length)
        self.clock.hardware(sample_ps, work.key, self._sample, work)
        self.clock.hardware(fetched_ps, work.key, self._ready, work)

    def _sample(self, work: SendWR) -> None:
        """The DMA read of the payload is served."""
        work.payload, _ = self.host.dma_read(self.clock.now_ps, work.local_address, work.length)

    def _ready(self, work: SendWR) -> None:
        mark(work, "WQE and payload fetch", self.clock.now_ps)
        work.ready = True
        self._pump(work.qp)

    def _pump(self, qp: QueuePair) -> None:
        """Pass to the engine what is ready, in the order of the posts."""
        while qp.send_queue and qp.send_queue[0].ready:
            work = qp.send_queue[0]
            is_read = work.opcode is _READ
            if is_read and qp.reads_under_way >= self.parameters.outstanding_reads:
                return
            qp.reads_under_way += is_read
            qp.send_queue.popleft()
            self._send(qp, work, self.clock.now_ps)

    def _send(self, qp: QueuePair, work: SendWR, at_ps: int) -> None:
        """A request comes to the engine at ``at_ps``: as packets, one for each MTU."""
        headers, mtu, length = self.parameters.headers, self.parameters.mtu_bytes, work.length
        qp.outstanding.append(work)
        work.more = None
        if work.opcode is _READ:
            work.n_bytes = headers.read_request_bytes
        else:
            first_bytes = headers.send_bytes if work.opcode is _SEND else headers.write_bytes
            if length <= mtu:
                work.n_bytes = first_bytes + length
            else:
                work.n_bytes = first_bytes + mtu
                work.more = [headers.middle_bytes + min(mtu, length - at) for at in range(mtu, length, mtu)]
        self.port.request(at_ps, work, self._request)

    # from the engine to the responder -----------------------------------------------------------------------
    def _request(self, work: SendWR) -> None:
        """The request's first packet may be at the switch: if it is, it goes on, and the others follow."""
        now_ps = self.clock._now
        start_ps = work.start_ps
        head_ps = start_ps + self._propagation_ps if start_ps >= 0 else self.port.serve_request(work, now_ps)
        if head_ps > now_ps:
            heappush(self._queue, (head_ps, HARDWARE, work.key, self._request, work))
            return
        if work.more is None:
            # As :meth:`_forward`, written out for the only packet.
            end_ps = work.sent_ps = work.end_ps
            qp = work.qp
            if end_ps > qp.off_ps:
                return
            propagation_ps, switch_ps = self._propagation_ps, self._switch_ps
            tail_in_ps = end_ps + propagation_ps + switch_ps
            _, tail_ps = qp.last_link.send(now_ps + switch_ps, work.n_bytes)  # type: ignore[union-attr]
            tail_ps = (tail_ps if tail_ps > tail_in_ps else tail_in_ps) + propagation_ps
            if work.span is not None:
                work.span.mark("wire and switch", tail_ps)
            remote = qp.peer.nic  # type: ignore[union-attr]
            receiver = remote.receiver  # ``Fifo.serve`` written out; what a link brings is in order
            free_ps = receiver.free_ps
            done_ps = receiver.free_ps = (tail_ps if tail_ps > free_ps else free_ps) + remote._receive_ps
            receiver.busy_ps += remote._receive_ps
            receiver.served += 1
            if work.opcode is _READ:
                packet, handler = (work, 0, b"", True, end_ps), remote.serve_read
            else:
                packet, handler = (work, 0, work.payload, True, end_ps), remote.take_in
            heappush(self._queue, (done_ps, HARDWARE, work.key, handler, packet))
            return
        mtu = self.parameters.mtu_bytes
        work.sent_ps = work.more[-1][1]
        last = len(work.more)
        for turn, (start_ps, end_ps) in enumerate(work.more, 1):
            at = turn * mtu
            packet = (work, at, work.payload[at : at + mtu], turn == last, end_ps)
            self.clock.hardware(start_ps + self._propagation_ps, work.key + (at >> PACKET_SHIFT), self._forward, packet)
        self._forward((work, 0, work.payload[:mtu], False, work.end_ps))

    def _forward(self, packet: Packet) -> None:
        """The first bit of one of several packets is at the switch: its way until the responder has processed it."""
        work, at, payload, _, end_ps = packet
        qp, headers = work.qp, self.parameters.headers
        if end_ps > qp.off_ps:  # cut off in the port
            return
        link = qp.last_link
        peer = qp.peer
        assert link is not None and peer is not None
        n_bytes = work.n_bytes if at == 0 else headers.middle_bytes + len(payload)
        # Cut-through: the tail leaves the switch when the output has carried it, and not before it is in.
        tail_in_ps = end_ps + self._propagation_ps + self._switch_ps
        _, tail_ps = link.send(self.clock._now + self._switch_ps, n_bytes)
        tail_ps = (tail_ps if tail_ps > tail_in_ps else tail_in_ps) + self._propagation_ps
        if work.span is not None:
            work.span.mark("wire and switch", tail_ps)
        remote = peer.nic
        done_ps = remote.receiver.serve(tail_ps, remote._receive_ps)
        key = work.key + (at >> PACKET_SHIFT)
        heappush(self._queue, (done_ps, HARDWARE, key, remote.take_in, packet))

    # responses ----------------------------------------------------------------------------------------------
    def acknowledged(self, work: SendWR, tail_ps: int) -> None:
        """The last bit of an acknowledgement arrives at ``tail_ps``."""
        qp = work.qp
        if work.span is not None and work.opcode is not _SEND:
            work.span.mark("ACK on the wire", tail_ps)
        done_ps, last_ps = tail_ps + self._ack_ps, qp.last_answer_ps
        done_ps = qp.last_answer_ps = done_ps if done_ps > last_ps else last_ps
        outstanding = qp.outstanding
        if qp.error or not outstanding or outstanding[0] is not work or work.status is not _SUCCESS:
            self.clock.hardware(done_ps, work.key + RESPONSE, self._take_ack, work)
            return
        # Nothing can come between: what is left to do is to let the program know, if it wants to.
        outstanding.popleft()
        if int.__and__(work.send_flags, SIGNALED):
            self.complete_at(done_ps, work, _seen(qp) if qp.unseen else None)
        else:
            clock = self.clock
            clock.quiet_ps = done_ps if done_ps > clock.quiet_ps else clock.quiet_ps

    def _take_ack(self, work: SendWR) -> None:
        self._answered(work.qp, work, work.status, None)

    def take_response(self, packet: Packet) -> None:
        """A packet of a READ response has been processed: its payload goes to memory, the last completes the READ."""
        work, at, payload, last, _ = packet
        now_ps, qp = self.clock.now_ps, work.qp
        if qp.off_ps != NEVER:
            return
        channel = self.channel(qp)
        self.settle(work.key + RESPONSE)
        for address, data in self.pcie.tlps(work.local_address + at, payload):
            start_ps, at_root_ps = self.pcie.write(now_ps, len(data))
            self.host.dma_write(address, data, channel, "READ response", now_ps, start_ps, at_root_ps)
        if last:
            qp.reads_under_way -= 1
            self._answered(qp, work, Status.IBV_WC_SUCCESS, work.observe)
            self._pump(qp)

    def _answered(self, qp: QueuePair, work: SendWR, status: Status, observe: Callable[[int], None] | None) -> None:
        """A response has completed the oldest outstanding request."""
        if qp.off_ps != NEVER:
            return
        done = qp.outstanding.popleft()
        assert done is work, "responses of a queue pair come in the order of its requests"
        if status is not Status.IBV_WC_SUCCESS:
            qp.error = True
        if observe is not None:
            qp.unseen.append(observe)
        if int.__and__(work.send_flags, SIGNALED) or qp.error:
            hop = None if work.opcode is _SEND else "CQE"
            self._complete(qp, work.wr_id, work.opcode, work, _seen(qp), hop, status)
        if qp.error:
            self._flush(qp)

    def _flush(self, qp: QueuePair) -> None:
        """A queue pair has broken: what was posted and is not done completes as flushed."""
        now_ps = self.clock.now_ps
        self.withdraw_requests(lambda work: work.qp is qp, now_ps)
        for work in (*qp.outstanding, *qp.send_queue):
            self._complete(qp, work.wr_id, work.opcode, work, None, None, Status.IBV_WC_WR_FLUSH_ERR)
        qp.outstanding.clear()
        qp.send_queue.clear()

    # faults -------------------------------------------------------------------------------------------------
    def withdraw_requests(self, unwanted: Callable[[SendWR], bool], from_ps: int) -> None:
        """Requests that have not come to the engine before ``from_ps`` never do, where ``unwanted``."""
        gone = {id(work) for work in self.port.forget(unwanted, from_ps)}
        if gone:
            self.clock.withdraw(lambda _, function, argument: function == self._request and id(argument) in gone)

    def unanswered(self, work: SendWR) -> None:
        """Nobody will ever answer this request: it is repeated in vain until the retries are used up.

        The repetitions themselves are left out: nobody is there who could take them in.
        """
        after_ps = work.qp.gives_up_after_ps
        if after_ps is not None:
            self.clock.call_at(max(self.clock.now_ps, work.sent_ps + after_ps), self._give_up, work)

    def _give_up(self, work: SendWR) -> None:
        qp = work.qp
        if not qp.error and any(work is waiting for waiting in qp.outstanding):
            self._answered(qp, qp.outstanding[0], Status.IBV_WC_RETRY_EXC_ERR, None)


def _seen(qp: QueuePair) -> Callable[[int], None] | None:
    """What unsignalled requests have observed: completions come in order, so the next one tells of all before it."""
    seen, qp.unseen = qp.unseen, []
    return partial(_observe_all, seen) if seen else None


def _observe_all(observed: list[Callable[[int], None]], at_ps: int) -> None:
    for observe in observed:
        observe(at_ps)
