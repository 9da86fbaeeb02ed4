"""The reliable transport, packet by packet: PSNs, acknowledgements, NAKs, timers, go-back-N (IBTA 1.4, section 9.7).

An adapter on a fabric that disturbs packets (``models.nic.lossy.crossing``) has this part in place of plain
acknowledgements; where nothing is lost it does what they do, to the picosecond. What a connection does:

- Requester: an acknowledgement of a PSN acknowledges all before it. A NAK for a sequence error, a response that shows
  that one before it was lost, or a local ACK timeout make it go back: everything from the oldest PSN that is not known
  to have been taken in goes out again, with the same PSNs. ``retry_cnt`` times in a row without anything new, then
  IBV_WC_RETRY_EXC_ERR.
- Responder: takes in the packet that it expects, refuses early ones with one NAK, and knows duplicates: WRITE and SEND
  are acknowledged again, READ is executed again, atomics are answered from saved results, FLUSH and ATOMIC WRITE are
  answered again. None of them is executed twice but READ (9.7.5.1.1; annex A19, oA19-14 and oA19-15).
- An unreliable connection loses the rest of a message of which a packet is lost.

A READ goes on from the first packet of its response that is missing, as Linux' rxe does (rxe_req.c, ``req_retry``), or
is repeated as a whole (``transport.read_retry``). Its completion proves what each response showed of the bytes that it
brought.
"""

from __future__ import annotations

from dataclasses import fields, replace
from functools import partial

from ...profiles.platform import Platform
from ...verbs.objects import ACK_TIMEOUT_PS, RNR_RETRY_FOREVER, QueuePair
from ...verbs.opcodes import NON_POSTED, RECEIVING, Opcode, QpType, Status
from ...verbs.ties import NEXT_REQUEST, PACKET_SHIFT, RESPONSE, SEQUENCE_NAK
from ...verbs.work import SIGNALED
from ..adapter import Adapter
from ..ends import ReceiveEnd, SendEnd
from ..inbound import Observe, of_part
from ..message import Message, Packet, mark
from ..port import WITHDRAWN
from .psn import PSN_MASK, Sent, TransportCounters, TransportEnd, distance, psns

FIRST_PSN = 0
_WRITE = Opcode.IBV_WR_RDMA_WRITE
_READ = Opcode.IBV_WR_RDMA_READ
_SUCCESS = Status.IBV_WC_SUCCESS
_RNR = Status.IBV_WC_RNR_RETRY_EXC_ERR


class GoBackN:
    """The reliability of an adapter whose fabric loses packets: every connection survives that."""

    def __init__(self, nic: Adapter, platform: Platform) -> None:
        self._nic = nic
        self._clock = nic.clock
        self._port = nic.port
        self._ends: dict[QueuePair, TransportEnd] = {}
        self._ack_interval = platform.transport.ack_interval
        self._resumes = platform.transport.read_retry == "missing packet"
        self._mtu_bytes = nic.parameters.mtu_bytes
        self._acked_ps = nic.parameters.ack_processing_ps
        self._ack_bytes = nic.parameters.headers.ack_bytes
        self._ack_ps = nic.parameters.ack_generation_ps

    def kept(self, end: SendEnd | ReceiveEnd) -> TransportEnd:
        """The transport's state of a queue pair of this adapter."""
        found = self._ends.get(end.qp)
        if found is None:
            found = self._ends[end.qp] = TransportEnd(FIRST_PSN)
        return found

    def counters(self) -> dict[str, int]:
        """The transport's counters so far, by name, over all queue pairs."""
        total = self.total()
        return {one.name: getattr(total, one.name) for one in fields(total)}

    def counted(self, end: SendEnd | ReceiveEnd) -> TransportCounters:
        """The counters of a queue pair of this adapter."""
        return self.kept(end).counters

    def total(self) -> TransportCounters:
        """The sum of the counters of all queue pairs of this adapter."""
        total = TransportCounters()
        for kept in self._ends.values():
            total.add(kept.counters)
        return total

    # requester: requests -----------------------------------------------------------------------------------
    def goes(self, at_ps: int, message: Message) -> None:
        """Give a request its PSNs, and keep it until it is acknowledged."""
        end = message.end
        kept, count = self.kept(end), psns(message, self._mtu_bytes)
        message.psn, message.asks = kept.next_psn, True
        kept.next_psn = (kept.next_psn + count) & PSN_MASK
        if end.reliable:
            message.sent = Sent(message, message.psn, count, at_ps)
            kept.sent.append(message.sent)

    def has_left(self, message: Message) -> None:
        """The timer runs from here on, if it does not run already."""
        end = message.end
        if not end.reliable:
            return
        kept, sent = self.kept(end), message.sent
        if sent is None or sent.latest is not message or not kept.sent:
            return
        sent.sent_ps = message.sent_ps
        # The acknowledge request bit: a completion waits for it, nothing is behind it, or it has been sent before.
        behind = bool(end.send_queue) or kept.sent[-1] is not sent
        message.asks = not behind or message is not sent.message or message.work.send_flags in SIGNALED
        if end.qp.timeout and not kept.timing:
            kept.timing = True
            self._clock.call_at(message.sent_ps + (ACK_TIMEOUT_PS << end.qp.timeout), self._expire, end)

    def _expire(self, end: SendEnd) -> None:
        """The timer: is the oldest outstanding request due?"""
        kept, now_ps = self.kept(end), self._clock._now
        kept.timing = False
        if end.qp.error or end.stalled or not kept.sent or kept.sent[0].sent_ps is None:  # set again when it leaves
            return
        due_ps = max(kept.sent[0].sent_ps, kept.since_ps) + (ACK_TIMEOUT_PS << end.qp.timeout)
        if due_ps > now_ps:
            kept.timing = True
            self._clock.call_at(due_ps, self._expire, end)
            return
        kept.counters.local_ack_timeout_err += 1
        self._retry(end, kept)

    def _retry(self, end: SendEnd, kept: TransportEnd) -> None:
        """Go back to the oldest outstanding request, unless that has been done too often."""
        kept.retries += 1
        if kept.retries > end.qp.retry_cnt:
            self.answered(end, kept.sent[0].message, Status.IBV_WC_RETRY_EXC_ERR, None)
        else:
            self._go_back(end, kept)

    def _go_back(self, end: SendEnd, kept: TransportEnd) -> None:
        """Send again all that is outstanding, from the oldest PSN that is not known to have been taken in."""
        now_ps = self._clock._now
        self._port.withdraw(end, now_ps)
        end.attempt += 1
        for sent in kept.sent:
            came = sent.latest.start_ps != WITHDRAWN
            message, skipped = sent.message, distance(kept.oldest, sent.psn)
            at = skipped * self._mtu_bytes if skipped > 0 and message.opcode not in NON_POSTED else 0
            end.key += NEXT_REQUEST
            again = message.again(end.key)
            again.payload, again.attempt, again.sent_bytes = sent.payload, end.attempt, at
            again.psn, again.sent, again.asks = sent.psn, sent, True
            if message.opcode is _READ and self._resumes:
                self._resume(again, sent)
            self._nic.requester.cut(again)
            sent.latest, sent.attempt, sent.sent_ps = again, end.attempt, None
            sent.at_ps = max(now_ps, sent.at_ps)
            if came:
                kept.counters.retransmitted += 1 + len(again.more or ())
            self._port.request(sent.at_ps, again, self._nic.wire.request)
        for message in end.send_queue:  # keys rise in the order in which requests go out
            end.key = message.key = end.key + NEXT_REQUEST

    def _resume(self, again: Message, sent: Sent) -> None:
        """Let a READ ask for what has not come of it: from its first missing packet on."""
        work, at = sent.message.work, sent.got
        if at:
            again.work = replace(
                work,
                local_address=work.local_address + at,
                remote_address=work.remote_address + at,
                length=work.length - at,
            )
            again.length = again.work.length
            again.psn = (sent.psn + at // self._mtu_bytes) & PSN_MASK

    # requester: responses ----------------------------------------------------------------------------------
    def acknowledged(self, message: Message, tail_ps: int) -> None:
        """The last bit of an acknowledgement arrives at ``tail_ps``."""
        end = message.end
        if message.opcode not in RECEIVING or message.opcode is _WRITE:
            mark(message, "ACK on the wire", tail_ps)
        done_ps = end.last_answer_ps = max(tail_ps + self._acked_ps, end.last_answer_ps)
        self._clock.hardware(done_ps, message.key + RESPONSE, self._take_ack, message)

    def unanswered(self, message: Message) -> None:
        """No answer to this request will ever come: the timer finds that out."""

    def _take_ack(self, message: Message) -> None:
        if self._nic.sram.crowded:
            self._nic.contexts.answered(message, 0, 0, partial(self._acked, message))
        else:
            self._acked(message)

    def _acked(self, message: Message) -> None:
        """An acknowledgement, or a NAK, has been processed."""
        end = message.end
        if end.qp.error:
            return
        kept, sent = self.kept(end), message.sent
        if sent is not None and message.status is _SUCCESS:
            self._acknowledges(end, kept, sent.last, message.attempt)
            return
        refused = (message.psn + message.sent_bytes // self._mtu_bytes) & PSN_MASK
        if not self._acknowledges(end, kept, refused - 1, message.attempt) or not kept.sent:
            return
        oldest = kept.sent[0]
        if distance(refused, oldest.psn) < 0 or distance(refused, oldest.last) > 0:
            return  # its requests have been settled already
        if sent is None:
            if message.attempt == oldest.attempt:
                kept.counters.packet_seq_err += 1
                self._retry(end, kept)
        elif message.status is not _RNR or (end.qp.rnr_retry != RNR_RETRY_FOREVER and end.repeats >= end.qp.rnr_retry):
            self.answered(end, oldest.message, message.status, None)
        elif not end.stalled and message.attempt == oldest.attempt:
            kept.counters.rnr_nak_retry_err += 1
            end.repeats += 1
            end.stalled = True
            self._port.withdraw(end, self._clock._now)  # requests not yet at the engine go with the repetition
            assert end.to is not None
            self._clock.call_at(self._clock._now + end.to.nic.parameters.rnr_timer_ps, self._after_rnr, end)

    def _after_rnr(self, end: SendEnd) -> None:
        if not end.qp.error:
            end.stalled = False
            self._go_back(end, self.kept(end))
            self._nic.requester.pump(end)

    def _acknowledges(self, end: SendEnd, kept: TransportEnd, psn: int, attempt: int) -> bool:
        """An answer to a request sent at ``attempt`` says that all up to ``psn`` has been taken in.

        Returns False if a response before it is missing.
        """
        while kept.sent and distance(psn, kept.sent[0].last) >= 0:
            sent = kept.sent[0]
            if sent.message.opcode in NON_POSTED:
                if attempt >= sent.attempt:
                    kept.counters.implied_nak_seq_err += 1
                    self._retry(end, kept)
                return False
            self.answered(end, sent.message, _SUCCESS, sent.observe)
            if end.qp.error:
                return False
        if distance(psn, kept.oldest) >= 0:
            kept.oldest = (psn + 1) & PSN_MASK
            self._progress(kept)
        return True

    def _progress(self, kept: TransportEnd) -> None:
        kept.retries, kept.since_ps = 0, self._clock._now

    def take_response(self, packet: Packet) -> None:
        """A packet of a response with data has been processed."""
        if self._nic.sram.crowded:
            message, at, payload, _, _ = packet
            self._nic.contexts.answered(message, at, len(payload), partial(self._take_response, packet))
        else:
            self._take_response(packet)

    def _take_response(self, packet: Packet) -> None:
        """A packet of a response with data has been processed, if it is the one that is missed."""
        message, at, payload, _, end_ps = packet
        end = message.end
        if end.qp.error or end_ps > message.to.off_ps:  # cut off in the port
            return
        kept, sent = self.kept(end), message.sent
        assert sent is not None
        if not kept.sent or distance(sent.psn, kept.sent[0].psn) < 0:
            return  # a second response
        if not self._acknowledges(end, kept, sent.psn - 1, message.attempt):
            return
        begins = sent.message.length - message.length  # what this sending asked for, to the end
        place = begins + at
        if sent.answer == message.attempt and place < sent.got:
            return  # the same packet once more
        if not at:
            sent.answer, sent.got = message.attempt, begins
        if sent.answer != message.attempt or place != sent.got:
            if message.attempt == sent.attempt:
                kept.counters.implied_nak_seq_err += 1
                self._retry(end, kept)
            return
        sent.take(message, place, len(payload))
        self._progress(kept)
        self._nic.requester.place(packet)

    def answered(self, end: SendEnd, message: Message, status: Status, observe: Observe | None) -> None:
        if end.reliable and end.outstanding:
            kept = self.kept(end)
            if kept.sent and kept.sent[0] is message.sent:
                sent = kept.sent.popleft()
                message = sent.message
                if len(sent.pieces) > 1 and status is _SUCCESS:
                    observe = _of_pieces(sent)
                if distance(sent.last, kept.oldest) >= 0:
                    kept.oldest = (sent.last + 1) & PSN_MASK
                self._progress(kept)
        self._nic.requester.done(end, message, status, observe)

    def flushed(self, qp: QueuePair) -> None:
        """Nothing is outstanding any more on a broken queue pair."""
        self.kept(qp.end).sent.clear()

    # responder ----------------------------------------------------------------------------------------------
    def expects(self, packet: Packet) -> bool:
        """Whether a packet that has been processed is the one that is expected."""
        message, at, _, _, end_ps = packet
        end = message.to
        if end_ps > message.end.off_ps or end.gone:
            return False
        kept, psn = self.kept(end), (message.psn + at // self._mtu_bytes) & PSN_MASK
        if end.qp.qp_type is QpType.IBV_QPT_UC:
            if at and (psn != kept.expected or kept.broken is message):
                kept.broken = message
            kept.expected = (psn + 1) & PSN_MASK
            return kept.broken is not message
        if not end.reliable:
            return True
        if end.ignores(message):
            return False
        early = distance(psn, kept.expected)
        if not early:
            kept.nak_sent = False
            kept.expected = (psn + (psns(message, self._mtu_bytes) if message.opcode is _READ else 1)) & PSN_MASK
        elif early > 0:
            kept.counters.out_of_sequence += 1
            if not kept.nak_sent:
                kept.nak_sent = True
                self._refuse_early(end, kept, message, at)
        else:
            kept.counters.duplicate_request += 1
            self._duplicate(end, kept, packet)
        return not early

    def _refuse_early(self, end: ReceiveEnd, kept: TransportEnd, message: Message, at: int) -> None:
        """Answer a packet that came too early: with the PSN that is expected, behind the answers before it."""
        nak = message.again(message.key + SEQUENCE_NAK + (at >> PACKET_SHIFT))
        nak.span, nak.payload, nak.sent_bytes, nak.psn = None, b"", 0, kept.expected

        def send(at_ps: int) -> None:
            if distance(nak.psn, kept.expected) <= 0:  # else one before it has been refused meanwhile
                nak.n_bytes, nak.more = self._ack_bytes, None
                self._port.response(at_ps, nak, self._nic.wire.acknowledgement)

        end.responses.ready(nak, self._clock._now + self._ack_ps, send)

    def _duplicate(self, end: ReceiveEnd, kept: TransportEnd, packet: Packet) -> None:
        """A packet has been taken in before; requests still under execution will be answered anyway."""
        message, now_ps = packet[0], self._clock._now
        if message.opcode is _READ:
            self._nic.responder.serve_now(packet)
        elif message.opcode in NON_POSTED:
            answer = kept.answers.get(message.psn)
            if answer is not None:
                self._nic.answers.send_answer(end, message, now_ps + self._ack_ps, *answer)
        elif packet[3] and message.sent is not None and distance(message.sent.last, kept.accepted) <= 0:
            self._nic.answers.send_acknowledgement(end, message, None)

    def acknowledges(self, end: ReceiveEnd, message: Message, observe: Observe | None, status: Status) -> bool:
        """A WRITE or SEND has been accepted, or a request refused: whether that is acknowledged now."""
        kept = self.kept(end)
        if status is _SUCCESS and message.sent is not None:
            kept.accepted, message.sent.observe = message.sent.last, observe
            kept.unanswered += 1
            if kept.unanswered < self._ack_interval and not message.asks:
                end.responses.forget(message)
                return False
            kept.unanswered = 0
        elif status is _RNR:
            kept.expected, kept.nak_sent = (message.psn + message.sent_bytes // self._mtu_bytes) & PSN_MASK, False
        return True

    def answers(self, message: Message, payload: bytes, observe: Observe | None) -> None:
        """A request has been executed: keep the answer, if it may be needed again."""
        if message.opcode is not _READ:
            answers = self.kept(message.to).answers
            answers[message.psn] = payload, observe
            if len(answers) > self._nic.parameters.outstanding_reads:
                del answers[next(iter(answers))]


def _of_pieces(sent: Sent) -> Observe:
    """The proof by a READ whose bytes came in the responses to several sendings: by each, of those that it brought."""
    address = sent.message.work.remote_address
    proofs = [
        of_part(message.observe, address + start, end - start)
        for message, start, end in sent.pieces
        if message.observe is not None
    ]

    def happened(at_ps: int) -> None:
        for proof in proofs:
            proof(at_ps)

    return happened
