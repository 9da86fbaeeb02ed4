"""READ at its responder: a DMA read behind the adapter's posted writes, line by line; a packet leaves once it is there.

Lines are fetched in any order, none later than its packet needs.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial

from ....sim.trace import Chunk
from ...durability.rules import Event, Placement
from ..adapter import Adapter
from ..ends import ReceiveEnd
from ..message import Message
from .order import Running


def read(nic: Adapter, end: ReceiveEnd, message: Message, not_before: Callable[[], int], running: Running) -> None:
    """It is ``message``'s turn on its queue pair: read, not before the instant that is known then, and answer."""
    pieces = nic.regions.places(message.work.rkey, message.work.remote_address, message.length)
    if len(pieces) > 1:
        _read_pieces(nic, end, message, pieces, not_before, running)
        return
    [(address, length)] = pieces
    placement = end.inbound.placement(nic.regions.relaxed(message.work.rkey))
    passes = placement is Placement.RELAXED and not nic.switches.reads_push_relaxed
    mtu_bytes = nic.parameters.mtu_bytes
    parts: list[int] | None = [] if length > mtu_bytes else None

    observed: list[Chunk] = []
    # A READ of no bytes reads nothing at PCIe, so it pushes nothing.
    observe = end.inbound.observer(Event.READ_COMPLETION, address, placement, observed, pushes=bool(length))

    def done(data: bytes, _: list[Chunk]) -> None:
        message.parts, message.part_bytes = parts, mtu_bytes
        nic.answers.answer(end, message, nic.clock.now_ps, data, observe)

    nic.slot.settle(message.key)
    nic.slot.dma.read(
        message.key,
        address,
        length,
        done,
        by_line=True,
        not_before_ps=0 if passes else end.inbound.lanes(address).placed_ps,
        after=not_before,
        sampled=partial(end.order.end, running),
        part_bytes=mtu_bytes,
        parts=parts,
        observed=observed,
    )


def _read_pieces(
    nic: Adapter,
    end: ReceiveEnd,
    message: Message,
    pieces: list[tuple[int, int]],
    not_before: Callable[[], int],
    running: Running,
) -> None:
    """A READ over the ends of a file's extents: one DMA read for each, one after the other, and then the answer.

    Assumption: no source says how an adapter does it.
    """
    placement = end.inbound.placement(nic.regions.relaxed(message.work.rkey))
    passes = placement is Placement.RELAXED and not nic.switches.reads_push_relaxed
    observed: list[Chunk] = []
    observe = end.inbound.observer(Event.READ_COMPLETION, pieces[0][0], placement, observed)
    found, left = bytearray(), deque(pieces)

    def next_piece() -> None:
        address, length = left.popleft()
        nic.slot.settle(message.key)
        nic.slot.dma.read(
            message.key,
            address,
            length,
            done,
            by_line=True,
            not_before_ps=0 if passes else end.inbound.lanes(address).placed_ps,
            after=not_before,
            sampled=None if left else partial(end.order.end, running),
            observed=observed,
        )

    def done(data: bytes, _: list[Chunk]) -> None:
        found.extend(data)
        if left:
            next_piece()
        else:
            nic.answers.answer(end, message, nic.clock.now_ps, bytes(found), observe)

    next_piece()
