"""FLUSH at its responder, on the components that everything else uses (IBTA annex A19).

The adapter asks the root complex behind its posted writes, as it would read; that is answered once they are visible.
For persistence the root complex first writes back the lines that preceding updates of this queue pair touched in the
range (or region), as a core's clwb would, and waits until a write pending queue has them (the medium, if that is where
the persistence domain begins). No adapter does this today: only rxe, in software; the way through the root complex is
an assumption.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ..durability.ordering import Covered
from ..durability.rules import Event, RequestKind
from ..verbs.objects import QueuePair
from ..verbs.opcodes import FlushType
from ..verbs.work import SendWR
from .execution import Running
from .inbound import Observe, Proof
from .port import RESPONSE

if TYPE_CHECKING:
    from .responder import Responder

_EVENTS = {
    FlushType.IBV_FLUSH_GLOBAL: Event.FLUSH_GLOBAL,
    FlushType.IBV_FLUSH_PERSISTENT: Event.FLUSH_PERSISTENT,
}


def flush(nic: Responder, qp: QueuePair, work: SendWR, not_before_ps: int, running: Running) -> None:
    """It is ``work``'s turn on its queue pair: execute it, to have its effect at ``not_before_ps`` or later."""
    address, length = nic.regions.flushed_range(work)
    now_ps = nic.clock.now_ps
    if not length:  # legal, and nothing to do
        qp.order.end(running, now_ps)
        nic.answer(qp, work, max(now_ps, not_before_ps) + nic.parameters.ack_generation_ps)
        return
    covered = qp.inbound.covered(address, length)
    observers = [
        qp.inbound.observer(event, address, covered=covered)
        for kind, event in _EVENTS.items()
        if kind in FlushType(work.flush_type)
    ]

    def look(ready_ps: int, back_ps: int) -> None:
        write_back = partial(_write_back, nic, qp, running, address, covered, observers, back_ps)
        nic.clock.hardware(max(ready_ps, not_before_ps), work.key + RESPONSE, write_back, work)

    nic.settle(work.key)
    # No memory is read: it is as short as a hit.
    nic.dma.ask(work.key, address, 0, look, not_before_ps=qp.inbound.lanes(address).placed_ps)


def _write_back(
    nic: Responder,
    qp: QueuePair,
    running: Running,
    address: int,
    covered: list[Covered],
    observers: list[Observe],
    back_ps: int,
    work: SendWR,
) -> None:
    """What it covers is visible now."""
    done_ps = issued_ps = nic.clock.now_ps
    if FlushType.IBV_FLUSH_PERSISTENT in FlushType(work.flush_type):
        device, _ = nic.host.memory.locate(address)
        for line in sorted({line for piece in covered for line in piece.lines}):
            done_ps = max(done_ps, nic.host.persist_line(device, line, issued_ps, keep=nic.flush_keeps_lines))
            issued_ps += nic.flush_issue_ps
    nic.clock.hardware(done_ps, work.key + RESPONSE, partial(_tell, nic, qp, running, observers, back_ps), work)


def _tell(
    nic: Responder, qp: QueuePair, running: Running, observers: list[Observe], back_ps: int, work: SendWR
) -> None:
    """The root complex has done it, and tells the adapter."""
    told_ps = nic.pcie.read_completion(nic.clock.now_ps + back_ps, 0)

    def done(_: SendWR) -> None:
        observe = Proof(partial(_observe_all, observers))
        qp.inbound.executed(RequestKind.FLUSH, observe)
        nic.answer(qp, work, told_ps, b"", observe)
        qp.order.end(running, told_ps)

    nic.clock.hardware(told_ps, work.key + RESPONSE, done, work)


def _observe_all(observers: list[Observe], at_ps: int) -> None:
    for observe in observers:
        observe(at_ps)
