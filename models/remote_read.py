"""READ at its responder: a DMA read behind the adapter's posted writes, line by line."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..sim.bytespace import LINE_BYTES, lines
from ..sim.trace import Chunk
from .execution import Running
from .rules import Event, Placement
from .verbs import QueuePair, SendWR

if TYPE_CHECKING:
    from .nic import Nic


def read(nic: Nic, qp: QueuePair, work: SendWR, not_before_ps: int, running: Running) -> None:
    """It is ``work``'s turn on its queue pair: read, at ``not_before_ps`` or later, and answer."""
    now_ps, address, length = nic.clock.now_ps, work.remote_address, work.length
    placement = qp.inbound.placement(nic.regions.relaxed(work.rkey))
    observed: list[Chunk] = []
    # A READ of no bytes reads nothing at PCIe, so it pushes nothing.
    observe = qp.inbound.observer(Event.READ_COMPLETION, address, placement, observed, pushes=bool(length))
    latency_ps = nic.host.dma_read_ps(address, length)
    at_root_ps = nic.pcie.read_request(now_ps, length)
    first_ps = max(nic.host.read_ready_ps(at_root_ps + latency_ps // 2, address), not_before_ps)
    if placement is not Placement.RELAXED:
        first_ps = max(first_ps, qp.inbound.lanes(address).placed_ps)
    pieces = _by_line(address, length)
    apart_ps = nic.pcie.line_ps
    last_ps = first_ps + max(0, len(pieces) - 1) * apart_ps
    fetched_ps = nic.pcie.read_completion(last_ps + latency_ps - latency_ps // 2, length)
    qp.order.end(running, last_ps)
    found = bytearray()

    def sample() -> None:
        # Lines are fetched in any order: what comes back may mix old and new against a concurrent writer.
        content: dict[int, bytes] = {}
        order = nic.arbiter.permutation(len(pieces)) if len(pieces) > 1 else range(len(pieces))
        for turn, index in enumerate(order):
            start, n_bytes = pieces[index]
            content[start], seen = nic.host.dma_read(first_ps + turn * apart_ps, start, n_bytes)
            observed.extend(seen)
        found.extend(b"".join(content[start] for start, _ in pieces))

    nic.clock.call_at(last_ps, sample)
    qp.responses.ready(work, fetched_ps, lambda: nic.answer(qp, work, bytes(found), observe))


def _by_line(address: int, length: int) -> list[tuple[int, int]]:
    """A range cut at line boundaries: (address, length) pieces."""
    pieces = []
    for line in lines(address, length):
        start, end = max(address, line * LINE_BYTES), min(address + length, (line + 1) * LINE_BYTES)
        pieces.append((start, end - start))
    return pieces
