"""The reliable transport, packet by packet: PSNs, acknowledgements, NAKs, timers, go-back-N (IBTA 1.4, section 9.7).

An adapter on a fabric that disturbs packets (``models.nic.lossy.crossing``) is one of these; where nothing is lost it
does what the adapter without them does, to the picosecond. What a connection does:

- Requester: an acknowledgement of a PSN acknowledges all before it. A NAK for a sequence error, a response that shows
  that one before it was lost, or a local ACK timeout make it go back: everything from the oldest PSN that is not known
  to have been taken in goes out again, with the same PSNs. ``retry_cnt`` times in a row without anything new, then
  IBV_WC_RETRY_EXC_ERR.
- Responder: takes in what it expects, refuses what comes too early with one NAK, and knows duplicates: WRITE and SEND
  are acknowledged again, READ is executed again, atomics are answered from saved results, FLUSH and ATOMIC WRITE are
  answered again. None of them is executed twice but READ (9.7.5.1.1; annex A19, oA19-14 and oA19-15).
- An unreliable connection loses the rest of a message of which a packet is lost.

A READ is repeated as a whole, where the specification lets it go on from the missing packet.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from functools import partial

import numpy as np
from typing_extensions import override

from ....sim.clock import Clock
from ...durability.ordering import Ordering
from ...fabric.fabric import Fabric
from ...host.hostmemory import HostMemory
from ...profiles.platform import Platform
from ...verbs.objects import ACK_TIMEOUT_PS, RNR_RETRY_FOREVER, QueuePair
from ...verbs.opcodes import NON_POSTED, Opcode, QpType, Status
from ...verbs.work import REQUEST_SHIFT, SIGNALED, SendWR, repeated
from ..inbound import Observe
from ..port import PACKET_SHIFT, WITHDRAWN, Packet
from .crossing import Crossing
from .psn import PSN_MASK, Sent, TransportCounters, TransportEnd, distance, psns

FIRST_PSN = 0
_READ = Opcode.IBV_WR_RDMA_READ
_SUCCESS = Status.IBV_WC_SUCCESS
_RNR = Status.IBV_WC_RNR_RETRY_EXC_ERR
_NAK = 1 << 21
"""In the key of a NAK for a sequence error: its packet may be answered otherwise as well."""


class TransportNic(Crossing):
    """An adapter whose connections survive a fabric that loses packets."""

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
        self._ends: dict[QueuePair, TransportEnd] = {}
        self._ack_interval = platform.transport.ack_interval

    def end(self, qp: QueuePair) -> TransportEnd:
        """What is kept of a queue pair of this adapter."""
        found = self._ends.get(qp)
        if found is None:
            found = self._ends[qp] = TransportEnd(FIRST_PSN)
        return found

    @override
    def counters(self) -> dict[str, int]:
        """What has happened at this adapter so far: packets as well."""
        total = self.total()
        return super().counters() | {one.name: getattr(total, one.name) for one in fields(total)}

    @override
    def counted(self, qp: QueuePair) -> TransportCounters:
        """What is counted of a queue pair of this adapter."""
        return self.end(qp).counters

    def total(self) -> TransportCounters:
        """The same for all queue pairs of this adapter."""
        total = TransportCounters()
        for end in self._ends.values():
            total.add(end.counters)
        return total

    # requester: what goes out -------------------------------------------------------------------------------
    @override
    def goes(self, at_ps: int, work: SendWR) -> None:
        """It gets its PSNs."""
        qp = work.qp
        end, count = self.end(qp), psns(work, self._mtu_bytes)
        work.psn, work.asks = end.next_psn, True
        end.next_psn = (end.next_psn + count) & PSN_MASK
        if qp.reliable:
            work.sent = Sent(work, work.psn, count, at_ps)
            end.sent.append(work.sent)

    @override
    def has_left(self, work: SendWR) -> None:
        """The timer runs from here on, if it does not run already."""
        qp = work.qp
        if not qp.reliable:
            return
        end, sent = self.end(qp), work.sent
        if sent is None or sent.latest is not work or not end.sent:
            return
        sent.sent_ps = work.sent_ps
        # The acknowledge request bit: somebody waits for it, nothing is behind it, or it has been sent before.
        behind = bool(qp.send_queue) or end.sent[-1] is not sent
        work.asks = not behind or work is not sent.work or work.send_flags in SIGNALED
        if qp.timeout and not end.timing:
            end.timing = True
            self.clock.call_at(work.sent_ps + (ACK_TIMEOUT_PS << qp.timeout), self._expire, qp)

    def _expire(self, qp: QueuePair) -> None:
        """The timer: is the oldest outstanding request due?"""
        end, now_ps = self.end(qp), self.clock._now
        end.timing = False
        if qp.error or qp.stalled or not end.sent or end.sent[0].sent_ps is None:  # set again when it leaves
            return
        due_ps = max(end.sent[0].sent_ps, end.since_ps) + (ACK_TIMEOUT_PS << qp.timeout)
        if due_ps > now_ps:
            end.timing = True
            self.clock.call_at(due_ps, self._expire, qp)
            return
        end.counters.local_ack_timeout_err += 1
        self._retry(qp, end)

    def _retry(self, qp: QueuePair, end: TransportEnd) -> None:
        """Go back to the oldest outstanding request, unless that has been done too often."""
        end.retries += 1
        if end.retries > qp.retry_cnt:
            self._answered(qp, end.sent[0].work, Status.IBV_WC_RETRY_EXC_ERR, None)
        else:
            self._go_back(qp, end)

    def _go_back(self, qp: QueuePair, end: TransportEnd) -> None:
        """Send again all that is outstanding, from the oldest PSN that is not known to have been taken in."""
        now_ps = self.clock._now
        self.port.withdraw(qp, now_ps)
        qp.attempt += 1
        for sent in end.sent:
            came = sent.latest.start_ps != WITHDRAWN
            work, skipped = sent.work, distance(end.oldest, sent.psn)
            at = skipped * self._mtu_bytes if skipped > 0 and work.opcode not in NON_POSTED else 0
            again = repeated(work, payload=sent.payload, attempt=qp.attempt, sent_bytes=at)
            qp.key = again.key = qp.key + (1 << REQUEST_SHIFT)
            again.qp, again.psn, again.sent, again.asks = qp, sent.psn, sent, True
            self._packets(again)
            sent.latest, sent.attempt, sent.sent_ps = again, qp.attempt, None
            sent.at_ps = max(now_ps, sent.at_ps)
            if came:
                end.counters.retransmitted += 1 + len(again.more or ())
            self.port.again(sent.at_ps, again, self._request)
        for work in qp.send_queue:  # keys rise in the order in which requests go out
            qp.key = work.key = qp.key + (1 << REQUEST_SHIFT)

    # requester: what comes back -----------------------------------------------------------------------------
    @override
    def _take_ack(self, work: SendWR) -> None:
        if self.sram.crowded:
            self.contexts.answered(work, 0, 0, True, partial(self._acked, work))
        else:
            self._acked(work)

    def _acked(self, work: SendWR) -> None:
        """An acknowledgement, or a NAK, has been processed."""
        qp = work.qp
        if qp.error:
            return
        end, sent = self.end(qp), work.sent
        if sent is not None and work.status is _SUCCESS:
            self._acknowledges(qp, end, sent.last, work.attempt)
            return
        refused = (work.psn + work.sent_bytes // self._mtu_bytes) & PSN_MASK
        if not self._acknowledges(qp, end, refused - 1, work.attempt) or not end.sent:
            return
        oldest = end.sent[0]
        if distance(refused, oldest.psn) < 0 or distance(refused, oldest.last) > 0:
            return  # it speaks of what has been settled
        if sent is None:
            if work.attempt == oldest.attempt:
                end.counters.packet_seq_err += 1
                self._retry(qp, end)
        elif work.status is not _RNR or (qp.rnr_retry != RNR_RETRY_FOREVER and qp.repeats >= qp.rnr_retry):
            self._answered(qp, oldest.work, work.status, None)
        elif not qp.stalled and work.attempt == oldest.attempt:
            end.counters.rnr_nak_retry_err += 1
            qp.repeats += 1
            qp.stalled = True
            self.port.withdraw(qp, self.clock._now)  # what has not come to the engine goes with the repetition
            assert qp.peer is not None
            self.clock.call_at(self.clock._now + qp.peer.nic.parameters.rnr_timer_ps, self._after_rnr, qp)

    def _after_rnr(self, qp: QueuePair) -> None:
        if not qp.error:
            qp.stalled = False
            self._go_back(qp, self.end(qp))
            self.pump(qp)

    def _acknowledges(self, qp: QueuePair, end: TransportEnd, psn: int, attempt: int) -> bool:
        """All up to ``psn`` has been taken in, says an answer to what was sent at ``attempt``.

        False if that cannot be all of the truth: a response before it is missing.
        """
        while end.sent and distance(psn, end.sent[0].last) >= 0:
            sent = end.sent[0]
            if sent.work.opcode in NON_POSTED:
                if attempt >= sent.attempt:
                    end.counters.implied_nak_seq_err += 1
                    self._retry(qp, end)
                return False
            self._answered(qp, sent.work, _SUCCESS, sent.observe)
            if qp.error:
                return False
        if distance(psn, end.oldest) >= 0:
            end.oldest = (psn + 1) & PSN_MASK
            self._progress(end)
        return True

    def _progress(self, end: TransportEnd) -> None:
        end.retries, end.since_ps = 0, self.clock._now

    @override
    def _take_response(self, packet: Packet) -> None:
        """A packet of a response with data has been processed, if it is the one that is missed."""
        work, at, payload, _, end_ps = packet
        qp = work.qp
        if qp.error or end_ps > qp.peer.off_ps:  # type: ignore[union-attr]  # cut off in the port
            return
        end, sent = self.end(qp), work.sent
        assert sent is not None
        if not end.sent or distance(sent.psn, end.sent[0].psn) < 0:
            return  # a second response
        if not self._acknowledges(qp, end, sent.psn - 1, work.attempt):
            return
        if sent.answer == work.attempt and at < sent.got:
            return  # the same packet once more
        if not at:
            sent.answer, sent.got = work.attempt, 0
        if sent.answer != work.attempt or at != sent.got:
            if work.attempt == sent.attempt:
                end.counters.implied_nak_seq_err += 1
                self._retry(qp, end)
            return
        sent.got += len(payload)
        self._progress(end)
        super()._take_response(packet)

    @override
    def _answered(self, qp: QueuePair, work: SendWR, status: Status, observe: Observe | None) -> None:
        if qp.reliable and qp.outstanding:
            end = self.end(qp)
            if end.sent and end.sent[0] is getattr(work, "sent", None):
                sent = end.sent.popleft()
                work = sent.work
                if distance(sent.last, end.oldest) >= 0:
                    end.oldest = (sent.last + 1) & PSN_MASK
                self._progress(end)
        super()._answered(qp, work, status, observe)

    @override
    def flush(self, qp: QueuePair) -> None:
        """Complete all that was posted to a broken queue pair with IBV_WC_WR_FLUSH_ERR."""
        super().flush(qp)
        self.end(qp).sent.clear()

    # responder ----------------------------------------------------------------------------------------------
    @override
    def take_in(self, packet: Packet) -> None:
        """A packet of a WRITE or SEND has been processed: take it in, if it is its turn."""
        if self._expected(packet):
            super().take_in(packet)

    @override
    def serve(self, packet: Packet) -> None:
        """A request that is answered once executed has been processed: take it in, if it is its turn."""
        if self._expected(packet):
            super().serve(packet)

    def _expected(self, packet: Packet) -> bool:
        work, at, _, _, end_ps = packet
        qp = work.qp.peer or work.destination
        assert qp is not None
        if end_ps > work.qp.off_ps or qp.gone:
            return False
        end, psn = self.end(qp), (work.psn + at // self._mtu_bytes) & PSN_MASK
        if qp.qp_type is QpType.IBV_QPT_UC:
            if at and (psn != end.expected or end.broken is work):
                end.broken = work
            end.expected = (psn + 1) & PSN_MASK
            return end.broken is not work
        if not qp.reliable:
            return True
        if qp.ignores(work):
            return False
        early = distance(psn, end.expected)
        if not early:
            end.told = False
            end.expected = (psn + (psns(work, self._mtu_bytes) if work.opcode is _READ else 1)) & PSN_MASK
        elif early > 0:
            end.counters.out_of_sequence += 1
            if not end.told:
                end.told = True
                self._refuse_early(qp, end, work, at)
        else:
            end.counters.duplicate_request += 1
            self._duplicate(qp, end, packet)
        return not early

    def _refuse_early(self, qp: QueuePair, end: TransportEnd, work: SendWR, at: int) -> None:
        """Answer a packet that came too early: with the PSN that is expected, behind the answers before it."""
        nak = replace(work, span=None, payload=b"", sent_bytes=0)
        nak.qp, nak.psn, nak.key = work.qp, end.expected, work.key + _NAK + (at >> PACKET_SHIFT)
        nak.sent = None

        def send(at_ps: int) -> None:
            if distance(nak.psn, end.expected) <= 0:  # else one before it has been refused meanwhile
                nak.n_bytes, nak.more = self._ack_bytes, None
                self.port.response(at_ps, nak, self._ack)

        qp.responses.ready(nak, self.clock._now + self._ack_ps, send)

    def _duplicate(self, qp: QueuePair, end: TransportEnd, packet: Packet) -> None:
        """It has been taken in before; what is still being executed will be answered anyway."""
        work, now_ps = packet[0], self.clock._now
        if work.opcode is _READ:
            super().serve(packet)
        elif work.opcode in NON_POSTED:
            answer = end.answers.get(work.psn)
            if answer is not None:
                super().answer(qp, work, now_ps + self._ack_ps, *answer)
        elif packet[3] and work.sent is not None and distance(work.sent.last, end.accepted) <= 0:
            super()._acknowledge(qp, work, None)

    @override
    def _acknowledge(
        self, qp: QueuePair, work: SendWR, observe: Observe | None, status: Status = Status.IBV_WC_SUCCESS
    ) -> None:
        """A WRITE or SEND has been accepted, or a request refused."""
        end = self.end(qp)
        if status is _SUCCESS and work.sent is not None:
            end.accepted, work.sent.observe = work.sent.last, observe
            end.unanswered += 1
            if end.unanswered < self._ack_interval and not work.asks:
                qp.responses.forget(work)
                return
            end.unanswered = 0
        elif status is _RNR:
            end.expected, end.told = (work.psn + work.sent_bytes // self._mtu_bytes) & PSN_MASK, False
        super()._acknowledge(qp, work, observe, status)

    @override
    def answer(
        self, qp: QueuePair, work: SendWR, ready_ps: int, payload: bytes = b"", observe: Observe | None = None
    ) -> None:
        """A request has been executed: keep the answer, if it may be needed again."""
        if work.opcode is not _READ:
            answers = self.end(qp).answers
            answers[work.psn] = payload, observe
            if len(answers) > self.parameters.outstanding_reads:
                del answers[next(iter(answers))]
        super().answer(qp, work, ready_ps, payload, observe)

    @override
    def _open(self, qp: QueuePair, work: SendWR, address: int) -> None:
        """No WRITE takes the way on which nobody looks at its PSN's acknowledgement."""
