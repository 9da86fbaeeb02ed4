"""How a responder answers: acknowledgements and responses with data, in the order of the queue pair's requests."""

from __future__ import annotations

from ..verbs.opcodes import Status
from .adapter import Adapter
from .ends import ReceiveEnd
from .inbound import Observe
from .message import Message, mark


class Answers:
    """The answering part of one adapter."""

    def __init__(self, nic: Adapter) -> None:
        self._nic = nic
        self._headers = nic.parameters.headers

    def refuse(self, end: ReceiveEnd, message: Message, status: Status) -> None:
        """Answer a request with an error; the connection is broken for all requests behind it."""
        end.refused_key = min(end.refused_key, message.key) if end.qp.error else message.key
        self.acknowledge(end, message, None, status)
        end.qp.fail()

    def acknowledge(
        self, end: ReceiveEnd, message: Message, observe: Observe | None, status: Status = Status.IBV_WC_SUCCESS
    ) -> None:
        """A request has been accepted; or refused with ``status``: its requester's completion says so, if it does not
        try again."""
        if self._nic.reliability.acknowledges(end, message, observe, status):
            self.send_acknowledgement(end, message, observe, status)

    def send_acknowledgement(
        self, end: ReceiveEnd, message: Message, observe: Observe | None, status: Status = Status.IBV_WC_SUCCESS
    ) -> None:
        """An answer of one packet to ``message`` will be ready for the port."""
        nic = self._nic
        message.status, message.observe = status, observe

        def send(at_ps: int) -> None:
            message.n_bytes, message.more = self._headers.ack_bytes, None
            nic.port.response(at_ps, message, nic.wire.acknowledgement)

        end.responses.ready(message, nic.clock._now + nic.parameters.ack_generation_ps, send)

    def answer(
        self, end: ReceiveEnd, message: Message, ready_ps: int, payload: bytes = b"", observe: Observe | None = None
    ) -> None:
        """A request has been executed: its response will be ready at ``ready_ps``."""
        self._nic.reliability.answers(message, payload, observe)
        self.send_answer(end, message, ready_ps, payload, observe)

    def send_answer(
        self, end: ReceiveEnd, message: Message, ready_ps: int, payload: bytes, observe: Observe | None
    ) -> None:
        """The response to an executed request will be ready, with its payload: a packet for each MTU."""
        nic, headers, length = self._nic, self._headers, len(payload)
        mtu = nic.parameters.mtu_bytes

        def send(at_ps: int) -> None:
            mark(message, "responder PCIe read", at_ps)
            message.payload, message.observe = payload, observe
            message.n_bytes, message.more = headers.read_response_bytes + min(length, mtu), None
            if length > mtu:
                starts = range(mtu, length, mtu)
                message.more = [headers.middle_bytes + mtu for _ in starts[:-1]]
                message.more.append(headers.read_response_bytes + length - starts[-1])
            nic.port.response(at_ps, message, nic.wire.response)

        end.responses.ready(message, ready_ps, send)
