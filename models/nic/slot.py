"""The slot: an adapter's way to its host. Posted writes, DMA reads, and completions in order.

Completions of sends wait in an inbox of the slot's entrance, sorted by instant and key, that is caught up before the
slot is used for anything later, and when the completion may be visible (a lazy merge, as in ``models.nic.port``).
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

import numpy as np

from ...sim.clock import HARDWARE, Clock
from ...sim.trace import NEVER
from ..host.hostmemory import HostMemory
from ..pcie.replay import replaying_link
from ..pcie.rootport import root_link
from ..profiles.platform import Platform
from ..verbs.objects import CompletionQueue, WorkCompletion
from ..verbs.opcodes import RECEIVING, Opcode, Status
from ..verbs.ties import COMPLETION
from .dma import DmaReader
from .message import Message

_WRITE = Opcode.IBV_WR_RDMA_WRITE
_SUCCESS = Status.IBV_WC_SUCCESS
NOT_VISIBLE = -1
"""``Message.start_ps`` of a completion whose instant is not known yet."""


class ReceiveCqe:
    """The CQE of a receive, which is polled when it is visible, and not before ``not_before_ps``."""

    __slots__ = ("completion", "key", "not_before_ps", "start_ps")

    def __init__(self, completion: WorkCompletion, key: int, not_before_ps: int) -> None:
        self.completion = completion
        self.key = key
        self.not_before_ps = not_before_ps
        self.start_ps = NOT_VISIBLE
        """As that of a :class:`Message`: when it is visible; NEVER where its queue pair was gone before."""


class Slot:
    """The slot of one adapter; ``arbiter`` decides in which order the lines of a READ are read."""

    def __init__(
        self,
        clock: Clock,
        name: str,
        host: HostMemory,
        platform: Platform,
        arbiter: Callable[[], np.random.Generator],
    ) -> None:
        self.host = host
        if platform.tails.replays:
            self.link = replaying_link(platform.pcie, host.stream(f"replays of {name}"))
        else:
            self.link = root_link(platform.pcie)
        self.dma = DmaReader(clock, host, self.link, arbiter, self.settle)
        self.cqes: list[tuple[int, int, Message | ReceiveCqe]] = []
        """Completions by (instant, key)."""
        self.posted_write_ps = platform.pcie.visible_ps
        """The time from the root port until a posted write is visible."""
        self._clock = clock
        self._queue: list[Any] = clock._queue
        self._cqe_bytes = platform.nic.cqe_bytes
        self._cqe_ps = self.link.write_ps(self._cqe_bytes) + self.posted_write_ps
        """The time from the entrance of the slot to a visible completion, undisturbed."""

    def settle(self, key: int) -> None:
        """Write the completions that come before a use of the slot now, with ``key``."""
        cqes, now_ps = self.cqes, self._clock._now
        while cqes and (cqes[0][0] < now_ps or (cqes[0][0] == now_ps and cqes[0][1] < key)):
            self._write_cqe()

    def complete_send(self, at_ps: int, message: Message) -> None:
        """The CQE of a request that has succeeded is written at ``at_ps``, behind earlier ones."""
        message.start_ps = NOT_VISIBLE
        key = message.key + COMPLETION
        heappush(self.cqes, (at_ps, key, message))
        heappush(self._queue, (at_ps + self._cqe_ps, HARDWARE, key, self._visible, message))

    def complete_now(self, message: Message) -> None:
        """The CQE of a request that has succeeded is written now, behind what went to the host before it."""
        key = message.key + COMPLETION
        if self.cqes:
            self.settle(key)
        host, last_ps = self.host, self.host.last_visible_ps
        visible_ps = self.link.write(self._clock._now, self._cqe_bytes)[1] + self.posted_write_ps
        visible_ps = max(visible_ps, host.ordered_ps)
        message.start_ps = visible_ps
        host.last_visible_ps = visible_ps if visible_ps > last_ps else last_ps
        heappush(self._queue, (visible_ps, HARDWARE, key, self._visible, message))

    def complete_receive(self, at_ps: int, key: int, completion: WorkCompletion, not_before_ps: int) -> None:
        """The CQE of a receive is written at ``at_ps``, behind earlier ones; it is polled not before its bytes show."""
        cqe = ReceiveCqe(completion, key, not_before_ps)
        if completion.span is not None:  # which has its hops in the order of their instants
            heappush(self._queue, (at_ps, HARDWARE, key, self._mark_receive, cqe))
            return
        heappush(self.cqes, (at_ps, key, cqe))
        heappush(self._queue, (at_ps + self._cqe_ps, HARDWARE, key, self._received, cqe))

    def _mark_receive(self, cqe: ReceiveCqe) -> None:
        completion = cqe.completion
        hop = "responder NIC, DMA and CQE"
        self.complete(completion.qp.recv_cq, completion, cqe.key, hop, cqe.not_before_ps)

    def _received(self, cqe: ReceiveCqe) -> None:
        """A receive's completion may be visible: if it is, it goes into its queue."""
        while cqe.start_ps == NOT_VISIBLE:
            self._write_cqe()
        visible_ps, least_ps, qp = cqe.start_ps, cqe.not_before_ps, cqe.completion.qp
        if qp.end.off_ps != NEVER:
            return
        visible_ps = visible_ps if visible_ps > least_ps else least_ps
        if visible_ps > self._clock._now:
            heappush(self._queue, (visible_ps, HARDWARE, cqe.key, self._received, cqe))
        else:
            qp.recv_cq.push(cqe.completion)

    def _write_cqe(self) -> None:
        """Write the first of the completions that wait."""
        at_ps, _, cqe = heappop(self.cqes)
        if cqe.__class__ is ReceiveCqe and cqe.completion.qp.end.off_ps < at_ps:
            cqe.start_ps = NEVER
            return
        host = self.host
        visible_ps = self.link.write(at_ps, self._cqe_bytes)[1] + self.posted_write_ps
        visible_ps = max(visible_ps, host.ordered_ps)
        cqe.start_ps = visible_ps
        last_ps = host.last_visible_ps
        host.last_visible_ps = visible_ps if visible_ps > last_ps else last_ps

    def _visible(self, message: Message) -> None:
        """A completion may be visible: if it is, it goes into its queue."""
        while message.start_ps == NOT_VISIBLE:
            self._write_cqe()
        visible_ps = message.start_ps
        if visible_ps > self._clock._now:
            heappush(self._queue, (visible_ps, HARDWARE, message.key + COMPLETION, self._visible, message))
            return
        span, end, opcode = message.span, message.end, message.opcode
        if end.off_ps != NEVER:
            return
        if span is not None and (opcode is _WRITE or opcode not in RECEIVING):
            span.marks.append(("CQE", visible_ps))
        completion = WorkCompletion(message.work.wr_id, _SUCCESS, opcode, message.length, end.qp, span, message.observe)
        completion.slots = message.slots
        end.qp.send_cq.push(completion)

    def complete(
        self,
        queue: CompletionQueue,
        completion: WorkCompletion,
        key: int,
        hop: str | None = None,
        not_before_ps: int = 0,
    ) -> None:
        """Write a CQE now, behind everything that went to the host before it; it is polled once it is visible."""
        if completion.qp.end.off_ps != NEVER:
            return
        if self.cqes:
            self.settle(key)
        host = self.host
        visible_ps = self.link.write(self._clock._now, self._cqe_bytes)[1] + self.posted_write_ps
        visible_ps = max(visible_ps, host.ordered_ps)
        host.last_visible_ps = max(visible_ps, host.last_visible_ps)
        visible_ps = max(visible_ps, not_before_ps)
        if hop is not None and completion.span is not None:
            completion.span.marks.append((hop, visible_ps))
        heappush(self._queue, (visible_ps, HARDWARE, key, self._push, (queue, completion)))

    def _push(self, found: tuple[CompletionQueue, WorkCompletion]) -> None:
        queue, completion = found
        if completion.qp.end.off_ps == NEVER:
            queue.push(completion)
