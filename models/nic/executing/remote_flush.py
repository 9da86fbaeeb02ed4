"""FLUSH at its responder, on the components that all other verbs use (IBTA annex A19).

The adapter sends the root complex a request behind its posted writes, as for a read; the answer comes once they are
visible.
For persistence the root complex first writes back the lines that preceding updates of this queue pair touched in the
range (or region), as a core's clwb would, and waits until a write pending queue has them (the medium, if that is where
the persistence domain begins). No adapter does this today: only rxe, in software; the way through the root complex is
an assumption.
"""

from __future__ import annotations

from functools import partial

from ...durability.ordering import Covered
from ...durability.rules import Event, RequestKind
from ...verbs.opcodes import FlushType
from ...verbs.ties import RESPONSE
from ..adapter import Adapter
from ..ends import ReceiveEnd
from ..inbound import Observe, Proof
from ..message import Message
from .order import Running

_EVENTS = {
    FlushType.IBV_FLUSH_GLOBAL: Event.FLUSH_GLOBAL,
    FlushType.IBV_FLUSH_PERSISTENT: Event.FLUSH_PERSISTENT,
}


def flush(nic: Adapter, end: ReceiveEnd, message: Message, not_before_ps: int, running: Running) -> None:
    """It is ``message``'s turn on its queue pair: execute it, to have its effect at ``not_before_ps`` or later."""
    pieces = nic.regions.flushed(message.work)
    now_ps = nic.clock.now_ps
    if not any(length for _, length in pieces):  # legal, and nothing to do
        end.order.end(running, now_ps)
        nic.answers.answer(end, message, max(now_ps, not_before_ps) + nic.parameters.ack_generation_ps)
        return
    address = pieces[0][0]  # all of them are in one device
    covered = end.inbound.covered(pieces)
    observers = [
        end.inbound.observer(event, address, covered=covered)
        for kind, event in _EVENTS.items()
        if kind in FlushType(message.work.flush_type)
    ]

    def look(ready_ps: int, back_ps: int) -> None:
        write_back = partial(_write_back, nic, end, running, address, covered, observers, back_ps)
        nic.clock.hardware(max(ready_ps, not_before_ps), message.key + RESPONSE, write_back, message)

    nic.slot.settle(message.key)
    # No memory is read: it is as short as a hit.
    nic.slot.dma.request(message.key, address, 0, look, not_before_ps=end.inbound.lanes(address).placed_ps)


def _write_back(
    nic: Adapter,
    end: ReceiveEnd,
    running: Running,
    address: int,
    covered: list[Covered],
    observers: list[Observe],
    back_ps: int,
    message: Message,
) -> None:
    """The updates that the FLUSH covers are visible now: write them back if it is for persistence."""
    done_ps = issued_ps = nic.clock.now_ps
    if FlushType.IBV_FLUSH_PERSISTENT in FlushType(message.work.flush_type):
        device, _ = nic.host.memory.locate(address)
        for line in sorted({line for piece in covered for line in piece.lines}):
            done_ps = max(done_ps, nic.host.persist_line(device, line, issued_ps, keep=nic.responder.flush_keeps_lines))
            issued_ps += nic.responder.flush_issue_ps
    nic.clock.hardware(
        done_ps, message.key + RESPONSE, partial(_answer, nic, end, running, observers, back_ps), message
    )


def _answer(
    nic: Adapter, end: ReceiveEnd, running: Running, observers: list[Observe], back_ps: int, message: Message
) -> None:
    """The root complex has completed the FLUSH, and answers the adapter."""
    answered_ps = nic.slot.link.read_completion(nic.clock.now_ps + back_ps, 0)

    def done(_: Message) -> None:
        observe = Proof(partial(_observe_all, observers))
        end.inbound.executed(RequestKind.FLUSH, observe)
        nic.answers.answer(end, message, answered_ps, b"", observe)
        end.order.end(running, answered_ps)

    nic.clock.hardware(answered_ps, message.key + RESPONSE, done, message)


def _observe_all(observers: list[Observe], at_ps: int) -> None:
    for observe in observers:
        observe(at_ps)
