"""The wire: from the port of an adapter until the far one has processed a packet, over a fabric that disturbs nothing.

Where the first bit of a packet is at the last switch, flows meet: that is the event of each hop here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from heapq import heappush
from typing import Any

from typing_extensions import override

from ...sim.clock import HARDWARE
from ..fabric.fabric import Fabric
from ..verbs.opcodes import NON_POSTED
from ..verbs.ties import PACKET_SHIFT, RESPONSE
from .adapter import Adapter
from .ends import EndsAdapter
from .message import Message, Packet, mark
from .packets import request_bytes
from .port import WITHDRAWN


def crossed(fabric: Fabric, remote: EndsAdapter, head_ps: int, end_ps: int, n_bytes: int) -> int:
    """When the tail of a packet is at ``remote`` whose head is at the switch at ``head_ps``.

    Its tail leaves the sender's port at ``end_ps``. Cut-through: the tail leaves the switch when the output has carried
    it, and not before it is in.
    """
    tail_in_ps = end_ps + fabric.lead_ps + fabric.crossing_ps
    _, tail_ps = remote.link_in.send(head_ps + fabric.crossing_ps, n_bytes)
    return max(tail_ps, tail_in_ps) + fabric.last_ps


class LeavingRequests(ABC):
    """How a request leaves its port, packet by packet: the beginning of the way that both wires share."""

    def __init__(self, nic: Adapter, fabric: Fabric) -> None:
        self._nic = nic
        self._fabric = fabric
        self._clock = nic.clock
        self._queue: list[Any] = nic.clock._queue
        self._port = nic.port
        self._headers = nic.parameters.headers
        self._mtu_bytes = nic.parameters.mtu_bytes
        self._propagation_ps = fabric.lead_ps

    def request(self, message: Message) -> None:
        """The request's first packet may be at the switch: if it is, it goes on, and the others follow."""
        now_ps = self._clock._now
        start_ps = message.start_ps
        if start_ps >= 0:
            head_ps = start_ps + self._propagation_ps
        elif start_ps == WITHDRAWN:
            return
        else:
            head_ps = self._port.serve_request(message, now_ps)
        if head_ps > now_ps:
            heappush(self._queue, (head_ps, HARDWARE, message.key, self.request, message))
            return
        mtu, base, more = self._mtu_bytes, message.sent_bytes, message.more or ()
        message.sent_ps = more[-1][1] if more else message.end_ps
        self._leaves(message)
        first = (message, base, message.payload[base : base + mtu], not more, message.end_ps)
        for turn, (start_ps, end_ps) in enumerate(more, 1):
            at = base + turn * mtu
            packet = (message, at, message.payload[at : at + mtu], turn == len(more), end_ps)
            self._clock.hardware(
                start_ps + self._propagation_ps, message.key + (at >> PACKET_SHIFT), self._forward, packet
            )
        self._forward(first)

    @abstractmethod
    def _leaves(self, message: Message) -> None:
        """It is known when the request's last bit has left the port."""

    @abstractmethod
    def _forward(self, packet: Packet) -> None:
        """The first bit of a packet is at the switch: its way until the responder has processed it."""


class ShortWire(LeavingRequests):
    """The wire of one adapter, on a fabric that disturbs nothing."""

    # from the engine to the responder -----------------------------------------------------------------------
    @override
    def _leaves(self, message: Message) -> None:
        pass  # an undisturbed request is never repeated

    @override
    def _forward(self, packet: Packet) -> None:
        message, at, payload, last, end_ps = packet
        end, headers = message.end, self._headers
        if end_ps > end.off_ps:  # cut off in the port
            return
        to = message.to
        remote = to.nic
        n_bytes = request_bytes(headers, end.qp.qp_type, message, at, last) + len(payload)
        tail_ps = self._crossed(remote, end_ps, n_bytes)
        mark(message, "wire and switch", tail_ps)
        done_ps = remote.request_received(tail_ps, to, message, at)
        key = message.key + (at >> PACKET_SHIFT)
        plain = end.plain
        handler: Callable[[Packet], None]
        if remote.sram.crowded:
            handler = remote.translate
        elif plain is not None and plain.arrivals is not None:
            handler = plain.arrivals[message.opcode]
        else:
            handler = remote.serve if message.opcode in NON_POSTED else remote.take_in
        heappush(self._queue, (done_ps, HARDWARE, key, handler, packet))

    # back to the requester ------------------------------------------------------------------------------------
    def acknowledgement(self, message: Message) -> None:
        """An acknowledgement may be at the switch: if it is, it goes on to the requester."""
        if message.start_ps < 0:
            self._port.serve_response(message)
        head_ps = message.start_ps + self._propagation_ps
        if head_ps > self._clock._now:
            heappush(self._queue, (head_ps, HARDWARE, message.key + RESPONSE, self.acknowledgement, message))
            return
        requester = message.end.nic
        if message.end_ps > message.to.acks_ps:  # cut off in the port, or lost behind it
            requester.unanswered(message)
            return
        requester.acknowledged(message, self._crossed(requester, message.end_ps, self._headers.ack_bytes))

    def response(self, message: Message) -> None:
        """The first packet of a response may be at the switch: if it is, it goes on, and the others follow."""
        if message.start_ps < 0:
            self._port.serve_response(message)
        head_ps = message.start_ps + self._propagation_ps
        key = message.key + RESPONSE
        if head_ps > self._clock._now:
            self._clock.hardware(head_ps, key, self.response, message)
            return
        mtu, more = self._mtu_bytes, message.more or []
        for turn, (start_ps, end_ps) in enumerate(more, 1):
            packet = (message, turn * mtu, b"", turn == len(more), end_ps)
            at_switch_ps = start_ps + self._propagation_ps
            self._clock.hardware(at_switch_ps, key + (packet[1] >> PACKET_SHIFT), self._return, packet)
        self._return((message, 0, b"", not more, message.end_ps))

    def _return(self, packet: Packet) -> None:
        """The first bit of a packet of a response is at the switch: its way until it has been processed."""
        packet = message, at, payload, last, end_ps = loaded(self._nic, packet)
        requester, headers = message.end.nic, self._headers
        if end_ps > message.to.off_ps:  # cut off in the port
            requester.unanswered(message)
            return
        edge_bytes = headers.read_response_bytes if at == 0 or last else headers.middle_bytes
        tail_ps = self._crossed(requester, end_ps, edge_bytes + len(payload))
        mark(message, "wire and switch", tail_ps)
        done_ps = requester.response_received(tail_ps, message.end)
        done_ps = message.end.last_answer_ps = max(done_ps, message.end.last_answer_ps)
        key = message.key + RESPONSE + (at >> PACKET_SHIFT)
        self._clock.hardware(done_ps, key, requester.take_response, packet)

    def _crossed(self, remote: EndsAdapter, end_ps: int, n_bytes: int) -> int:
        return crossed(self._fabric, remote, self._clock._now, end_ps, n_bytes)


def loaded(nic: Adapter, packet: Packet) -> Packet:
    """The packet of a response that leaves now, with its payload: that of later ones need not be here yet."""
    message, at, _, last, end_ps = packet
    if message.parts is not None:
        nic.slot.dma.catch_up(message.work.remote_address)
    return message, at, bytes(message.payload[at : at + nic.parameters.mtu_bytes]), last, end_ps
