"""Acknowledgements: how a requester learns that its requests are done, on a fabric that loses nothing.

Every acknowledgement comes, in order. A request whose answer will never come is given up after its retries; one
that found no receive request goes out again (``models.nic.sendqueue``). Other fabrics: ``models.nic.lossy.transport``.
"""

from __future__ import annotations

from functools import partial

from ...sim.trace import NEVER
from ..verbs.objects import QueuePair
from ..verbs.opcodes import RECEIVING, Opcode, Status
from ..verbs.ties import RESPONSE
from ..verbs.work import SIGNALED
from . import sendqueue
from .adapter import Adapter
from .ends import ReceiveEnd, SendEnd
from .inbound import Observe
from .message import Message, Packet

_WRITE = Opcode.IBV_WR_RDMA_WRITE
_SUCCESS = Status.IBV_WC_SUCCESS


class Acknowledgements:
    """The acknowledgements of one adapter."""

    def __init__(self, nic: Adapter) -> None:
        self._nic = nic
        self._clock = nic.clock
        self._slot = nic.slot
        self._sram = nic.sram
        self._acked_ps = nic.parameters.ack_processing_ps

    # requester ------------------------------------------------------------------------------------------------
    def goes(self, at_ps: int, message: Message) -> None:
        """A request goes to the engine: nothing has to be remembered."""

    def acknowledged(self, message: Message, tail_ps: int) -> None:
        """The last bit of an acknowledgement arrives at ``tail_ps``."""
        end = message.end
        if message.span is not None and (message.opcode is _WRITE or message.opcode not in RECEIVING):
            message.span.marks.append(("ACK on the wire", tail_ps))
        done_ps, last_ps = tail_ps + self._acked_ps, end.last_answer_ps
        done_ps = end.last_answer_ps = done_ps if done_ps > last_ps else last_ps
        outstanding = end.outstanding
        if (
            end.qp.error
            or not outstanding
            or outstanding[0] is not message
            or message.status is not _SUCCESS
            or message.observe is not None
            or end.closed
            or self._sram.crowded
        ):
            self._clock.hardware(done_ps, message.key + RESPONSE, self._take_ack, message)
            return
        # Nothing can come between: all that is left is the completion, if the request is signalled.
        outstanding.popleft()
        end.answered_ps, end.repeats = done_ps, 0
        if message.work.send_flags in SIGNALED:
            # A CQE is written at ``done_ps``, behind earlier ones: it waits in the entrance of the slot until then.
            message.observe = end.report() if end.unreported else None
            message.slots, end.unsignalled = end.unsignalled + 1, 0
            self._slot.complete_send(done_ps, message)
        else:
            end.unsignalled += 1
            clock = self._clock
            clock.quiet_ps = done_ps if done_ps > clock.quiet_ps else clock.quiet_ps

    def _take_ack(self, message: Message) -> None:
        if self._sram.crowded:
            go = partial(self.answered, message.end, message, message.status, message.observe)
            self._nic.contexts.answered(message, 0, 0, go)
        else:
            self.answered(message.end, message, message.status, message.observe)

    def take_response(self, packet: Packet) -> None:
        """A packet of a response with data has been processed: that goes to memory, the last completes the request."""
        if self._sram.crowded:
            self._nic.contexts.answered(
                packet[0], packet[1], len(packet[2]), partial(self._nic.requester.place, packet)
            )
        else:
            self._nic.requester.place(packet)

    def answered(self, end: SendEnd, message: Message, status: Status, observe: Observe | None) -> None:
        """The oldest outstanding request is done; one that found no receive request may go out again."""
        rnr = status is Status.IBV_WC_RNR_RETRY_EXC_ERR
        if rnr and end.off_ps == NEVER and end.outstanding and sendqueue.will_repeat(self._nic, end):
            return
        self._nic.requester.done(end, message, status, observe)

    def unanswered(self, message: Message) -> None:
        """No answer to this request will ever come: it is repeated in vain until the retries are used up.

        The repetitions themselves are left out: no responder is there to take them in.
        """
        after_ps = message.end.qp.gives_up_after_ps
        if after_ps is not None and message.end.reliable:
            self._clock.call_at(max(self._clock.now_ps, message.sent_ps + after_ps), self._give_up, message)

    def _give_up(self, message: Message) -> None:
        end = message.end
        if not end.qp.error and any(message is waiting for waiting in end.outstanding):
            self.answered(end, end.outstanding[0], Status.IBV_WC_RETRY_EXC_ERR, None)

    def flushed(self, qp: QueuePair) -> None:
        """Nothing is outstanding any more on a broken queue pair."""

    # responder ------------------------------------------------------------------------------------------------
    def expects(self, packet: Packet) -> bool:
        """Nothing is lost and nothing overtakes: every packet's turn has come, if it has left the port whole."""
        return packet[4] <= packet[0].end.off_ps

    def acknowledges(self, end: ReceiveEnd, message: Message, observe: Observe | None, status: Status) -> bool:
        """Every request is acknowledged by itself."""
        return True

    def answers(self, message: Message, payload: bytes, observe: Observe | None) -> None:
        """An answer is sent once."""

    def counters(self) -> dict[str, int]:
        """No counters: nothing is lost on this fabric."""
        return {}
