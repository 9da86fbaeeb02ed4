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
from ...verbs.objects import QueuePair
from ...verbs.opcodes import NON_POSTED, RECEIVING, Opcode
from ...verbs.work import REQUEST_SHIFT, SendWR
from ..adapter import mark
from ..nic import Nic
from ..packets import request_bytes
from ..port import PACKET_SHIFT, RESPONSE, WITHDRAWN, Packet, Port
from .psn import TransportCounters

_WRITE = Opcode.IBV_WR_RDMA_WRITE


class CountedPort(Port):
    """A port that tells its adapter of every request that goes to the engine, before it goes."""

    def __init__(self, nic: Crossing, clock: Clock, fabric: Fabric, platform: Platform) -> None:
        super().__init__(clock, fabric, nic.name, platform.nic)
        self._nic = nic

    @override
    def request(self, at_ps: int, work: SendWR, leave: Callable[[SendWR], None]) -> None:
        """A request is ready for the engine at ``at_ps``."""
        self._nic.goes(at_ps, work)
        super().request(at_ps, work, leave)

    @override
    def watched_request(self, at_ps: int, work: SendWR, out: Callable[[SendWR], None]) -> None:
        """The same where somebody wants to know when it has left."""
        self._nic.goes(at_ps, work)
        super().watched_request(at_ps, work, out)

    def again(self, at_ps: int, work: SendWR, leave: Callable[[SendWR], None]) -> None:
        """A request that has its number already."""
        super().request(at_ps, work, leave)


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
    def goes(self, at_ps: int, work: SendWR) -> None:
        """A request goes to the engine for the first time, to be there at ``at_ps``."""

    @abstractmethod
    def has_left(self, work: SendWR) -> None:
        """It is known when its last bit has left the port."""

    @abstractmethod
    def counted(self, qp: QueuePair) -> TransportCounters:
        """What is counted of a queue pair of this adapter."""

    # across -------------------------------------------------------------------------------------------------
    def _cross(
        self, remote: Nic, n_bytes: int, end_ps: int, key: int, go_on: Callable[[Any], None], work: SendWR, *rest: Any
    ) -> None:
        """The first bit of a packet of ``work`` could be at the last switch now: ``go_on`` each time that it passes it.

        ``go_on`` gets when its last bit is at ``remote``, then ``work`` and what comes with it.
        """
        clock, fabric = self.clock, self._fabric
        now_ps = clock._now
        at_switch_ps = fabric.stored_ps(self.name, remote.name, end_ps, n_bytes) if fabric.stores else now_ps
        for turn, late_ps in enumerate(fabric.path(self.name, remote.name).fate(now_ps)):
            if turn:
                work = self._repeated(work)
                key = work.key + (key & ((1 << REQUEST_SHIFT) - 1))
            passing = remote, n_bytes, end_ps + late_ps, go_on, work, rest
            if at_switch_ps + late_ps == now_ps:
                self._pass(passing)
            else:
                clock.hardware(at_switch_ps + late_ps, key, self._pass, passing)

    def _pass(self, passing: tuple[Any, ...]) -> None:
        """A packet goes through the last switch, unless its output is full."""
        remote, n_bytes, end_ps, go_on, work, rest = passing
        fabric = self._fabric
        if not fabric.fits(remote.name, self.clock._now, n_bytes):
            fabric.path(self.name, remote.name).lost += 1
            return
        tail_ps = self.crossed(remote, 0 if fabric.stores else end_ps, n_bytes)
        fabric.queued(remote.name, tail_ps - self._last_ps, n_bytes)
        go_on((tail_ps, work, *rest))

    def _repeated(self, work: SendWR) -> SendWR:
        """The same once more, with a place of its own among those that come at once."""
        again = copy.copy(work)
        again.key = work.qp.key = work.qp.key + (1 << REQUEST_SHIFT)
        return again

    # requests -----------------------------------------------------------------------------------------------
    @override
    def _request(self, work: SendWR) -> None:
        now_ps = self.clock._now
        start_ps = work.start_ps
        if start_ps >= 0:
            head_ps = start_ps + self._propagation_ps
        elif start_ps == WITHDRAWN:
            return
        else:
            head_ps = self.port.serve_request(work, now_ps)
        if head_ps > now_ps:
            self.clock.hardware(head_ps, work.key, self._request, work)
            return
        mtu, at, more = self._mtu_bytes, work.sent_bytes, work.more or []
        work.sent_ps = more[-1][1] if more else work.end_ps
        self.has_left(work)
        first: Packet = (work, at, work.payload[at : at + mtu], not more, work.end_ps)
        for turn, (start_ps, end_ps) in enumerate(more, 1):
            at += mtu
            packet = (work, at, work.payload[at : at + mtu], turn == len(more), end_ps)
            self.clock.hardware(start_ps + self._propagation_ps, work.key + (at >> PACKET_SHIFT), self._forward, packet)
        self._forward(first)

    @override
    def _forward(self, packet: Packet) -> None:
        work, at, payload, last, end_ps = packet
        qp = work.qp
        if end_ps > qp.off_ps:  # cut off in the port
            return
        self.counted(qp).packets += 1
        n_bytes = request_bytes(self.parameters.headers, qp.qp_type, work, at, last) + len(payload)
        remote = (qp.peer or work.destination).nic  # type: ignore[union-attr]
        key = work.key + (at >> PACKET_SHIFT)
        self._cross(remote, n_bytes, end_ps, key, self._came, work, at, payload, last, end_ps)

    def _came(self, found: tuple[Any, ...]) -> None:
        tail_ps, *rest = found
        packet: Any = tuple(rest)
        work, at = packet[0], packet[1]
        mark(work, "wire and switch", tail_ps)
        to = work.qp.peer or work.destination
        remote = to.nic
        done_ps = remote.request_received(tail_ps, to, work, at)
        handler = remote.take_in if work.opcode is _WRITE or work.opcode not in NON_POSTED else remote.serve
        if remote.sram.crowded:
            handler = remote.translate
        heappush(self._queue, (done_ps, HARDWARE, work.key + (at >> PACKET_SHIFT), handler, packet))

    # answers ------------------------------------------------------------------------------------------------
    @override
    def _ack(self, work: SendWR) -> None:
        if work.start_ps < 0:
            self.port.serve_response(work)
        head_ps, key = work.start_ps + self._propagation_ps, work.key + RESPONSE
        if head_ps > self.clock._now:
            self.clock.hardware(head_ps, key, self._ack, work)
            return
        qp = work.qp.peer
        assert qp is not None
        if work.end_ps <= qp.off_ps:  # else cut off in the port
            self.counted(qp).packets += 1
            self._cross(work.qp.nic, self._ack_bytes, work.end_ps, key, self._ack_came, work)

    def _ack_came(self, found: tuple[int, SendWR]) -> None:
        tail_ps, work = found
        work.qp.nic.acknowledged(work, tail_ps)

    @override
    def acknowledged(self, work: SendWR, tail_ps: int) -> None:
        """The last bit of an acknowledgement arrives at ``tail_ps``."""
        qp = work.qp
        if work.opcode is _WRITE or work.opcode not in RECEIVING:
            mark(work, "ACK on the wire", tail_ps)
        done_ps = qp.last_answer_ps = max(tail_ps + self._acked_ps, qp.last_answer_ps)
        self.clock.hardware(done_ps, work.key + RESPONSE, self._take_ack, work)

    @override
    def _return(self, packet: Packet) -> None:
        work, at, payload, last, end_ps = self._loaded(packet)
        qp, headers = work.qp.peer, self.parameters.headers
        assert qp is not None
        if end_ps > qp.off_ps:  # cut off in the port
            return
        self.counted(qp).packets += 1
        n_bytes = len(payload) + (headers.read_response_bytes if at == 0 or last else headers.middle_bytes)
        key = work.key + RESPONSE + (at >> PACKET_SHIFT)
        self._cross(work.qp.nic, n_bytes, end_ps, key, self._returned, work, at, payload, last, end_ps)

    def _returned(self, found: tuple[Any, ...]) -> None:
        tail_ps, *rest = found
        packet: Any = tuple(rest)
        work, at = packet[0], packet[1]
        qp, requester = work.qp, work.qp.nic
        mark(work, "wire and switch", tail_ps)
        done_ps = requester.response_received(tail_ps, qp)
        done_ps = qp.last_answer_ps = max(done_ps, qp.last_answer_ps)
        key = work.key + RESPONSE + (at >> PACKET_SHIFT)
        heappush(self._queue, (done_ps, HARDWARE, key, requester.take_response, packet))

    @override
    def unanswered(self, work: SendWR) -> None:
        """Nobody will ever answer this request: the transport's timer finds that out."""
