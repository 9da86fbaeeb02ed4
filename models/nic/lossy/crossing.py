"""The way across a fabric that may lose, hold up, reorder or repeat packets, store before it forwards, or be full.

It is the plain form of what requester and responder have written out for a fabric that does none of this: where the
first bit of a packet could be at the last switch, its fate is looked up; then it goes through that switch at once, or
when all of it is there, or as much later as it is held up. What fills a switch's output beyond its buffer is dropped.
"""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable
from heapq import heappush
from typing import Any

import numpy as np
from typing_extensions import override

from ....sim.clock import HARDWARE, Clock
from ...durability.ordering import Ordering
from ...fabric.fabric import Fabric
from ...host.hostmemory import HostMemory
from ...profiles.platform import Platform
from ...verbs.opcodes import NON_POSTED, RECEIVING, Opcode
from ...verbs.ties import NEXT_REQUEST, PACKET_SHIFT, RESPONSE
from ..ends import ReceiveEnd, SendEnd
from ..message import Message, mark
from ..nic import Nic
from ..packets import request_bytes
from ..port import WITHDRAWN, Packet, Port
from .psn import TransportCounters

_WRITE = Opcode.IBV_WR_RDMA_WRITE


class CountedPort(Port):
    """A port that tells its adapter of every request that goes to the engine, before it goes."""

    def __init__(self, nic: Crossing, clock: Clock, fabric: Fabric, platform: Platform) -> None:
        super().__init__(clock, fabric, nic.name, platform.nic)
        self._nic = nic

    @override
    def request(self, at_ps: int, message: Message, leave: Callable[[Message], None]) -> None:
        """A request is ready for the engine at ``at_ps``."""
        self._nic.goes(at_ps, message)
        super().request(at_ps, message, leave)

    @override
    def watched_request(self, at_ps: int, message: Message, out: Callable[[Message], None]) -> None:
        """The same where somebody wants to know when it has left."""
        self._nic.goes(at_ps, message)
        super().watched_request(at_ps, message, out)

    def again(self, at_ps: int, message: Message, leave: Callable[[Message], None]) -> None:
        """A request that has its number already."""
        super().request(at_ps, message, leave)


class Crossing(Nic):
    """An adapter on a disturbed fabric; what makes it reliable all the same is in ``models.nic.lossy.transport``."""

    port: CountedPort

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
        self._fabric = fabric

    @override
    def _make_port(self, clock: Clock, fabric: Fabric, platform: Platform) -> Port:
        return CountedPort(self, clock, fabric, platform)

    # for the transport --------------------------------------------------------------------------------------
    @abstractmethod
    def goes(self, at_ps: int, message: Message) -> None:
        """A request goes to the engine for the first time, to be there at ``at_ps``."""

    @abstractmethod
    def has_left(self, message: Message) -> None:
        """It is known when its last bit has left the port."""

    @abstractmethod
    def counted(self, end: SendEnd | ReceiveEnd) -> TransportCounters:
        """What is counted of a queue pair of this adapter."""

    # across -------------------------------------------------------------------------------------------------
    def _cross(
        self,
        remote: Nic,
        n_bytes: int,
        end_ps: int,
        key: int,
        go_on: Callable[[Any], None],
        message: Message,
        *rest: Any,
    ) -> None:
        """The first bit of a packet of ``message`` could be at the last switch now: ``go_on`` each time it passes it.

        ``go_on`` gets when its last bit is at ``remote``, then ``message`` and what comes with it.
        """
        clock, fabric = self.clock, self._fabric
        now_ps = clock._now
        at_switch_ps = fabric.stored_ps(self.name, remote.name, end_ps, n_bytes) if fabric.stores else now_ps
        for turn, late_ps in enumerate(fabric.path(self.name, remote.name).fate(now_ps)):
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
        if not fabric.fits(remote.name, self.clock._now, n_bytes):
            fabric.path(self.name, remote.name).lost += 1
            return
        tail_ps = self.crossed(remote, 0 if fabric.stores else end_ps, n_bytes)
        fabric.queued(remote.name, tail_ps - self._last_ps, n_bytes)
        go_on((tail_ps, message, *rest))

    def _repeated(self, message: Message) -> Message:
        """The same once more, with a place of its own among those that come at once."""
        again = copy.copy(message)
        again.key = message.end.key = message.end.key + NEXT_REQUEST
        return again

    # requests -----------------------------------------------------------------------------------------------
    @override
    def _request(self, message: Message) -> None:
        now_ps = self.clock._now
        start_ps = message.start_ps
        if start_ps >= 0:
            head_ps = start_ps + self._propagation_ps
        elif start_ps == WITHDRAWN:
            return
        else:
            head_ps = self.port.serve_request(message, now_ps)
        if head_ps > now_ps:
            self.clock.hardware(head_ps, message.key, self._request, message)
            return
        mtu, at, more = self._mtu_bytes, message.sent_bytes, message.more or []
        message.sent_ps = more[-1][1] if more else message.end_ps
        self.has_left(message)
        first: Packet = (message, at, message.payload[at : at + mtu], not more, message.end_ps)
        for turn, (start_ps, end_ps) in enumerate(more, 1):
            at += mtu
            packet = (message, at, message.payload[at : at + mtu], turn == len(more), end_ps)
            self.clock.hardware(
                start_ps + self._propagation_ps, message.key + (at >> PACKET_SHIFT), self._forward, packet
            )
        self._forward(first)

    @override
    def _forward(self, packet: Packet) -> None:
        message, at, payload, last, end_ps = packet
        end = message.end
        if end_ps > end.off_ps:  # cut off in the port
            return
        self.counted(end).packets += 1
        n_bytes = request_bytes(self.parameters.headers, end.qp.qp_type, message, at, last) + len(payload)
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
        handler = remote.take_in if message.opcode is _WRITE or message.opcode not in NON_POSTED else remote.serve
        if remote.sram.crowded:
            handler = remote.translate
        heappush(self._queue, (done_ps, HARDWARE, message.key + (at >> PACKET_SHIFT), handler, packet))

    # answers ------------------------------------------------------------------------------------------------
    @override
    def _ack(self, message: Message) -> None:
        if message.start_ps < 0:
            self.port.serve_response(message)
        head_ps, key = message.start_ps + self._propagation_ps, message.key + RESPONSE
        if head_ps > self.clock._now:
            self.clock.hardware(head_ps, key, self._ack, message)
            return
        end = message.to
        if message.end_ps <= end.off_ps:  # else cut off in the port
            self.counted(end).packets += 1
            self._cross(message.end.nic, self._ack_bytes, message.end_ps, key, self._ack_came, message)

    def _ack_came(self, found: tuple[int, Message]) -> None:
        tail_ps, message = found
        message.end.nic.acknowledged(message, tail_ps)

    @override
    def acknowledged(self, message: Message, tail_ps: int) -> None:
        """The last bit of an acknowledgement arrives at ``tail_ps``."""
        end = message.end
        if message.opcode is _WRITE or message.opcode not in RECEIVING:
            mark(message, "ACK on the wire", tail_ps)
        done_ps = end.last_answer_ps = max(tail_ps + self._acked_ps, end.last_answer_ps)
        self.clock.hardware(done_ps, message.key + RESPONSE, self._take_ack, message)

    @override
    def _return(self, packet: Packet) -> None:
        message, at, payload, last, end_ps = self._loaded(packet)
        end, headers = message.to, self.parameters.headers
        assert end is not None
        if end_ps > end.off_ps:  # cut off in the port
            return
        self.counted(end).packets += 1
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

    @override
    def unanswered(self, message: Message) -> None:
        """Nobody will ever answer this request: the transport's timer finds that out."""
