"""The adapter executes WAIT and ENABLE, and reads the work requests of managed queue pairs from memory.

Each takes the engine as long as any request does (assumption: no source says). A WAIT sees a completion when that is
visible in memory, which is a little later than an adapter need wait.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from ...sim.trace import NEVER
from ..verbs.cross_channel import CrossChannelQueue, CrossChannelWR, decode
from ..verbs.objects import WorkCompletion
from ..verbs.opcodes import Opcode, Status
from ..verbs.ties import COMPLETION
from ..verbs.work import SIGNALED, WQE_BYTES
from .adapter import Adapter
from .ends import SendEnd
from .message import Message

if TYPE_CHECKING:
    from .requester import Requester


class CrossChannel:
    """What one adapter keeps of WAITs and of managed queue pairs."""

    def __init__(self, nic: Adapter, requester: Requester, fetch_payload: Callable[[Message], None]) -> None:
        self._nic = nic
        self._requester = requester
        self._fetch_payload = fetch_payload
        self._waiting: dict[int, deque[tuple[Message, int]]] = {}
        """By managed queue pair: the requests that are posted and not enabled, and where their WQEs lie."""
        self._credits: dict[int, int] = {}
        """By managed queue pair: how many more it may execute than are posted."""
        self._rung: dict[int, int] = {}
        """By managed queue pair: how many doorbells there have been."""
        self._begun: set[Message] = set()
        """The requests for which the engine is at work."""
        self._held: set[Message] = set()
        """The requests behind a WAIT, whose payload is read when that is over."""

    def posted(self, end: SendEnd, messages: list[Message]) -> None:
        """The doorbell of requests of a managed queue pair is here: those that are enabled already are fetched."""
        number, managed = end.qp.number, end.qp.managed
        assert managed is not None
        rung = self._rung.get(number, 0)
        self._rung[number] = rung + len(messages)
        places = map(managed.place, range(rung, rung + len(messages)))
        self._waiting.setdefault(number, deque()).extend(zip(messages, places, strict=True))
        self._enable(end, 0)

    def executes(self, end: SendEnd, message: Message) -> bool:
        """Execute the request at the head of a send queue, which needs no wire; False: it has to wait."""
        if end.off_ps != NEVER:
            return False
        if message not in self._begun:
            self._begun.add(message)
            clock = self._nic.clock
            clock.call_at(clock.now_ps + self._nic.parameters.tx_processing_ps, self._requester.pump, end)
            return False
        work: Any = message.work
        if message.opcode is Opcode.IBV_EXP_WR_CQE_WAIT and not self._has_come(end, work):
            return False
        self._begun.remove(message)
        end.send_queue.popleft()
        if message.opcode is Opcode.IBV_EXP_WR_SEND_ENABLE:
            self._enable(work.qp.end, work.wqe_count)
        else:
            self._let_go(end)
        if work.send_flags in SIGNALED:
            completion = WorkCompletion(
                work.wr_id, Status.IBV_WC_SUCCESS, message.opcode, 0, end.qp, message.span, slots=1 + end.unsignalled
            )
            end.unsignalled = 0
            self._nic.slot.complete(end.qp.send_cq, completion, message.key + COMPLETION)
        else:
            end.unsignalled += 1
        return True

    def holds(self, message: Message) -> bool:
        """Whether a request's payload is not to be read yet: a WAIT before it may be for the message that brings it."""
        for earlier in message.end.send_queue:
            if earlier is message:
                return False
            if earlier.opcode is Opcode.IBV_EXP_WR_CQE_WAIT:
                self._held.add(message)
                return True
        return False

    def _let_go(self, end: SendEnd) -> None:
        """A WAIT is over: the payloads of the requests up to the next one are read."""
        for message in list(end.send_queue):
            if message.opcode is Opcode.IBV_EXP_WR_CQE_WAIT:
                return
            if message in self._held:
                self._held.remove(message)
                self._fetch_payload(message)

    def _has_come(self, end: SendEnd, work: CrossChannelWR) -> bool:
        """Whether the completions that a WAIT is for have come; else its queue pair is looked at with the next one."""
        queue = work.cq
        assert isinstance(queue, CrossChannelQueue)
        number = end.qp.number
        wanted = queue.awaited.get(number, 0) + work.cq_count
        if queue.produced < wanted:
            queue.told[number] = partial(self._requester.pump, end)
            return False
        queue.awaited[number] = wanted
        return True

    def _enable(self, end: SendEnd, count: int) -> None:
        number = end.qp.number
        waiting = self._waiting.setdefault(number, deque())
        self._credits[number] = self._credits.get(number, 0) + count
        while waiting and self._credits[number]:
            self._credits[number] -= 1
            self._fetch(*waiting.popleft())

    def _fetch(self, message: Message, place: int) -> None:
        """Read a request's WQE where it lies, and do what its bytes say."""
        self._nic.slot.settle(message.key)
        self._nic.wqe_fetches += 1
        self._nic.slot.dma.read(message.key, place, WQE_BYTES, partial(self._fetched, message), n_bytes=WQE_BYTES)

    def _fetched(self, message: Message, data: bytes, _: object) -> None:
        work = decode(bytes(data), message.work)
        if work is None:
            message.end.qp.fail()
            return
        message.work, message.opcode, message.length = work, work.opcode, work.length
        if message.opcode is Opcode.IBV_WR_NOP:
            self._requester.ready(message)
        else:
            self._fetch_payload(message)
