"""The way across a fabric that may lose, hold up, reorder or repeat packets, store before it forwards, or be full.

It stands where ``models.nic.wire`` does on a fabric that does none of this. Where the first bit of a packet could be at
the last switch, its fate is looked up; then it goes through that switch at once, or when all of it is there, or as much
later as it is held up. Packets that find the buffer of a switch's output full are dropped.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from heapq import heappush
from typing import Any, Protocol

from typing_extensions import override

from ....sim.clock import HARDWARE
from ...fabric.fabric import Fabric
from ...verbs.opcodes import NON_POSTED
from ...verbs.ties import NEXT_REQUEST, PACKET_SHIFT, RESPONSE
from ..adapter import Adapter
from ..ends import EndsAdapter, ReceiveEnd, SendEnd
from ..message import Message, Packet, mark
from ..packets import request_bytes
from ..wire import LeavingRequests, crossed, loaded
from .psn import TransportCounters


class Counting(Protocol):
    """The reliability behind a lossy wire, as the wire calls it."""

    def has_left(self, message: Message) -> None:
        """It is known when a request's last bit has left the port."""

    def counted(self, end: SendEnd | ReceiveEnd) -> TransportCounters:
        """The counters of a queue pair of this adapter."""


class LossyWire(LeavingRequests):
    """The wire of one adapter on a disturbed fabric; ``behind`` is the reliability on top of it."""

    def __init__(self, nic: Adapter, fabric: Fabric, behind: Counting) -> None:
        super().__init__(nic, fabric)
        self._behind = behind

    # across -------------------------------------------------------------------------------------------------
    def _cross(
        self,
        remote: EndsAdapter,
        n_bytes: int,
        end_ps: int,
        key: int,
        go_on: Callable[[Any], None],
        message: Message,
        *rest: Any,
    ) -> None:
        """The first bit of a packet of ``message`` could be at the last switch now: ``go_on`` each time it passes it.

        ``go_on`` gets the instant at which its last bit is at ``remote``, then ``message`` and the further arguments.
        """
        clock, fabric = self._clock, self._fabric
        now_ps = clock._now
        at_switch_ps = fabric.stored_ps(self._nic.name, remote.name, end_ps, n_bytes) if fabric.stores else now_ps
        for turn, late_ps in enumerate(fabric.path(self._nic.name, remote.name).fate(now_ps)):
            if turn:
                message = self._repeated(message)
                key = message.key + (key % NEXT_REQUEST)
            passing = remote, n_bytes, end_ps + late_ps, go_on, message, rest
            if at_switch_ps + late_ps == now_ps:
                self._pass(passing)
            else:
                clock.hardware(at_switch_ps + late_ps, key, self._pass, passing)

    def _pass(self, passing: tuple[Any, ...]) -> None:
        """A packet goes through the last switch, unless its output is full."""
        remote, n_bytes, end_ps, go_on, message, rest = passing
        fabric = self._fabric
        if not fabric.fits(remote.name, self._clock._now, n_bytes):
            fabric.path(self._nic.name, remote.name).lost += 1
            return
        tail_ps = crossed(fabric, remote, self._clock._now, 0 if fabric.stores else end_ps, n_bytes)
        fabric.queued(remote.name, tail_ps - fabric.last_ps, n_bytes)
        go_on((tail_ps, message, *rest))

    def _repeated(self, message: Message) -> Message:
        """A copy of the message for a packet that comes twice, with a key of its own for ties."""
        again = copy.copy(message)
        again.key = message.end.key = message.end.key + NEXT_REQUEST
        return again

    # requests -----------------------------------------------------------------------------------------------
    @override
    def _leaves(self, message: Message) -> None:
        self._behind.has_left(message)

    @override
    def _forward(self, packet: Packet) -> None:
        message, at, payload, last, end_ps = packet
        end = message.end
        if end_ps > end.off_ps:  # cut off in the port
            return
        self._behind.counted(end).packets += 1
        n_bytes = request_bytes(self._headers, end.qp.qp_type, message, at, last) + len(payload)
        remote = message.to.nic
        key = message.key + (at >> PACKET_SHIFT)
        self._cross(remote, n_bytes, end_ps, key, self._came, message, at, payload, last, end_ps)

    def _came(self, found: tuple[Any, ...]) -> None:
        tail_ps, *rest = found
        packet: Any = tuple(rest)
        message, at = packet[0], packet[1]
        mark(message, "wire and switch", tail_ps)
        to = message.to
        remote = to.nic
        done_ps = remote.request_received(tail_ps, to, message, at)
        handler = remote.serve if message.opcode in NON_POSTED else remote.take_in
        if remote.sram.crowded:
            handler = remote.translate
        heappush(self._queue, (done_ps, HARDWARE, message.key + (at >> PACKET_SHIFT), handler, packet))

    # answers ------------------------------------------------------------------------------------------------
    def acknowledgement(self, message: Message) -> None:
        """An acknowledgement may be at the switch: if it is, it goes on to the requester."""
        if message.start_ps < 0:
            self._port.serve_response(message)
        head_ps, key = message.start_ps + self._propagation_ps, message.key + RESPONSE
        if head_ps > self._clock._now:
            self._clock.hardware(head_ps, key, self.acknowledgement, message)
            return
        end = message.to
        if message.end_ps <= end.off_ps:  # else cut off in the port
            self._behind.counted(end).packets += 1
            self._cross(message.end.nic, self._headers.ack_bytes, message.end_ps, key, self._ack_came, message)

    def _ack_came(self, found: tuple[int, Message]) -> None:
        tail_ps, message = found
        message.end.nic.acknowledged(message, tail_ps)

    def response(self, message: Message) -> None:
        """The first packet of a response may be at the switch: if it is, it goes on, and the others follow."""
        if message.start_ps < 0:
            self._port.serve_response(message)
        head_ps, key = message.start_ps + self._propagation_ps, message.key + RESPONSE
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
        message, at, payload, last, end_ps = loaded(self._nic, packet)
        end, headers = message.to, self._headers
        assert end is not None
        if end_ps > end.off_ps:  # cut off in the port
            return
        self._behind.counted(end).packets += 1
        n_bytes = len(payload) + (headers.read_response_bytes if at == 0 or last else headers.middle_bytes)
        key = message.key + RESPONSE + (at >> PACKET_SHIFT)
        self._cross(message.end.nic, n_bytes, end_ps, key, self._returned, message, at, payload, last, end_ps)

    def _returned(self, found: tuple[Any, ...]) -> None:
        tail_ps, *rest = found
        packet: Any = tuple(rest)
        message, at = packet[0], packet[1]
        end, requester = message.end, message.end.nic
        mark(message, "wire and switch", tail_ps)
        done_ps = requester.response_received(tail_ps, end)
        done_ps = end.last_answer_ps = max(done_ps, end.last_answer_ps)
        key = message.key + RESPONSE + (at >> PACKET_SHIFT)
        heappush(self._queue, (done_ps, HARDWARE, key, requester.take_response, packet))
