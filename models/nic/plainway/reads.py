"""A READ at its responder, and the way back of its data until it is in the requester's memory.

When it is looked at it is known when its data is in the adapter, so its answer is put in line for the port then.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from heapq import heappop, heappush
from typing import Any

from ....sim.clock import HARDWARE
from ....sim.trace import NEVER
from ...durability.rules import FENCE_WAITS_FOR, Event, RequestKind
from ...fabric.fabric import Departure
from ...memory.devices import DEVICE_SPAN_BITS, HOST_MEMORY, OFFSET_MASK
from ...verbs.opcodes import Opcode, Status
from ...verbs.ties import RESPONSE
from ...verbs.work import SIGNALED
from ..adapter import Adapter
from ..ends import ReceiveEnd, SendEnd
from ..executing.order import Running
from ..fetch import Fetch
from ..inbound import Observe
from ..message import Message, Packet
from ..port import IN_PORT

_SUCCESS = Status.IBV_WC_SUCCESS
_WRITER = f"{Opcode.IBV_WR_RDMA_READ} response"
_IS_FENCED = RequestKind.READ in FENCE_WAITS_FOR


def serve_reads(nic: Adapter, end: SendEnd, remote: Adapter, to: ReceiveEnd) -> Callable[[Packet], None]:
    """The handler of READs at ``remote``."""
    clock, fabric, qp = nic.clock, nic.port._fabric, end.qp
    queue: list[Any] = clock._queue
    propagation_ps, switch_ps, last_ps = fabric.lead_ps, fabric.crossing_ps, fabric.last_ps
    # at the responder
    there, slot_there, routes, inbound, order = remote.sram, remote.slot, to.read_routes, to.inbound, to.order
    dma, settle_there, cqes_there = slot_there.dma, slot_there.settle, slot_there.cqes
    held, staged, responses = remote.responder.held, remote.responder.drain._last, to.responses
    line_ps, mtu_bytes = slot_there.link.line_ps, remote.parameters.mtu_bytes
    answer_bytes, attached_there = remote.parameters.headers.read_response_bytes, remote.host.attached
    # and back
    port = remote.port
    engine, answers, send, processing_ps = port._to_engine, port._to_port, port.pipe.send, port._processing_ps
    send_back, receivers, receiver = nic.link_in.send, nic.receivers, end.unit
    receive_ps, occupancy_ps = nic.parameters.rx_processing_ps, nic.parameters.rx_packet_occupancy_ps
    # at the requester
    sram, slot, attached, outstanding = nic.sram, nic.slot, nic.host.attached, end.outstanding
    settle, cqes, link, mps_bytes = slot.settle, slot.cqes, slot.link, slot.link.parameters.mps_bytes
    channels: dict[int, int] = {}
    """By device: the channel of data that comes back to there."""

    def serve(packet: Packet) -> None:
        """It waits for nothing but READs before it, and for no tag."""
        message = packet[0]
        work, length, now_ps = message.work, message.length, clock._now
        route, address = routes.get(work.rkey), work.remote_address
        if (
            route is None
            or held
            or staged
            or to.qp.error
            or message.attempt != to.expected_attempt
            or packet[4] > end.off_ps
            or there.crowded
            or not length
            or address < route[0]
            or address + length > route[1]
            or not order.only_reads(now_ps, HOST_MEMORY)
            or not (tags := dma.take_tags(message.key, address, length))
        ):
            remote.serve(packet)
            return
        if cqes_there:
            settle_there(message.key)
        before = order.running[-1] if order.running else None
        running = order.begin(RequestKind.READ, HOST_MEMORY)
        responses.expect(message)
        if message.span is not None:
            message.span.marks.append(("responder NIC", now_ps))
        lanes, fetch = route[2], dma.lines(address, length)
        observe = None  # it proves nothing where nothing has been traced
        if route[3].traced or not lanes.empty:
            observe = inbound.observer(Event.READ_COMPLETION, address, returned=fetch.chunks)
        look = partial(looked, message, fetch, running, before, observe, tags)
        dma.request(message.key, address, length, look, not_before_ps=lanes.placed_ps)

    def looked(
        message: Message,
        fetch: Fetch,
        running: Running,
        before: Running | None,
        observe: Observe | None,
        tags: int,
        ready_ps: int,
        back_ps: int,
    ) -> None:
        """Memory is looked at, behind the READ before it: the data's way to the adapter is known."""
        if before is not None and before.end_ps is not None and before.end_ps > ready_ps:
            ready_ps = before.end_ps
        length, one = fetch.length, fetch.length <= mtu_bytes
        fetch.begin(remote.host, ready_ps, line_ps, 0 if one else mtu_bytes)
        read_ps = ready_ps + (fetch.count - 1) * line_ps
        if one:
            message.parts = [
                slot_there.link.read_completion(ready_ps + back_ps, length, fetch.address, read_ps + back_ps)
            ]
        else:
            message.parts = dma.completions(fetch, ready_ps + back_ps, mtu_bytes)
        message.part_bytes, here_ps = mtu_bytes, message.parts[0]
        dma.comes(here_ps, message.key, tags)
        order.end(running, read_ps)
        leaves_ps = responses.leaves(message, here_ps) if one else None
        if leaves_ps is None:
            remote.answers.send_answer(to, message, here_ps, fetch.data, observe)
            return
        if message.span is not None:
            message.span.marks.append(("responder PCIe read", leaves_ps))
        message.payload, message.observe = fetch.data, observe
        message.n_bytes, message.more = answer_bytes + length, None
        message.start_ps, message.end_ps = IN_PORT, leaves_ps
        key = message.key + RESPONSE
        heappush(answers, (leaves_ps, key, message))
        heappush(queue, (leaves_ps + propagation_ps, HARDWARE, key, come_back, message))

    def come_back(message: Message) -> None:
        """No answer is before this one at the responder's port, which takes it at once."""
        ready_ps = message.end_ps
        if (
            message.start_ps != IN_PORT
            or answers[0][2] is not message
            or (engine and engine[0][0] <= ready_ps - processing_ps)
            or port._reserved_ps > ready_ps
        ):
            remote.wire.response(message)
            return
        heappop(answers)
        start_ps, end_ps = send(ready_ps, message.n_bytes)
        message.start_ps, message.end_ps = start_ps, end_ps
        if fabric.departures is not None:
            fabric.departures.append(Departure(end_ps, port.name, start_ps, to.number, nic.name))
        if start_ps > ready_ps or end_ps > to.off_ps or nic.sram.crowded:
            remote.wire.response(message)
            return
        tail_in_ps = end_ps + propagation_ps + switch_ps
        tail_ps = send_back(clock._now + switch_ps, message.n_bytes)[1]
        tail_ps = (tail_ps if tail_ps > tail_in_ps else tail_in_ps) + last_ps
        if message.span is not None:
            message.span.marks.append(("wire and switch", tail_ps))
        free_ps = receivers[receiver]
        start_ps = tail_ps if tail_ps > free_ps else free_ps
        receivers[receiver] = start_ps + occupancy_ps
        done_ps, last_answer_ps = start_ps + receive_ps, end.last_answer_ps
        done_ps = end.last_answer_ps = done_ps if done_ps > last_answer_ps else last_answer_ps
        heappush(queue, (done_ps, HARDWARE, message.key + RESPONSE, land, (message, 0, b"", True, end_ps)))

    def land(packet: Packet) -> None:
        """Its data goes to memory, and its completion behind that."""
        message, end_ps = packet[0], packet[4]
        now_ps, work, length = clock._now, message.work, message.length
        attached_there[work.remote_address >> DEVICE_SPAN_BITS].device.space.catch_up(now_ps)
        data = bytes(message.payload)
        gone = end.off_ps != NEVER or end_ps > to.off_ps
        if gone or qp.error or sram.crowded or not outstanding or outstanding[0] is not message:
            nic.take_response((message, 0, data, True, end_ps))
            return
        if cqes:
            settle(message.key + RESPONSE)
        address, number = work.local_address, work.local_address >> DEVICE_SPAN_BITS
        channel = channels.get(number)
        if channel is None:
            channel = channels[number] = end.receive.inbound.lanes(address).in_order
        memory, offset = attached[number], address & OFFSET_MASK
        if length <= mps_bytes - address % mps_bytes:
            start_ps, root_ps = link.write(now_ps, length)
            memory.dma_write(offset, data, channel, _WRITER, now_ps, start_ps, root_ps)
        else:
            memory.dma_writes(offset, data, channel, _WRITER, now_ps, link.writes(now_ps, address, length))
        outstanding.popleft()
        end.reads_under_way -= 1
        end.fencing -= _IS_FENCED
        end.repeats = 0
        if message.observe is not None:
            end.unseen.append(message.observe)
            end.unreported += 1
        if work.send_flags in SIGNALED:
            message.observe = end.report() if end.unreported else None
            message.slots, end.unsignalled = end.unsignalled + 1, 0
            slot.complete_now(message)
        else:
            end.unsignalled += 1
        if end.send_queue:
            nic.requester.pump(end)

    return serve
