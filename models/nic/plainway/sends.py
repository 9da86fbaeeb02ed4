"""A SEND at its responder: a receive request and room in staging, on to host memory, received, acknowledged."""

from __future__ import annotations

from collections.abc import Callable

from ...durability.rules import Placement
from ...memory.devices import DEVICE_SPAN_BITS, HOST_MEMORY, OFFSET_MASK
from ...verbs.opcodes import Opcode
from ..adapter import Adapter
from ..ends import ReceiveEnd, SendEnd
from ..executing.receive import completes
from ..lanes import Lanes
from ..message import Packet
from .acks import acknowledging

_SEND = Opcode.IBV_WR_SEND


def take_sends(nic: Adapter, end: SendEnd, remote: Adapter, to: ReceiveEnd) -> Callable[[Packet], None]:
    """The handler of packets of SENDs at ``remote``."""
    clock, there, responder, slot = nic.clock, remote.sram, remote.responder, remote.slot
    staging, link, host, drain, cqes = responder.staging, slot.link, remote.host, responder.drain, slot.cqes
    mps_bytes, held, settle, qp = link.parameters.mps_bytes, responder.held, slot.settle, to.qp
    order, inbound, writer, acknowledge = to.order, to.inbound, to.writers[_SEND], acknowledging(nic, end, remote, to)
    owner, attached = to if qp.srq is None else qp.srq, host.attached
    landings: dict[int, tuple[Lanes, int] | None] = {}
    """By device: the lanes to there and the channel of writes in order; None for memory that is not the host's."""

    def landing(address: int) -> tuple[Lanes, int] | None:
        """The entry of ``landings`` for ``address``, made now."""
        found = None
        if (
            inbound.placement(relaxed=False) is Placement.STRICT
            and host.destination(address).number == HOST_MEMORY
            and inbound.acknowledged(address) is None
        ):
            lanes = inbound.lanes(address)
            found = lanes, lanes.in_order
        landings[address >> DEVICE_SPAN_BITS] = found
        return found

    def take(packet: Packet) -> None:
        """There are a receive request and room in staging for it, it goes on at once, and its ACK proves nothing."""
        message, at, payload, last, end_ps = packet
        receives, length, now_ps = owner.receive_queue, message.length, clock._now
        if (
            not receives
            or at
            or not last
            or not length
            or held
            or qp.error
            or message.attempt != to.expected_attempt
            or end_ps > end.off_ps
            or there.crowded
            or to.receiving is not None
            or to.messages is not None
            or not drain.always_open
            or (order.running and not order.idle(now_ps))
            or inbound.proved
        ):
            remote.take_in(packet)
            return
        receive = receives[0]
        address = receive.local_address
        if receive.stride_bytes or owner.used_bytes or receive.length < length or receive.lkey is not None:
            remote.take_in(packet)
            return
        place = landings.get(address >> DEVICE_SPAN_BITS) or landing(address)
        if place is None or place[0].loose is not None:
            remote.take_in(packet)
            return
        receives.popleft()
        room_ps = staging.take(now_ps, length)
        if room_ps != now_ps:
            to.receiving, to.receive_offset = receive, 0
            responder.wait_for_room(room_ps, packet, address)
            return
        if cqes:
            settle(message.key)
        lanes, channel = place
        memory, offset = attached[address >> DEVICE_SPAN_BITS], address & OFFSET_MASK
        before = lanes.earlier() if memory.device.traced else None
        named = writer if message.span is None else f"{_SEND}, {message.span.label}"
        if length <= mps_bytes - address % mps_bytes:
            start_ps, root_ps = link.write(now_ps, length)
            staging.give(root_ps, length)
            placed_ps = memory.dma_write(offset, payload, channel, named, now_ps, start_ps, root_ps)
        else:
            tlps = link.writes(now_ps, address, length)
            staging.give_all(tlps)
            placed_ps = memory.dma_writes(offset, payload, channel, named, now_ps, tlps)
        lanes.placed_ps = max(lanes.placed_ps, placed_ps)
        if before is not None:
            inbound.note_send(address, before)
        completes(remote, to, message, receive, 0)
        acknowledge(message)

    return take
