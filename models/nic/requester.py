"""The requester: from the doorbell to the wire, and from the response to the completion."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from heapq import heappush
from typing import Any

from ...sim.clock import HARDWARE
from ...sim.trace import NEVER
from ..verbs import wqe
from ..verbs.objects import QueuePair, WorkCompletion
from ..verbs.opcodes import CROSS_CHANNEL, NO_PAYLOAD, RECEIVING, Opcode, Status
from ..verbs.ties import COMPLETION, NEXT_REQUEST, RECEIVED, RESPONSE
from ..verbs.work import INLINE, SIGNALED, SendWR
from . import sendqueue
from .adapter import Adapter
from .crosschannel import CrossChannel
from .ends import PlainWay, SendEnd
from .message import Message, Packet
from .packets import request_bytes
from .port import WITHDRAWN
from .sram import SramEntry

_WRITE = Opcode.IBV_WR_RDMA_WRITE
_SUCCESS = Status.IBV_WC_SUCCESS


class Requester:
    """The half of an adapter that sends requests; ``way_of`` makes the plain way of a connection."""

    def __init__(self, nic: Adapter, way_of: Callable[[SendEnd], PlainWay]) -> None:
        self._nic = nic
        self._way_of = way_of
        self.clock = nic.clock
        self.slot = nic.slot
        self.sram = nic.sram
        self.contexts = nic.contexts
        self.port = nic.port
        self.parameters = nic.parameters
        self._queue: list[Any] = nic.clock._queue
        self._doorbell_ps = nic.parameters.doorbell_ps
        self._cross_channel = CrossChannel(nic, self, self._fetch_payload)

    # from the doorbell to the engine ------------------------------------------------------------------------
    def ring(self, qp: QueuePair, work: SendWR, payload: bytes) -> None:
        """The doorbell of a post of one work request has left the core; a broken queue pair flushes it."""
        end: SendEnd = qp.end
        plain = end.plain
        if plain is None:
            plain = end.plain = self._way_of(end)
        if plain.post(work, payload):
            return
        at_ps = self._seen_ps(end)
        message = _posted(end, work, payload)
        self._nic.doorbells += 1
        if qp.error:
            self._flush_at(at_ps, message)
            return
        if message.opcode is not _WRITE:
            self._nic.posted[message.opcode] = self._nic.posted.get(message.opcode, 0) + 1
        end.send_queue.append(message)
        heappush(self._queue, (at_ps, HARDWARE, message.key, self.doorbell, [message]))

    def _flush_at(self, at_ps: int, message: Message) -> None:
        """A request of a broken queue pair ends with an error when its doorbell is here: it never comes to the port."""
        message.start_ps = WITHDRAWN
        self.clock.hardware(at_ps, message.key, self._flushed, message)

    def _seen_ps(self, end: SendEnd) -> int:
        """When the adapter sees a doorbell that leaves the core now, and the turn of its queue pair has come."""
        at_ps = self.clock._now + self._doorbell_ps
        arbitration = self._nic.arbitration
        return at_ps if arbitration is None else arbitration.turn_ps(end, at_ps)

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
        at_ps = self._seen_ps(end)
        self._nic.doorbells += 1
        self._nic.listed += len(works) - 1
        for message in messages:
            if message.opcode is not _WRITE:
                self._nic.posted[message.opcode] = self._nic.posted.get(message.opcode, 0) + 1
            if qp.error:
                self._flush_at(at_ps, message)
        if not qp.error:
            end.send_queue.extend(messages)
            self.clock.hardware(at_ps, messages[0].key, self.doorbell, messages)

    def doorbell(self, messages: list[Message]) -> None:
        """The doorbell of these requests is here."""
        for message in messages:
            if message.span is not None:
                message.span.marks.append(("doorbell", self.clock._now))
        if messages[0].end.qp.managed is not None:
            self._cross_channel.posted(messages[0].end, messages)
            return
        if self.sram.crowded:
            self.contexts.posted(messages, partial(self._fetch_wqes, messages))
        else:
            self._fetch_wqes(messages)

    def _fetch_wqes(self, messages: list[Message]) -> None:
        """One work request came along in its doorbell, if the adapter has BlueFlame; a list is read from memory."""
        if len(messages) == 1 and self.parameters.blueflame:
            self._fetch_payload(messages[0])
            return
        self.slot.settle(messages[0].key)
        self._nic.wqe_fetches += 1

        def fetched(*_: object) -> None:
            for message in messages:
                self._fetch_payload(message)

        n_bytes = sum(wqe.size_bytes(self.parameters, message.end.qp.qp_type, message.work) for message in messages)
        self.slot.dma.read(messages[0].key, 0, 0, fetched, n_bytes=n_bytes)

    def _fetch_payload(self, message: Message) -> None:
        if message.end.off_ps != NEVER:
            return
        bare = not message.length or message.work.send_flags in INLINE or message.opcode in NO_PAYLOAD
        if bare or not sendqueue.local_buffer_is_open(self._nic, message):
            self.ready(message)
            return
        if message.end.qp.cross_channel and self._cross_channel.holds(message):
            return
        if self.sram.crowded and message.work.lkey is not None:
            self.contexts.gathered(message, partial(self._read_payload, message))
        else:
            self._read_payload(message)

    def _read_payload(self, message: Message) -> None:
        self.slot.settle(message.key)

        parts: list[int] | None = None if message.length <= self.parameters.part_bytes else []

        def fetched(data: bytes, _: object) -> None:
            message.payload = data
            if parts is not None:  # the engine takes them as they come
                processing_ps = self.parameters.tx_processing_ps
                message.parts, message.part_bytes = (
                    [at_ps + processing_ps for at_ps in parts],
                    self.parameters.part_bytes,
                )
            self.ready(message)

        self.slot.dma.read(
            message.key,
            message.work.local_address,
            message.length,
            fetched,
            part_bytes=self.parameters.part_bytes,
            parts=parts,
        )

    def ready(self, message: Message) -> None:
        """All that a request needs has been fetched."""
        if message.span is not None:
            message.span.marks.append(("WQE and payload fetch", self.clock._now))
        message.ready = True
        self.pump(message.end)

    def pump(self, end: SendEnd) -> None:
        """Pass to the engine what is ready, in the order of the posts."""
        queue, now_ps = end.send_queue, self.clock._now
        while queue and queue[0].ready:
            message = queue[0]
            if message.opcode in CROSS_CHANNEL:
                if not self._cross_channel.executes(end, message):
                    return
                continue
            if not sendqueue.may_go(end, message):
                return
            if not sendqueue.local_buffer_is_open(self._nic, message):
                end.closed = bool(end.outstanding)
                if end.answered_ps > now_ps:
                    self.clock.call_at(end.answered_ps, self.pump, end)
                elif not end.outstanding:  # it fails in its turn
                    sendqueue.goes(end, queue.popleft(), now_ps)
                    self._nic.reliability.answered(end, message, Status.IBV_WC_LOC_PROT_ERR, None)
                return
            queue.popleft()
            sendqueue.goes(end, message, now_ps)
            self.cut(message)
            self._nic.reliability.goes(now_ps, message)
            plain = end.plain
            if plain is not None and plain.leave is not None and message.more is None and not message.sent_bytes:
                self.port.request(now_ps, message, plain.leave)
            elif end.reliable:
                self.port.request(now_ps, message, self._nic.wire.request)
            else:
                self.port.watched_request(now_ps, message, self._leave)

    def cut(self, message: Message) -> None:
        """A request's packets, one for each MTU."""
        if (
            message.opcode is _WRITE and message.length <= self.parameters.mtu_bytes and not message.sent_bytes
        ):  # almost always
            message.more, message.n_bytes = None, self.parameters.headers.write_bytes + message.length
            return
        headers, mtu, qp_type = self.parameters.headers, self.parameters.mtu_bytes, message.end.qp.qp_type
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
        """A request without an answer may come to the port: if it does, it is done when its last bit has left."""
        now_ps = self.clock._now
        if message.start_ps == WITHDRAWN:
            return
        head_ps = self.port.serve_request(message, now_ps + self.port.propagation_ps)
        if message.start_ps < 0:
            self.clock.hardware(head_ps - self.port.propagation_ps, message.key, self._leave, message)
            return
        left_ps = message.more[-1][1] if message.more else message.end_ps
        self.clock.hardware(left_ps, message.key + COMPLETION, self._left, message)
        self.clock.hardware(head_ps, message.key, self._nic.wire.request, message)

    def _left(self, message: Message) -> None:
        self._nic.reliability.answered(message.end, message, _SUCCESS, None)

    # responses ----------------------------------------------------------------------------------------------
    def place(self, packet: Packet) -> None:
        """A packet of a response goes to memory, the last completes the request."""
        message, at, payload, last, end_ps = packet
        now_ps, end = self.clock.now_ps, message.end
        if end.off_ps != NEVER:
            return
        if end_ps > message.to.off_ps:  # cut off in the port
            self._nic.unanswered(message)
            return
        self.slot.settle(message.key + RESPONSE)
        address = message.work.local_address + at
        tlps = self.slot.link.writes(now_ps, address, len(payload))
        if tlps:
            channel = end.receive.inbound.lanes(address).in_order
            self.slot.host.dma_writes(address, payload, channel, f"{message.opcode} response", now_ps, tlps)
        if last:
            self._nic.reliability.answered(end, message, _SUCCESS, message.observe)

    def done(self, end: SendEnd, message: Message, status: Status, observe: Callable[[int], None] | None) -> None:
        """A response has completed the oldest outstanding request."""
        if end.off_ps != NEVER or not end.outstanding:  # flushed in the meantime
            return
        done = end.outstanding.popleft()
        assert done is message, "responses of a queue pair come in the order of its requests"
        if self.sram.crowded:
            self.sram.drop(SramEntry.WQE, message.wqe)
        sendqueue.is_back(end, message)
        end.repeats = 0
        if status is not _SUCCESS:
            end.qp.broken()
        if observe is not None:
            end.unseen.append(observe)
            end.unreported += 1
        if message.work.send_flags in SIGNALED or end.qp.error:
            completion = _completion(end, message, status)
            # Completions come in order: this one reports the unsignalled requests before it too.
            completion.observe = end.report() if end.unreported else None
            completion.slots += end.unsignalled
            end.unsignalled = 0
            hop = None if message.opcode in RECEIVING else "CQE"
            self.slot.complete(end.qp.send_cq, completion, message.key + COMPLETION, hop)
        else:
            end.unsignalled += 1
        if end.qp.error:
            self.flush(end.qp)
        elif end.send_queue:
            self.pump(end)

    # faults -------------------------------------------------------------------------------------------------
    def flush(self, qp: QueuePair) -> None:
        """Complete all requests of a broken queue pair with IBV_WC_WR_FLUSH_ERR, behind the answered ones."""
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
            self.slot.complete(qp.recv_cq, completion, end.key + RECEIVED + 1 + number)
        for queue in (end.outstanding, end.send_queue, qp.receive_queue):
            queue.clear()
        self._nic.reliability.flushed(qp)

    def _flushed(self, message: Message) -> None:
        end = message.end
        self.sram.drop(SramEntry.WQE, message.wqe)
        completion = _completion(end, message, Status.IBV_WC_WR_FLUSH_ERR)
        self.slot.complete(end.qp.send_cq, completion, message.key + COMPLETION)


def _posted(end: SendEnd, work: SendWR, payload: bytes) -> Message:
    """A work request that has just been posted, as the next message of its queue pair."""
    end.key += NEXT_REQUEST
    return Message(work, end, end.key, payload)


def _completion(end: SendEnd, message: Message, status: Status) -> WorkCompletion:
    return WorkCompletion(message.work.wr_id, status, message.opcode, message.length, end.qp, message.span, slots=1)
