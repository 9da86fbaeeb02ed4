"""The entries of its SRAM that an adapter needs for each step, and waiting for missing ones.

A miss is a read over PCIe. All entries that one step lacks are read at once, and the step goes on when they are there;
others go on meanwhile, except those of the same queue pair behind it, which is processed in order. Nothing of this
happens while everything fits (``Sram.crowded``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from ..verbs.opcodes import ATOMICS, RETURNING, SENDS, Opcode
from ..verbs.ties import PACKET_SHIFT, RESPONSE
from .ends import ReceiveEnd
from .message import Message, Packet
from .packets import ATOMIC_BYTES
from .sram import SramEntry

if TYPE_CHECKING:
    from .adapter import Adapter

_REQUESTS, _RESPONSES = 0, 1

Step = tuple[Callable[[], int], int, Callable[[], None]]
"""A function that returns the bytes to read for a step; the step's key; the function that goes on afterwards."""


class Contexts:
    """The lookups of one adapter, and its steps that wait for them."""

    def __init__(self, nic: Adapter) -> None:
        self._nic = nic
        self._lines: dict[tuple[int, int], deque[Step]] = {}
        """Steps of a queue pair that wait, in order: those of requests to it, and those of responses."""

    # the requester's steps ----------------------------------------------------------------------------------
    def posted(self, messages: list[Message], go: Callable[[], None]) -> None:
        """A doorbell has brought a work request to the adapter, or the notice of several."""
        nic, parameters = self._nic, self._nic.parameters
        missing = nic.sram.look(SramEntry.QP, messages[0].end.number, parameters.qp_context_bytes)
        for message in messages:
            nic.sram.put(SramEntry.WQE, message.key, parameters.wqe_bytes)
        self._fetch(messages[0].key, missing, go)

    def gathered(self, message: Message, go: Callable[[], None]) -> None:
        """The payload of ``message`` is about to be read from its buffer."""
        self._fetch(message.key, self._pages(message.work.lkey, message.work.local_address, message.length), go)

    def answered(self, message: Message, at: int, n_bytes: int, last: bool, go: Callable[[], None]) -> None:
        """A response to ``message`` is here, with the ``n_bytes`` from ``at`` on."""
        parameters, sram = self._nic.parameters, self._nic.sram

        def missing() -> int:
            found = sram.look(SramEntry.QP, message.end.number, parameters.qp_context_bytes)
            found += sram.look(SramEntry.WQE, message.key, parameters.wqe_bytes)
            if last:
                sram.drop(SramEntry.WQE, message.key)
            if message.opcode in RETURNING:
                found += self._pages(message.work.lkey, message.work.local_address + at, n_bytes)
            return found

        key = message.key + RESPONSE + (at >> PACKET_SHIFT)
        self._join((message.end.number, _RESPONSES), (missing, key, go))

    # the responder's ----------------------------------------------------------------------------------------
    def arrived(self, packet: Packet, go: Callable[[Packet], None]) -> None:
        """A packet of a request has been processed; ``go`` takes it in."""
        message, at, payload = packet[:3]
        end = message.to
        key = message.key + (at >> PACKET_SHIFT)
        missing = partial(self._missing, end, message, at, len(payload))
        self._join((end.number, _REQUESTS), (missing, key, partial(go, packet)))

    def _missing(self, end: ReceiveEnd, message: Message, at: int, n_bytes: int) -> int:
        found = self._nic.sram.look(SramEntry.QP, end.number, self._nic.parameters.qp_context_bytes)
        if message.opcode not in SENDS:
            if message.opcode is Opcode.IBV_WR_RDMA_READ:
                n_bytes = message.length
            elif message.opcode in ATOMICS:
                n_bytes = ATOMIC_BYTES
            return found + self._pages(message.work.rkey, message.work.remote_address + at, n_bytes)
        queue = end.qp.srq.receive_queue if end.qp.srq is not None else end.receive_queue
        receive = end.receiving or (queue[0] if queue else None)
        return found if receive is None else found + self._pages(receive.lkey, receive.local_address + at, n_bytes)

    # both --------------------------------------------------------------------------------------------------
    def _pages(self, key: int | None, address: int, n_bytes: int) -> int:
        """Bytes to read to translate a range: 0 for physical addresses, or for a key without a region."""
        nic = self._nic
        region = None if key is None else nic.regions.find(key)
        if region is None:
            return 0
        found = nic.sram.look(SramEntry.MPT, region.key, nic.parameters.mpt_bytes)
        for page in region.pages(address, n_bytes):
            found += nic.sram.look(SramEntry.MTT, (region.key, page), nic.parameters.mtt_bytes)
        return found

    def _join(self, name: tuple[int, int], step: Step) -> None:
        line = self._lines.setdefault(name, deque())
        line.append(step)
        if len(line) == 1:
            self._next(line)

    def _next(self, line: deque[Step]) -> None:
        while line:
            needs, key, go = line[0]
            missing = needs()
            if missing:
                self._fetch(key, missing, partial(self._here, line))
                return
            line.popleft()
            go()

    def _here(self, line: deque[Step]) -> None:
        line.popleft()[2]()
        self._next(line)

    def _fetch(self, key: int, n_bytes: int, go: Callable[[], None]) -> None:
        if not n_bytes:
            go()
            return
        nic = self._nic
        nic.slot.settle(key)
        nic.slot.dma.read(key, 0, 0, lambda *_: go(), n_bytes=n_bytes)
