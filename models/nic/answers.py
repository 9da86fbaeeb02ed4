"""How a responder answers: acknowledgements and responses with data, from the queue pair's order to the requester."""

from __future__ import annotations

from heapq import heappush

from ...sim.clock import HARDWARE
from ..verbs.objects import QueuePair
from ..verbs.opcodes import Status
from ..verbs.work import SendWR
from .adapter import Adapter, mark
from .inbound import Observe
from .port import PACKET_SHIFT, RESPONSE, Packet


class Answers(Adapter):
    """The part of an adapter that answers requests."""

    def refuse(self, qp: QueuePair, work: SendWR, status: Status) -> None:
        """Answer a request with an error; the connection is broken."""
        self.nak(qp, work, status)
        qp.fail()

    def nak(self, qp: QueuePair, work: SendWR, status: Status) -> None:
        """Answer a request with what its requester's completion will say, if it does not try again."""
        self._acknowledge(qp, work, None, status)

    def _acknowledge(
        self, qp: QueuePair, work: SendWR, observe: Observe | None, status: Status = Status.IBV_WC_SUCCESS
    ) -> None:
        """An answer of one packet to ``work`` will be ready for the port."""
        work.status, work.observe = status, observe

        def send(at_ps: int) -> None:
            work.n_bytes, work.more = self._ack_bytes, None
            self.port.response(at_ps, work, self._ack)

        qp.responses.ready(work, self.clock._now + self._ack_ps, send)

    def answer(
        self, qp: QueuePair, work: SendWR, ready_ps: int, payload: bytes = b"", observe: Observe | None = None
    ) -> None:
        """The response to an executed request will be ready, with what it returns: a packet for each MTU."""
        headers, mtu, length = self.parameters.headers, self._mtu_bytes, len(payload)

        def send(at_ps: int) -> None:
            mark(work, "responder PCIe read", at_ps)
            work.payload, work.observe = payload, observe
            work.n_bytes, work.more = headers.read_response_bytes + min(length, mtu), None
            if length > mtu:
                starts = range(mtu, length, mtu)
                work.more = [headers.middle_bytes + mtu for _ in starts[:-1]]
                work.more.append(headers.read_response_bytes + length - starts[-1])
            self.port.response(at_ps, work, self._response)

        qp.responses.ready(work, ready_ps, send)

    def _ack(self, work: SendWR) -> None:
        """An acknowledgement may be at the switch: if it is, it goes on to the requester."""
        if work.start_ps < 0:
            self.port.serve_response(work)
        head_ps = work.start_ps + self._propagation_ps
        if head_ps > self.clock._now:
            heappush(self._queue, (head_ps, HARDWARE, work.key + RESPONSE, self._ack, work))
            return
        requester = work.qp.nic
        end_ps = work.end_ps
        if end_ps > work.qp.peer.off_ps:  # type: ignore[union-attr]  # cut off in the port
            requester.unanswered(work)
            return
        tail_in_ps = end_ps + self._propagation_ps + self._switch_ps
        _, tail_ps = requester.link_in.send(head_ps + self._switch_ps, self._ack_bytes)
        requester.acknowledged(work, (tail_ps if tail_ps > tail_in_ps else tail_in_ps) + self._last_ps)

    def _response(self, work: SendWR) -> None:
        """The first packet of a response may be at the switch: if it is, it goes on, and the others follow."""
        if work.start_ps < 0:
            self.port.serve_response(work)
        head_ps = work.start_ps + self._propagation_ps
        key = work.key + RESPONSE
        if head_ps > self.clock._now:
            self.clock.hardware(head_ps, key, self._response, work)
            return
        mtu, more = self._mtu_bytes, work.more or []
        for turn, (start_ps, end_ps) in enumerate(more, 1):
            packet = (work, turn * mtu, b"", turn == len(more), end_ps)
            at_switch_ps = start_ps + self._propagation_ps
            self.clock.hardware(at_switch_ps, key + (packet[1] >> PACKET_SHIFT), self._return, packet)
        self._return((work, 0, b"", not more, work.end_ps))

    def _loaded(self, packet: Packet) -> Packet:
        """The packet of a response that leaves now, with its payload: that of later ones need not be here yet."""
        work, at, _, last, end_ps = packet
        if work.parts is not None:
            self.dma.catch_up(work.remote_address)
        return work, at, bytes(work.payload[at : at + self._mtu_bytes]), last, end_ps

    def _return(self, packet: Packet) -> None:
        """The first bit of a packet of a response is at the switch: its way until it has been processed."""
        packet = work, at, payload, last, end_ps = self._loaded(packet)
        requester, headers = work.qp.nic, self.parameters.headers
        if end_ps > work.qp.peer.off_ps:  # type: ignore[union-attr]  # cut off in the port
            requester.unanswered(work)
            return
        edge_bytes = headers.read_response_bytes if at == 0 or last else headers.middle_bytes
        tail_ps = self.crossed(requester, end_ps, edge_bytes + len(payload))
        mark(work, "wire and switch", tail_ps)
        done_ps = requester.response_received(tail_ps, work.qp)
        done_ps = work.qp.last_answer_ps = max(done_ps, work.qp.last_answer_ps)
        key = work.key + RESPONSE + (at >> PACKET_SHIFT)
        self.clock.hardware(done_ps, key, requester.take_response, packet)
