"""FLUSH at its responder, on the components that everything else uses (IBTA annex A19).

The adapter asks the root complex behind its posted writes, as it would read; that is answered once they are visible.
For persistence the root complex first writes back the lines that preceding updates of this queue pair touched in the
range (or region), as a core's clwb would, and waits until a write pending queue has them. No adapter does this today:
only rxe, in software; the way through the root complex is an assumption.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from .execution import Running
from .inbound import Observe
from .opcodes import FlushType
from .ordering import Covered
from .rules import Event, Request
from .verbs import QueuePair, SendWR

if TYPE_CHECKING:
    from .nic import Nic

_EVENTS = {
    FlushType.IBV_FLUSH_GLOBAL: Event.FLUSH_GLOBAL,
    FlushType.IBV_FLUSH_PERSISTENT: Event.FLUSH_PERSISTENT,
}


def flush(nic: Nic, qp: QueuePair, work: SendWR, not_before_ps: int, running: Running) -> None:
    """It is ``work``'s turn on its queue pair: execute it, to have its effect at ``not_before_ps`` or later."""
    address, length = nic.regions.flushed_range(work)
    now_ps = nic.clock.now_ps
    if not length:  # legal, and nothing to do
        qp.order.end(running, now_ps)
        qp.responses.ready(
            work, max(now_ps, not_before_ps) + nic.parameters.ack_processing_ps, partial(nic.answer, qp, work)
        )
        return
    covered = qp.inbound.covered(address, length)
    observers = [
        qp.inbound.observer(event, address, covered=covered)
        for kind, event in _EVENTS.items()
        if kind in FlushType(work.flush_type)
    ]
    latency_ps = nic.host.wqe_read_ps  # no memory is read: as short as a hit
    at_root_ps = nic.pcie.read_request(now_ps, 0)
    visible_ps = nic.host.read_ready_ps(at_root_ps + latency_ps // 2, address)
    start_ps = max(visible_ps, qp.inbound.lanes(address).placed_ps, not_before_ps)
    back_ps = latency_ps - latency_ps // 2
    nic.clock.call_at(start_ps, _write_back, nic, qp, work, running, address, covered, observers, back_ps)


def _write_back(
    nic: Nic,
    qp: QueuePair,
    work: SendWR,
    running: Running,
    address: int,
    covered: list[Covered],
    observers: list[Observe],
    back_ps: int,
) -> None:
    """What it covers is visible now."""
    done_ps = issued_ps = nic.clock.now_ps
    if FlushType.IBV_FLUSH_PERSISTENT in FlushType(work.flush_type):
        device, _ = nic.host.memory.locate(address)
        for line in sorted({line for piece in covered for line in piece.lines}):
            done_ps = max(done_ps, nic.host.flush_line(device, line, issued_ps, keep=nic.flush_keeps_lines))
            issued_ps += nic.flush_issue_ps
    nic.clock.call_at(done_ps, _tell, nic, qp, work, running, observers, back_ps)


def _tell(nic: Nic, qp: QueuePair, work: SendWR, running: Running, observers: list[Observe], back_ps: int) -> None:
    """The root complex has done it, and tells the adapter."""
    told_ps = nic.pcie.read_completion(nic.clock.now_ps + back_ps, 0)

    def done() -> None:
        observe = partial(_observe_all, observers)
        qp.inbound.executed(Request.FLUSH, observe)
        qp.responses.ready(work, told_ps, partial(nic.answer, qp, work, b"", observe))
        qp.order.end(running, told_ps)

    nic.clock.call_at(told_ps, done)


def _observe_all(observers: list[Observe], at_ps: int) -> None:
    for observe in observers:
        observe(at_ps)
