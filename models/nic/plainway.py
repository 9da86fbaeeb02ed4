"""The plain way: requests that nothing is special about, from the doorbell to the completion, in one file.

It does what the adapter's other files do, at the same instants, with the same counters, bytes and trace, for a request
with nothing to fetch and nothing to wait for, on a reliable connection between two adapters whose tables all fit into
their SRAM and whose fabric disturbs nothing. Objects that never change are bound once for each connection. Each hop
checks that it is plain before it does anything, and passes special requests on to the general code (requester, port,
responder, answers), which knows of no plain way; and a request may come to the plain way at any hop.

``Nic.takes_plain_way`` turns it off. The tests run both ways and compare.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

from ...sim.clock import HARDWARE
from ..durability.rules import Placement
from ..fabric.fabric import Departure
from ..memory.devices import HOST_MEMORY
from ..verbs.opcodes import NON_POSTED, Opcode, Status
from ..verbs.ties import NEXT_REQUEST, PACKET_SHIFT, RESPONSE
from ..verbs.work import FENCE, INLINE, SendWR
from .adapter import Adapter
from .ends import PlainWay, ReceiveEnd, SendEnd
from .message import Message, Packet
from .port import IN_ENGINE, IN_PORT
from .sendqueue import goes

_WRITE = Opcode.IBV_WR_RDMA_WRITE
_READ = Opcode.IBV_WR_RDMA_READ
_SEND = Opcode.IBV_WR_SEND
_SUCCESS = Status.IBV_WC_SUCCESS


def open_route(nic: Adapter, to: ReceiveEnd, message: Message, address: int) -> None:
    """A WRITE to host memory has been accepted whose ACK proves nothing: later ones with its key may be plain."""
    key = message.work.rkey
    region = nic.regions.find(key)
    in_order = to.inbound.placement(nic.regions.relaxed(key)) is Placement.STRICT
    if region is not None and in_order and nic.host.destination(address).number == HOST_MEMORY:
        lanes = to.inbound.lanes(address)
        own = to.order, to.inbound, to.responses
        to.routes[key] = region.address, region.address + region.length, lanes, lanes.in_order, *own, to.writers[_WRITE]


def plain_way(nic: Adapter, end: SendEnd, remote: Adapter, to: ReceiveEnd) -> PlainWay:
    """The plain way of requests from ``end``, on this adapter, to ``to``, on ``remote``."""
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
    # from there into the responder's host memory
    send_in, receivers, receiver = remote.link_in.send, remote.receivers, to.unit
    there_parameters, responder = remote.parameters, remote.responder
    receive_ps, first_ps = there_parameters.rx_processing_ps, there_parameters.rx_occupancy_ps
    read_ps = there_parameters.rx_read_occupancy_ps
    routes, staging, link, host = to.routes, responder.staging, remote.slot.link, remote.host
    mps_bytes, held, cqes_there = link.parameters.mps_bytes, responder.held, remote.slot.cqes
    drain, settle, acknowledged = responder.drain, remote.slot.settle, nic.acknowledged
    # and back
    ack_ps, ack_bytes, port_there = there_parameters.ack_generation_ps, headers.ack_bytes, remote.port
    engine_there, answers, answer = port_there._to_engine, port_there._to_port, port_there.pipe.send
    processing_there_ps, send_back = port_there._processing_ps, nic.link_in.send

    def post(work: SendWR, payload: bytes) -> bool:
        """Nothing to fetch and nothing to wait for: it is at the engine when the doorbell is here."""
        opcode, flags, length = work.opcode, work.send_flags, work.length
        header_bytes = carrying.get(opcode)
        if send_queue or qp.error or end.stalled or sram.crowded or flags in FENCE:
            return False
        if header_bytes is not None:
            if length > mtu_bytes or not (flags in INLINE or (not length and work.lkey is None)):
                return False
            n_bytes = header_bytes + length
        elif opcode is _READ and work.lkey is None and end.reads_under_way < qp.max_rd_atomic:
            n_bytes = headers.read_request_bytes
        else:
            return False
        nic.doorbells += 1
        key = end.key = end.key + NEXT_REQUEST
        message = Message(work, end, key, payload)
        at_ps = clock._now + doorbell_ps
        if message.span is not None:
            message.span.mark("doorbell", at_ps)
            message.span.mark("WQE and payload fetch", at_ps)
        message.more, message.n_bytes, message.start_ps = None, n_bytes, IN_ENGINE
        if opcode is _WRITE:
            message.attempt = end.attempt
            outstanding.append(message)
        else:
            posted[opcode] = posted.get(opcode, 0) + 1
            goes(end, message, at_ps)
        heappush(to_engine, (at_ps, key, message))
        heappush(queue, (at_ps + lead_ps, HARDWARE, key, leave, message))
        return True

    def leave(message: Message) -> None:
        """No request is before it at engine and port, which take it at once."""
        now_ps = clock._now
        depart_ps = now_ps - propagation_ps
        if (
            message.start_ps != IN_ENGINE
            or to_port
            or to_engine[0][2] is not message
            or to_engine[0][0] != depart_ps - processing_ps
            or engine[unit] > depart_ps - processing_ps
            or port._reserved_ps > depart_ps
        ):
            nic.wire.request(message)
            return
        at_ps = heappop(to_engine)[0]
        engine[unit] = at_ps + occupancy_ps
        span = message.span
        if span is not None:
            span.mark("requester NIC", depart_ps)
        start_ps, end_ps = send(depart_ps, message.n_bytes)
        message.start_ps, message.end_ps = start_ps, end_ps
        if fabric.departures is not None:
            fabric.departures.append(Departure(end_ps, port.name, start_ps, end.number, remote.name))
        if start_ps > depart_ps:
            heappush(queue, (start_ps + propagation_ps, HARDWARE, message.key, nic.wire.request, message))
            return
        message.sent_ps = end_ps
        if end_ps > end.off_ps:  # cut off in the port
            return
        tail_in_ps = end_ps + propagation_ps + switch_ps
        tail_ps = send_in(now_ps + switch_ps, message.n_bytes)[1]
        tail_ps = (tail_ps if tail_ps > tail_in_ps else tail_in_ps) + last_ps
        if span is not None:
            span.mark("wire and switch", tail_ps)
        free_ps = receivers[receiver]
        start_ps = tail_ps if tail_ps > free_ps else free_ps
        opcode = message.opcode
        handler: Callable[[Packet], None] = accept
        if opcode is _WRITE:
            receivers[receiver] = start_ps + first_ps
        elif opcode in NON_POSTED:
            receivers[receiver], handler = start_ps + read_ps, remote.serve
        else:
            receivers[receiver], handler = start_ps + first_ps, remote.take_in
        if there.crowded:
            handler = remote.translate
        packet = message, 0, message.payload, True, end_ps
        heappush(queue, (start_ps + receive_ps, HARDWARE, message.key, handler, packet))

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
        start, stop, lanes, channel, order, inbound, responses, writer = route
        address = work.remote_address
        if (
            address < start
            or address + message.length > stop
            or lanes.loose is not None
            or order.running
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
            if cqes_there:
                settle(message.key + (at >> PACKET_SHIFT))
            if span is not None:
                writer = f"{_WRITE}, {span.label}"
            address += at
            if length <= mps_bytes - address % mps_bytes:
                start_ps, root_ps = link.write(now_ps, length)
                staging.give(root_ps, length)
                placed_ps = host.dma_write(
                    address, payload, channel, writer, now_ps, start_ps, root_ps, credits=drain.credits
                )
            else:
                tlps = link.writes(now_ps, address, length)
                staging.give_all(tlps)
                placed_ps = host.dma_writes(address, payload, channel, writer, now_ps, tlps, drain.credits)
            lanes.placed_ps = max(lanes.placed_ps, placed_ps)
        if not last:
            return
        if span is not None:
            span.mark("responder NIC", now_ps)
        if responses.waiting:
            remote.answers.acknowledge(to, message, None)
            return
        ready_ps = now_ps + ack_ps
        ready_ps = max(ready_ps, responses.last_ps)
        responses.last_ps = ready_ps
        message.status, message.observe, message.n_bytes, message.more = _SUCCESS, None, ack_bytes, None
        message.start_ps, message.end_ps = IN_PORT, ready_ps
        key = message.key + RESPONSE
        heappush(answers, (ready_ps, key, message))
        heappush(queue, (ready_ps + propagation_ps, HARDWARE, key, come_back, message))

    def come_back(message: Message) -> None:
        """No answer is before the acknowledgement at the responder's port, which takes it at once."""
        ready_ps = message.end_ps
        if (
            message.start_ps != IN_PORT
            or answers[0][2] is not message
            or (engine_there and engine_there[0][0] <= ready_ps - processing_there_ps)
            or port_there._reserved_ps > ready_ps
        ):
            remote.wire.acknowledgement(message)
            return
        heappop(answers)
        start_ps, end_ps = answer(ready_ps, ack_bytes)
        message.start_ps, message.end_ps = start_ps, end_ps
        if fabric.departures is not None:
            fabric.departures.append(Departure(end_ps, port_there.name, start_ps, to.number, nic.name))
        if start_ps > ready_ps or end_ps > to.off_ps:
            remote.wire.acknowledgement(message)
            return
        tail_in_ps = end_ps + propagation_ps + switch_ps
        tail_ps = send_back(clock._now + switch_ps, ack_bytes)[1]
        acknowledged(message, (tail_ps if tail_ps > tail_in_ps else tail_in_ps) + last_ps)

    return PlainWay(post, leave, accept)
