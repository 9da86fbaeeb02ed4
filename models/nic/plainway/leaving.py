"""A request's way from the doorbell until its responder has processed it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from heapq import heappop, heappush
from typing import Any

from ....sim.clock import HARDWARE
from ...durability.rules import FENCE_WAITS_FOR
from ...fabric.fabric import Departure
from ...verbs.opcodes import KIND, NON_POSTED, Opcode
from ...verbs.ties import NEXT_REQUEST
from ...verbs.work import FENCE, INLINE, SendWR
from ..adapter import Adapter
from ..ends import ReceiveEnd, SendEnd
from ..message import Message, Packet
from ..port import IN_ENGINE
from .fetching import fetching

_WRITE = Opcode.IBV_WR_RDMA_WRITE
_READ = Opcode.IBV_WR_RDMA_READ
_SEND = Opcode.IBV_WR_SEND
_READ_IS_FENCED = KIND[_READ] in FENCE_WAITS_FOR


def leaving(
    nic: Adapter, end: SendEnd, remote: Adapter, to: ReceiveEnd, arrivals: Mapping[Opcode, Callable[[Packet], None]]
) -> tuple[Callable[[SendWR, bytes], bool], Callable[[Message], None]]:
    """``PlainWay.post`` and ``PlainWay.leave`` of a connection; ``arrivals`` has the responder's handlers by verb."""
    qp, clock, headers = end.qp, nic.clock, nic.parameters.headers
    fabric = nic.port._fabric
    queue: list[Any] = clock._queue
    sram, there = nic.sram, remote.sram
    propagation_ps, switch_ps, last_ps = fabric.lead_ps, fabric.crossing_ps, fabric.last_ps
    # from the doorbell to the switch
    port, engine, unit = nic.port, nic.port._engine, end.unit
    to_engine, to_port, send = port._to_engine, port._to_port, port.pipe.send
    doorbell_ps, mtu_bytes, posted = nic.parameters.doorbell_ps, nic.parameters.mtu_bytes, nic.posted
    processing_ps, occupancy_ps, lead_ps = port._processing_ps, port._occupancy_ps, port._lead_ps
    send_queue, outstanding = end.send_queue, end.outstanding
    carrying = {_WRITE: headers.write_bytes, _SEND: headers.send_bytes}
    # from there into the responder
    send_in, receivers, receiver = remote.link_in.send, remote.receivers, to.unit
    there_parameters = remote.parameters
    receive_ps, first_ps = there_parameters.rx_processing_ps, there_parameters.rx_occupancy_ps
    read_ps = there_parameters.rx_read_occupancy_ps

    def post(work: SendWR, payload: bytes) -> bool:
        """Nothing to fetch and nothing to wait for: it is at the engine when the doorbell is here."""
        opcode, flags, length = work.opcode, work.send_flags, work.length
        header_bytes = carrying.get(opcode)
        if qp.error or end.stalled or sram.crowded or flags in FENCE:
            return False
        if header_bytes is not None:
            if length > mtu_bytes:
                return False
            n_bytes = header_bytes + length
            if flags not in INLINE and (length or work.lkey is not None):
                return fetch(work, n_bytes)
            if send_queue:
                return False
        elif opcode is _READ and not send_queue and work.lkey is None and end.reads_under_way < qp.max_rd_atomic:
            n_bytes = headers.read_request_bytes
        else:
            return False
        nic.doorbells += 1
        key = end.key = end.key + NEXT_REQUEST
        message = Message(work, end, key, payload)
        at_ps = clock._now + doorbell_ps
        if message.span is not None:
            message.span.marks.append(("doorbell", at_ps))
            message.span.marks.append(("WQE and payload fetch", at_ps))
        message.more, message.n_bytes, message.start_ps = None, n_bytes, IN_ENGINE
        message.attempt = end.attempt
        outstanding.append(message)
        if opcode is not _WRITE:
            posted[opcode] = posted.get(opcode, 0) + 1
            if opcode is _READ:
                end.reads_under_way += 1
                end.fencing += _READ_IS_FENCED
        heappush(to_engine, (at_ps, key, message))
        heappush(queue, (at_ps + lead_ps, HARDWARE, key, leave, message))
        return True

    def leave(message: Message) -> None:
        """No request is before it at engine and port, which take it at once."""
        now_ps, span = clock._now, message.span
        depart_ps = now_ps - propagation_ps
        if message.start_ps == depart_ps:  # it had to wait for the port
            end_ps = message.end_ps
        elif (
            message.start_ps != IN_ENGINE
            or (to_port and to_port[0][0] <= depart_ps)
            or to_engine[0][2] is not message
            or to_engine[0][0] != depart_ps - processing_ps
            or engine[unit] > depart_ps - processing_ps
            or port._reserved_ps > depart_ps
        ):
            nic.wire.request(message)
            return
        else:
            at_ps = heappop(to_engine)[0]
            engine[unit] = at_ps + occupancy_ps
            if span is not None:
                span.marks.append(("requester NIC", depart_ps))
            start_ps, end_ps = send(depart_ps, message.n_bytes)
            message.start_ps, message.end_ps = start_ps, end_ps
            if fabric.departures is not None:
                fabric.departures.append(Departure(end_ps, port.name, start_ps, end.number, remote.name))
            if start_ps > depart_ps:
                heappush(queue, (start_ps + propagation_ps, HARDWARE, message.key, leave, message))
                return
        message.sent_ps = end_ps
        if end_ps > end.off_ps:  # cut off in the port
            return
        tail_in_ps = end_ps + propagation_ps + switch_ps
        tail_ps = send_in(now_ps + switch_ps, message.n_bytes)[1]
        tail_ps = (tail_ps if tail_ps > tail_in_ps else tail_in_ps) + last_ps
        if span is not None:
            span.marks.append(("wire and switch", tail_ps))
        free_ps = receivers[receiver]
        start_ps = tail_ps if tail_ps > free_ps else free_ps
        opcode = message.opcode
        receivers[receiver] = start_ps + (read_ps if opcode in NON_POSTED else first_ps)
        handler = remote.translate if there.crowded else arrivals[opcode]
        packet = message, 0, message.payload, True, end_ps
        heappush(queue, (start_ps + receive_ps, HARDWARE, message.key, handler, packet))

    fetch = fetching(nic, end, leave)
    return post, leave
