"""How a responder answers: acknowledgements and responses with data, from the queue pair's order to the requester."""

from __future__ import annotations

from heapq import heappush

from ...sim.clock import HARDWARE
from ..verbs.opcodes import Status
from ..verbs.ties import PACKET_SHIFT, RESPONSE
from .adapter import Adapter
from .ends import ReceiveEnd
from .inbound import Observe
from .message import Message, mark
from .port import Packet


class Answers(Adapter):
    """The part of an adapter that answers requests."""

    def refuse(self, end: ReceiveEnd, message: Message, status: Status) -> None:
        """Answer a request with an error; the connection is broken."""
        self.nak(end, message, status)
        end.qp.fail()

    def nak(self, end: ReceiveEnd, message: Message, status: Status) -> None:
        """Answer a request with what its requester's completion will say, if it does not try again."""
        self._acknowledge(end, message, None, status)

    def _acknowledge(
        self, end: ReceiveEnd, message: Message, observe: Observe | None, status: Status = Status.IBV_WC_SUCCESS
    ) -> None:
        """An answer of one packet to ``message`` will be ready for the port."""
        message.status, message.observe = status, observe

        def send(at_ps: int) -> None:
            message.n_bytes, message.more = self._ack_bytes, None
            self.port.response(at_ps, message, self._ack)

        end.responses.ready(message, self.clock._now + self._ack_ps, send)

    def answer(
        self, end: ReceiveEnd, message: Message, ready_ps: int, payload: bytes = b"", observe: Observe | None = None
    ) -> None:
        """The response to an executed request will be ready, with what it returns: a packet for each MTU."""
        headers, mtu, length = self.parameters.headers, self._mtu_bytes, len(payload)

        def send(at_ps: int) -> None:
            mark(message, "responder PCIe read", at_ps)
            message.payload, message.observe = payload, observe
            message.n_bytes, message.more = headers.read_response_bytes + min(length, mtu), None
            if length > mtu:
                starts = range(mtu, length, mtu)
                message.more = [headers.middle_bytes + mtu for _ in starts[:-1]]
                message.more.append(headers.read_response_bytes + length - starts[-1])
            self.port.response(at_ps, message, self._response)

        end.responses.ready(message, ready_ps, send)

    def _ack(self, message: Message) -> None:
        """An acknowledgement may be at the switch: if it is, it goes on to the requester."""
        if message.start_ps < 0:
            self.port.serve_response(message)
        head_ps = message.start_ps + self._propagation_ps
        if head_ps > self.clock._now:
            heappush(self._queue, (head_ps, HARDWARE, message.key + RESPONSE, self._ack, message))
            return
        requester = message.end.nic
        if message.end_ps > message.to.off_ps:  # cut off in the port
            requester.unanswered(message)
            return
        requester.acknowledged(message, self.crossed(requester, message.end_ps, self._ack_bytes))

    def _response(self, message: Message) -> None:
        """The first packet of a response may be at the switch: if it is, it goes on, and the others follow."""
        if message.start_ps < 0:
            self.port.serve_response(message)
        head_ps = message.start_ps + self._propagation_ps
        key = message.key + RESPONSE
        if head_ps > self.clock._now:
            self.clock.hardware(head_ps, key, self._response, message)
            return
        mtu, more = self._mtu_bytes, message.more or []
        for turn, (start_ps, end_ps) in enumerate(more, 1):
            packet = (message, turn * mtu, b"", turn == len(more), end_ps)
            at_switch_ps = start_ps + self._propagation_ps
            self.clock.hardware(at_switch_ps, key + (packet[1] >> PACKET_SHIFT), self._return, packet)
        self._return((message, 0, b"", not more, message.end_ps))

    def _loaded(self, packet: Packet) -> Packet:
        """The packet of a response that leaves now, with its payload: that of later ones need not be here yet."""
        message, at, _, last, end_ps = packet
        if message.parts is not None:
            self.dma.catch_up(message.work.remote_address)
        return message, at, bytes(message.payload[at : at + self._mtu_bytes]), last, end_ps

    def _return(self, packet: Packet) -> None:
        """The first bit of a packet of a response is at the switch: its way until it has been processed."""
        packet = message, at, payload, last, end_ps = self._loaded(packet)
        requester, headers = message.end.nic, self.parameters.headers
        if end_ps > message.to.off_ps:  # cut off in the port
            requester.unanswered(message)
            return
        edge_bytes = headers.read_response_bytes if at == 0 or last else headers.middle_bytes
        tail_ps = self.crossed(requester, end_ps, edge_bytes + len(payload))
        mark(message, "wire and switch", tail_ps)
        done_ps = requester.response_received(tail_ps, message.end)
        done_ps = message.end.last_answer_ps = max(done_ps, message.end.last_answer_ps)
        key = message.key + RESPONSE + (at >> PACKET_SHIFT)
        self.clock.hardware(done_ps, key, requester.take_response, packet)
