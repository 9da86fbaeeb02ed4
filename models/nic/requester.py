"""The requester: from the doorbell to the wire, and from the response to the completion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from heapq import heappush

from ...sim.clock import HARDWARE
from ...sim.trace import NEVER
from ..verbs import wqe
from ..verbs.objects import QueuePair, WorkCompletion
from ..verbs.opcodes import NO_PAYLOAD, NON_POSTED, RECEIVING, Opcode, Status
from ..verbs.ties import COMPLETION, NEXT_REQUEST, PACKET_SHIFT, RECEIVED, RESPONSE
from ..verbs.work import INLINE, SIGNALED, SendWR
from . import sendqueue
from .adapter import NOT_VISIBLE, Adapter
from .ends import SendEnd
from .message import Message, mark
from .packets import request_bytes
from .plainway import NO_WAY, PlainWay
from .port import WITHDRAWN, Packet

_WRITE = Opcode.IBV_WR_RDMA_WRITE
_SUCCESS = Status.IBV_WC_SUCCESS


class Requester(Adapter):
    """The half of an adapter that sends requests and takes responses."""

    def way_of(self, end: SendEnd) -> PlainWay:
        """The plain way of requests from ``end``, where there is one."""
        return NO_WAY

    # from the doorbell to the engine ------------------------------------------------------------------------
    def ring(self, qp: QueuePair, work: SendWR, payload: bytes) -> None:
        """The doorbell of a post of one work request has left the core; a broken queue pair flushes it."""
        end: SendEnd = qp.end
        plain = end.plain
        if plain is None:
            plain = end.plain = self.way_of(end)
        if plain.post(work, payload):
            return
        at_ps = self.clock._now + self._doorbell_ps
        message = _posted(end, work, payload)
        if qp.error:
            self.clock.hardware(at_ps, message.key, self._flushed, message)
            return
        self.doorbells += 1
        if message.opcode is not _WRITE:
            self.posted[message.opcode] = self.posted.get(message.opcode, 0) + 1
        end.send_queue.append(message)
        heappush(self._queue, (at_ps, HARDWARE, message.key, self._doorbell, [message]))

    def originate(self, qp: QueuePair, work: SendWR, payload: bytes) -> None:
        """A message that the adapter itself sends, with its payload: no doorbell, and nothing to fetch."""
        if not qp.error:
            end: SendEnd = qp.end
            message = _posted(end, work, payload)
            message.ready = True
            end.send_queue.append(message)
            self.pump(end)

    def ring_list(self, qp: QueuePair, works: Sequence[SendWR], payloads: Sequence[bytes]) -> None:
        """The one doorbell of a posted list has left the core: its work requests are in memory (no BlueFlame)."""
        if len(works) == 1:
            self.ring(qp, works[0], payloads[0])
            return
        end: SendEnd = qp.end
        messages = [_posted(end, work, payload) for work, payload in zip(works, payloads, strict=True)]
        at_ps = self.clock._now + self._doorbell_ps
        self.doorbells += 1
        self.listed += len(works) - 1
        for message in messages:
            if message.opcode is not _WRITE:
                self.posted[message.opcode] = self.posted.get(message.opcode, 0) + 1
            if qp.error:
                self.clock.hardware(at_ps, message.key, self._flushed, message)
        if not qp.error:
            end.send_queue.extend(messages)
            self.clock.hardware(at_ps, messages[0].key, self._doorbell, messages)

    def _doorbell(self, messages: list[Message]) -> None:
        for message in messages:
            if message.span is not None:
                message.span.mark("doorbell", self.clock._now)
        if self.sram.crowded:
            self.contexts.posted(messages, partial(self._fetch_wqes, messages))
        else:
            self._fetch_wqes(messages)

    def _fetch_wqes(self, messages: list[Message]) -> None:
        """One work request came along in its doorbell, if the adapter has BlueFlame; a list is read from memory."""
        if len(messages) == 1 and self._blueflame:
            self._fetch_payload(messages[0])
            return
        self.settle(messages[0].key)
        self.wqe_fetches += 1

        def fetched(*_: object) -> None:
            for message in messages:
                self._fetch_payload(message)

        n_bytes = sum(wqe.size_bytes(self.parameters, message.end.qp.qp_type, message.work) for message in messages)
        self.dma.read(messages[0].key, 0, 0, fetched, n_bytes=n_bytes)

    def _fetch_payload(self, message: Message) -> None:
        if message.end.off_ps != NEVER:
            return
        bare = not message.length or message.work.send_flags in INLINE or message.opcode in NO_PAYLOAD
        if bare or not sendqueue.local_buffer_is_open(self, message):
            self._ready(message)
            return
        if self.sram.crowded and message.work.lkey is not None:
            self.contexts.gathered(message, partial(self._read_payload, message))
        else:
            self._read_payload(message)

    def _read_payload(self, message: Message) -> None:
        if self._cqes:
            self.settle(message.key)

        parts: list[int] | None = None if message.length <= self._gather_bytes else []

        def fetched(data: bytes, _: object) -> None:
            message.payload = data
            if parts is not None:  # the engine takes them as they come
                processing_ps = self.parameters.tx_processing_ps
                message.parts, message.part_bytes = [at_ps + processing_ps for at_ps in parts], self._gather_bytes
            self._ready(message)

        self.dma.read(
            message.key, message.work.local_address, message.length, fetched, part_bytes=self._gather_bytes, parts=parts
        )

    def _ready(self, message: Message) -> None:
        if message.span is not None:
            message.span.mark("WQE and payload fetch", self.clock._now)
        message.ready = True
        self.pump(message.end)

    def pump(self, end: SendEnd) -> None:
        """Pass to the engine what is ready, in the order of the posts."""
        queue, now_ps = end.send_queue, self.clock._now
        while queue and queue[0].ready:
            message = queue[0]
            if not sendqueue.may_go(end, message):
                return
            if not sendqueue.local_buffer_is_open(self, message):
                end.closed = bool(end.outstanding)
                if end.answered_ps > now_ps:
                    self.clock.call_at(end.answered_ps, self.pump, end)
                elif not end.outstanding:  # it fails in its turn
                    sendqueue.goes(end, queue.popleft(), now_ps)
                    self._answered(end, message, Status.IBV_WC_LOC_PROT_ERR, None)
                return
            queue.popleft()
            sendqueue.goes(end, message, now_ps)
            self._packets(message)
            plain = end.plain
            if plain is not None and plain.leave is not None and message.more is None and not message.sent_bytes:
                self.port.request(now_ps, message, plain.leave)
            elif end.reliable:
                self.port.request(now_ps, message, self._request)
            else:
                self.port.watched_request(now_ps, message, self._leave)

    def _packets(self, message: Message) -> None:
        """A request's packets, one for each MTU."""
        if (
            message.opcode is _WRITE and message.length <= self._mtu_bytes and not message.sent_bytes
        ):  # as good as always
            message.more, message.n_bytes = None, self._write_bytes + message.length
            return
        headers, mtu, qp_type = self.parameters.headers, self._mtu_bytes, message.end.qp.qp_type
        length, at = 0 if message.opcode in NO_PAYLOAD else message.length, message.sent_bytes
        last = at + mtu >= length
        message.n_bytes = request_bytes(headers, qp_type, message, at, last) + (length - at if last else mtu)
        message.more = None
        if not last:
            message.more = [
                request_bytes(headers, qp_type, message, start, start + mtu >= length) + min(mtu, length - start)
                for start in range(at + mtu, length, mtu)
            ]

    def _leave(self, message: Message) -> None:
        """A request that nobody answers may come to the port: if it does, it is done when its last bit has left."""
        now_ps = self.clock._now
        if message.start_ps == WITHDRAWN:
            return
        head_ps = self.port.serve_request(message, now_ps + self._propagation_ps)
        if message.start_ps < 0:
            self.clock.hardware(head_ps - self._propagation_ps, message.key, self._leave, message)
            return
        left_ps = message.more[-1][1] if message.more else message.end_ps
        self.clock.hardware(left_ps, message.key + COMPLETION, self._left, message)
        self.clock.hardware(head_ps, message.key, self._request, message)

    def _left(self, message: Message) -> None:
        self._answered(message.end, message, _SUCCESS, None)

    # from the engine to the responder -----------------------------------------------------------------------
    def _request(self, message: Message) -> None:
        """The request's first packet may be at the switch: if it is, it goes on, and the others follow."""
        now_ps = self.clock._now
        start_ps = message.start_ps
        if start_ps >= 0:
            head_ps = start_ps + self._propagation_ps
        elif start_ps == WITHDRAWN:
            return
        else:
            head_ps = self.port.serve_request(message, now_ps)
        if head_ps > now_ps:
            heappush(self._queue, (head_ps, HARDWARE, message.key, self._request, message))
            return
        mtu, base, more = self._mtu_bytes, message.sent_bytes, message.more or ()
        message.sent_ps = more[-1][1] if more else message.end_ps
        for turn, (start_ps, end_ps) in enumerate(more, 1):
            at = base + turn * mtu
            packet = (message, at, message.payload[at : at + mtu], turn == len(more), end_ps)
            self.clock.hardware(
                start_ps + self._propagation_ps, message.key + (at >> PACKET_SHIFT), self._forward, packet
            )
        self._forward((message, base, message.payload[base : base + mtu], not more, message.end_ps))

    def _forward(self, packet: Packet) -> None:
        """The first bit of a packet is at the switch: its way until the responder has processed it."""
        message, at, payload, last, end_ps = packet
        end, headers = message.end, self.parameters.headers
        if end_ps > end.off_ps:  # cut off in the port
            return
        to = message.to
        remote = to.nic
        n_bytes = request_bytes(headers, end.qp.qp_type, message, at, last) + len(payload)
        tail_ps = self.crossed(remote, end_ps, n_bytes)
        mark(message, "wire and switch", tail_ps)
        done_ps = remote.request_received(tail_ps, to, message, at)
        key = message.key + (at >> PACKET_SHIFT)
        plain = end.plain
        handler: Callable[[Packet], None] = remote.take_in
        if message.opcode in NON_POSTED:
            handler = remote.serve
        elif message.opcode is _WRITE and plain is not None and plain.accept is not None:
            handler = plain.accept
        if remote.sram.crowded:
            handler = remote.translate
        heappush(self._queue, (done_ps, HARDWARE, key, handler, packet))

    # responses ----------------------------------------------------------------------------------------------
    def acknowledged(self, message: Message, tail_ps: int) -> None:
        """The last bit of an acknowledgement arrives at ``tail_ps``."""
        end = message.end
        if message.span is not None and (message.opcode is _WRITE or message.opcode not in RECEIVING):
            message.span.mark("ACK on the wire", tail_ps)
        done_ps, last_ps = tail_ps + self._acked_ps, end.last_answer_ps
        done_ps = end.last_answer_ps = done_ps if done_ps > last_ps else last_ps
        outstanding = end.outstanding
        if (
            end.qp.error
            or not outstanding
            or outstanding[0] is not message
            or message.status is not _SUCCESS
            or message.observe is not None
            or end.closed
            or self.sram.crowded
        ):
            self.clock.hardware(done_ps, message.key + RESPONSE, self._take_ack, message)
            return
        # Nothing can come between: what is left to do is to let the program know, if it wants to.
        outstanding.popleft()
        end.answered_ps, end.repeats = done_ps, 0
        if message.work.send_flags in SIGNALED:
            # A CQE is written at ``done_ps``, behind what was: it waits in the entrance of the slot until then.
            message.start_ps, message.observe = NOT_VISIBLE, _told(end) if end.untold else None
            message.slots, end.unsignalled = end.unsignalled + 1, 0
            key = message.key + COMPLETION
            heappush(self._cqes, (done_ps, key, message))
            heappush(self._queue, (done_ps + self._cqe_ps, HARDWARE, key, self._visible, message))
        else:
            end.unsignalled += 1
            clock = self.clock
            clock.quiet_ps = done_ps if done_ps > clock.quiet_ps else clock.quiet_ps

    def _take_ack(self, message: Message) -> None:
        if self.sram.crowded:
            go = partial(self._answered, message.end, message, message.status, message.observe)
            self.contexts.answered(message, 0, 0, True, go)
        else:
            self._answered(message.end, message, message.status, message.observe)

    def take_response(self, packet: Packet) -> None:
        """A packet of a response with data has been processed: that goes to memory, the last completes the request."""
        if self.sram.crowded:
            self.contexts.answered(
                packet[0], packet[1], len(packet[2]), packet[3], partial(self._take_response, packet)
            )
        else:
            self._take_response(packet)

    def _take_response(self, packet: Packet) -> None:
        message, at, payload, last, end_ps = packet
        now_ps, end = self.clock.now_ps, message.end
        if end.off_ps != NEVER:
            return
        if end_ps > message.to.off_ps:  # cut off in the port
            self.unanswered(message)
            return
        self.settle(message.key + RESPONSE)
        address = message.work.local_address + at
        tlps = self.pcie.writes(now_ps, address, len(payload))
        if tlps:
            channel = end.receive.inbound.lanes(address).in_order
            self.host.dma_writes(address, payload, channel, f"{message.opcode} response", now_ps, tlps)
        if last:
            self._answered(end, message, _SUCCESS, message.observe)

    def _answered(self, end: SendEnd, message: Message, status: Status, observe: Callable[[int], None] | None) -> None:
        """A response has completed the oldest outstanding request."""
        if end.off_ps != NEVER or not end.outstanding:  # flushed in the meantime
            return
        if status is Status.IBV_WC_RNR_RETRY_EXC_ERR and sendqueue.will_repeat(self, end):
            return
        done = end.outstanding.popleft()
        assert done is message, "responses of a queue pair come in the order of its requests"
        sendqueue.is_back(end, message)
        end.repeats = 0
        if status is not _SUCCESS:
            end.qp.error = True
        if observe is not None:
            end.unseen.append(observe)
            end.untold += 1
        if message.work.send_flags in SIGNALED or end.qp.error:
            completion = _completion(end, message, status)
            # Completions come in order: this one tells of unsignalled ones before it.
            completion.observe = _told(end) if end.untold else None
            completion.slots += end.unsignalled
            end.unsignalled = 0
            hop = None if message.opcode in RECEIVING else "CQE"
            self.complete(end.qp.send_cq, completion, message.key + COMPLETION, hop)
        else:
            end.unsignalled += 1
        if end.qp.error:
            self.flush(end.qp)
        elif end.send_queue:
            self.pump(end)

    # faults -------------------------------------------------------------------------------------------------
    def flush(self, qp: QueuePair) -> None:
        """Complete all that was posted to a broken queue pair with IBV_WC_WR_FLUSH_ERR, behind what was answered."""
        now_ps, end = self.clock.now_ps, qp.end
        self.port.withdraw(end, now_ps)
        if end.answered_ps > now_ps:
            self.clock.call_at(end.answered_ps, self.flush, qp)
            return
        for message in (*end.outstanding, *end.send_queue):
            self._flushed(message)
        for number, waiting in enumerate(qp.receive_queue):
            flushed = Status.IBV_WC_WR_FLUSH_ERR
            completion = WorkCompletion(waiting.wr_id, flushed, Opcode.IBV_WC_RECV, 0, qp)
            self.complete(qp.recv_cq, completion, end.key + RECEIVED + 1 + number)
        for queue in (end.outstanding, end.send_queue, qp.receive_queue):
            queue.clear()

    def _flushed(self, message: Message) -> None:
        end = message.end
        completion = _completion(end, message, Status.IBV_WC_WR_FLUSH_ERR)
        self.complete(end.qp.send_cq, completion, message.key + COMPLETION)

    def unanswered(self, message: Message) -> None:
        """Nobody will ever answer this request: it is repeated in vain until the retries are used up.

        The repetitions themselves are left out: nobody is there who could take them in.
        """
        after_ps = message.end.qp.gives_up_after_ps
        if after_ps is not None and message.end.reliable:
            self.clock.call_at(max(self.clock.now_ps, message.sent_ps + after_ps), self._give_up, message)

    def _give_up(self, message: Message) -> None:
        end = message.end
        if not end.qp.error and any(message is waiting for waiting in end.outstanding):
            self._answered(end, end.outstanding[0], Status.IBV_WC_RETRY_EXC_ERR, None)


def _posted(end: SendEnd, work: SendWR, payload: bytes) -> Message:
    """A work request that has just been posted, as the next message of its queue pair."""
    end.key += NEXT_REQUEST
    return Message(work, end, end.key, payload)


def _completion(end: SendEnd, message: Message, status: Status) -> WorkCompletion:
    return WorkCompletion(message.work.wr_id, status, message.opcode, message.length, end.qp, message.span, slots=1)


def _told(end: SendEnd) -> Callable[[int], None]:
    """What a completion that shows now tells of."""
    told, end.untold = end.untold, 0
    return partial(end.reveal, told)
