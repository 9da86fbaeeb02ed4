"""A request whose payload the adapter reads over PCIe: from the doorbell to the engine."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from heapq import heappush
from typing import Any

from ....sim.clock import HARDWARE
from ....sim.trace import NEVER
from ...verbs.opcodes import Opcode
from ...verbs.ties import NEXT_REQUEST
from ...verbs.work import SendWR
from ..adapter import Adapter
from ..ends import SendEnd
from ..fetch import Fetch
from ..message import Message
from ..port import IN_ENGINE

_WRITE = Opcode.IBV_WR_RDMA_WRITE


def fetching(nic: Adapter, end: SendEnd, leave: Callable[[Message], None]) -> Callable[[SendWR, int], bool]:
    """The function that posts a request of one packet, so many bytes long, whose payload has to be fetched.

    It returns whether the request goes the plain way. ``leave`` is ``PlainWay.leave``.
    """
    clock, requester, slot, host, sram = nic.clock, nic.requester, nic.slot, nic.host, nic.sram
    queue: list[Any] = clock._queue
    dma, link, cqes, settle = slot.dma, slot.link, slot.cqes, slot.settle
    doorbell_ps, part_bytes, posted = nic.parameters.doorbell_ps, nic.parameters.part_bytes, nic.posted
    send_queue, outstanding = end.send_queue, end.outstanding
    to_engine, lead_ps = nic.port._to_engine, nic.port._lead_ps

    def post(work: SendWR, n_bytes: int) -> bool:
        if work.lkey is not None or work.length > part_bytes:
            return False
        nic.doorbells += 1
        if work.opcode is not _WRITE:
            posted[work.opcode] = posted.get(work.opcode, 0) + 1
        key = end.key = end.key + NEXT_REQUEST
        message = Message(work, end, key, b"")
        message.more, message.n_bytes, message.start_ps = None, n_bytes, IN_ENGINE
        send_queue.append(message)
        heappush(queue, (clock._now + doorbell_ps, HARDWARE, key, ring, message))
        return True

    def ring(message: Message) -> None:
        """The doorbell is here, with the work request: the payload is read if there are tags for that."""
        work, length = message.work, message.length
        if end.off_ps != NEVER or sram.crowded or not (tags := dma.take_tags(message.key, work.local_address, length)):
            requester.doorbell([message])
            return
        if message.span is not None:
            message.span.marks.append(("doorbell", clock._now))
        if cqes:
            settle(message.key)
        fetch = Fetch(work.local_address, length, 1, b"", None)
        dma.request(message.key, work.local_address, length, partial(looked, message, message.key, fetch, tags))

    def looked(message: Message, key: int, fetch: Fetch, tags: int, ready_ps: int, back_ps: int) -> None:
        """Host memory is looked at: the payload's way to the adapter is known."""
        fetch.begin(host, ready_ps, link.line_ps)
        here_ps = link.read_completion(ready_ps + back_ps, fetch.length, fetch.address)
        heappush(queue, (here_ps, HARDWARE, key, fetched, (fetch, tags, message)))

    def fetched(found: tuple[Fetch, int, Message]) -> None:
        """The payload is here: the request goes to the engine if those before it have."""
        fetch, tags, message = found
        dma.give_back(tags)
        host.catch_up_bytes(fetch.address)
        message.payload = bytes(fetch.data)
        if end.stalled or not send_queue or send_queue[0] is not message:
            requester.ready(message)
            return
        now_ps = clock._now
        if message.span is not None:
            message.span.marks.append(("WQE and payload fetch", now_ps))
        send_queue.popleft()
        message.attempt = end.attempt
        outstanding.append(message)
        heappush(to_engine, (now_ps, message.key, message))
        heappush(queue, (now_ps + lead_ps, HARDWARE, message.key, leave, message))
        if send_queue and send_queue[0].ready:
            requester.pump(end)

    return post
