"""The reasons that hold a work request back in the send queue, and those that send it again.

READ, atomics, FLUSH and ATOMIC WRITE share a limit of requests under way. A fence waits for those of them that the
table in ``models.durability.rules`` names. A SEND (or an immediate) that found no receive request is answered by an RNR
NAK: after the responder's RNR timer it and everything behind it goes out again (IBTA 1.4, 9.7.5.2.8).
"""

from __future__ import annotations

from ..durability.rules import FENCE_WAITS_FOR
from ..verbs.objects import RNR_RETRY_FOREVER
from ..verbs.opcodes import KIND, NON_POSTED, RETURNING, Opcode
from ..verbs.ties import NEXT_REQUEST
from ..verbs.work import FENCE, INLINE
from .adapter import Adapter
from .ends import SendEnd
from .message import VOID, Message
from .packets import ATOMIC_BYTES

_FENCING = frozenset(opcode for opcode, kind in KIND.items() if kind in FENCE_WAITS_FOR)


def may_go(end: SendEnd, message: Message) -> bool:
    """Whether the request at the head of the send queue may go on the wire now."""
    if end.stalled or (end.reads_under_way >= end.qp.max_rd_atomic and message.opcode in NON_POSTED):
        return False
    return not end.fencing or message.work.send_flags not in FENCE


def goes(end: SendEnd, message: Message, now_ps: int) -> None:
    """A request goes on the wire. The requests that its fence waited for have certainly been executed by then."""
    if message.work.send_flags in FENCE:
        for observe in end.unseen:
            observe(now_ps)
    message.attempt = end.attempt
    end.outstanding.append(message)
    if message.opcode in NON_POSTED:
        end.reads_under_way += 1
        end.fencing += message.opcode in _FENCING


def is_back(end: SendEnd, message: Message) -> None:
    """A request has been answered, or is about to be sent again."""
    if message.opcode in NON_POSTED:
        end.reads_under_way -= 1
        end.fencing -= message.opcode in _FENCING


def local_buffer_is_open(nic: Adapter, message: Message) -> bool:
    """Whether the ``lkey`` allows the adapter's access to the local buffer."""
    if message.work.lkey is None or message.work.send_flags in INLINE or message.opcode is Opcode.IBV_WR_FLUSH:
        return True
    written = message.opcode in RETURNING
    length = ATOMIC_BYTES if written and message.opcode is not Opcode.IBV_WR_RDMA_READ else message.length
    return nic.regions.local(message.work.lkey, message.work.local_address, length, written)


def will_repeat(nic: Adapter, end: SendEnd) -> bool:
    """An RNR NAK has come: wait and go back, unless that has been done too often."""
    if end.qp.rnr_retry != RNR_RETRY_FOREVER and end.repeats >= end.qp.rnr_retry:
        return False
    assert end.to is not None
    end.repeats += 1
    end.stalled = True
    nic.port.withdraw(end, nic.clock.now_ps)  # requests that have not come to the engine go with the repetition
    nic.clock.call_at(nic.clock.now_ps + end.to.nic.parameters.rnr_timer_ps, _repeat, nic, end)
    return True


def _repeat(nic: Adapter, end: SendEnd) -> None:
    if end.qp.error:
        return
    end.attempt += 1
    end.stalled = False
    while end.outstanding:
        message = end.outstanding.pop()
        is_back(end, message)
        again = message.again(message.key)
        again.ready = True
        end.send_queue.appendleft(again)
        message.attempt = VOID
    for message in end.send_queue:  # keys rise in the order in which requests go out
        end.key = message.key = end.key + NEXT_REQUEST
    nic.requester.pump(end)
