"""A WRITE at its responder: room in staging, on to host memory, acknowledged."""

from __future__ import annotations

from collections.abc import Callable

from ...verbs.opcodes import Opcode
from ...verbs.ties import PACKET_SHIFT
from ..adapter import Adapter
from ..ends import ReceiveEnd, SendEnd
from ..message import Packet
from .acks import acknowledging

_WRITE = Opcode.IBV_WR_RDMA_WRITE


def accept_writes(nic: Adapter, end: SendEnd, remote: Adapter, to: ReceiveEnd) -> Callable[[Packet], None]:
    """The handler of packets of WRITEs at ``remote``."""
    clock, there, responder = nic.clock, remote.sram, remote.responder
    routes, staging, link = to.routes, responder.staging, remote.slot.link
    mps_bytes, held, cqes = link.parameters.mps_bytes, responder.held, remote.slot.cqes
    drain, settle, acknowledge = responder.drain, remote.slot.settle, acknowledging(nic, end, remote, to)

    def accept(packet: Packet) -> None:
        """There is room for it in staging, it goes on to host memory at once, and its ACK proves nothing."""
        message, at, payload, last, end_ps = packet
        work = message.work
        route = routes.get(work.rkey)
        if (
            route is None
            or held
            or to.qp.error
            or message.attempt != to.expected_attempt
            or end_ps > end.off_ps
            or there.crowded
        ):
            remote.take_in(packet)
            return
        start, stop, memory, base, lanes, channel, order, inbound, writer = route
        address = work.remote_address
        if (
            address < start
            or address + message.length > stop
            or lanes.loose is not None
            or (order.running and not order.idle(clock._now))
            or inbound.proved
        ):
            remote.take_in(packet)
            return
        now_ps, length, span = clock._now, len(payload), message.span
        if length:
            room_ps = staging.take(now_ps, length)
            if room_ps != now_ps:
                responder.wait_for_room(room_ps, packet, address)
                return
            if not drain.always_open and not drain.open(now_ps, address + at, length):
                responder.stage(packet, to, address, may_go=False)
                return
            if cqes:
                settle(message.key + (at >> PACKET_SHIFT))
            if span is not None:
                writer = f"{_WRITE}, {span.label}"
            address += at
            if length <= mps_bytes - address % mps_bytes:
                start_ps, root_ps = link.write(now_ps, length)
                staging.give(root_ps, length)
                placed_ps = memory.dma_write(
                    address - base, payload, channel, writer, now_ps, start_ps, root_ps, credits=drain.credits
                )
            else:
                tlps = link.writes(now_ps, address, length)
                staging.give_all(tlps)
                placed_ps = memory.dma_writes(address - base, payload, channel, writer, now_ps, tlps, drain.credits)
            lanes.placed_ps = max(lanes.placed_ps, placed_ps)
        if not last:
            return
        if span is not None:
            span.marks.append(("responder NIC", now_ps))
        acknowledge(message)

    return accept
