"""The entries of its SRAM that an adapter needs for each step, and waiting for missing ones.

A miss is a read over PCIe. All entries that one step lacks of the room that kinds share are read at once; what it lacks
of a kind with a cache of its own is a read of its own, one after the other, as each entry says where the next one is:
context, protection, translation. Of each such cache only so many reads are under way (``under_way``); others wait. The
step goes on when all entries are there; others go on meanwhile, except those of the same queue pair behind it, which is
processed in order. Nothing of this happens while everything fits and no step waits (``Tables.crowded``).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from functools import partial
from typing import TYPE_CHECKING

from ..verbs.opcodes import ATOMICS, RETURNING, SENDS, Opcode, QpType
from ..verbs.ties import PACKET_SHIFT, RESPONSE
from .ends import ReceiveEnd
from .message import Message, Packet
from .packets import ATOMIC_BYTES, GRH_BYTES
from .sram import CACHES, SramEntry, translated_by

if TYPE_CHECKING:
    from .adapter import Adapter

_REQUESTS, _RESPONSES = 0, 1

Needs = dict[SramEntry | None, int]
"""Bytes to read: of each kind with a cache of its own, and of all that share one room (None)."""
Step = tuple[Callable[[], Needs], int, Callable[[], None]]
"""A function that returns what to read for a step; the step's key; the function that goes on afterwards."""


class Misses:
    """The reads of one cache's missing entries: so many are under way, others wait in order."""

    __slots__ = ("_free", "_waiting", "waited")

    def __init__(self, under_way: int) -> None:
        self._free = under_way
        self._waiting: deque[Callable[[], None]] = deque()
        self.waited = 0
        """Reads that had to wait."""

    def begin(self, start: Callable[[], None]) -> None:
        """Start a read, now or when another one is back."""
        if self._free:
            self._free -= 1
            start()
        else:
            self.waited += 1
            self._waiting.append(start)

    def end(self) -> None:
        """A read is back."""
        if self._waiting:
            self._waiting.popleft()()
        else:
            self._free += 1


class Contexts:
    """The lookups of one adapter, and its steps that wait for them."""

    def __init__(self, nic: Adapter) -> None:
        self._nic = nic
        self._lines: dict[tuple[int, int], deque[Step]] = {}
        """Steps of a queue pair that wait, in order: those of requests to it, and those of responses."""
        self._misses = {CACHES[name]: Misses(cache.under_way) for name, cache in nic.parameters.caches.items()}
        if SramEntry.MTT in self._misses:
            self._misses[SramEntry.EXTENT] = self._misses[SramEntry.MTT]

    # the requester's steps ----------------------------------------------------------------------------------
    def posted(self, messages: list[Message], go: Callable[[], None]) -> None:
        """A doorbell has brought a work request to the adapter, or the notice of several."""
        missing: Needs = {}
        self._look(missing, SramEntry.QP, messages[0].end.number)
        for message in messages:
            self._nic.sram.put(SramEntry.WQE, message.wqe)
        self._fetch(messages[0].key, missing, go)

    def gathered(self, message: Message, go: Callable[[], None]) -> None:
        """The payload of ``message`` is about to be read from its buffer."""
        missing: Needs = {}
        self._pages(missing, message.work.lkey, message.work.local_address, message.length)
        self._fetch(message.key, missing, go)

    def answered(self, message: Message, at: int, n_bytes: int, go: Callable[[], None]) -> None:
        """A response to ``message`` is here, with the ``n_bytes`` from ``at`` on."""

        def missing() -> Needs:
            found: Needs = {}
            if not message.end.outstanding:  # flushed, or gone with its queue pair
                return found
            self._look(found, SramEntry.QP, message.end.number)
            self._look(found, SramEntry.WQE, message.wqe)
            if message.opcode in RETURNING:
                self._pages(found, message.work.lkey, message.work.local_address + at, n_bytes)
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

    def _missing(self, end: ReceiveEnd, message: Message, at: int, n_bytes: int) -> Needs:
        found: Needs = {}
        if end.gone:
            return found
        self._look(found, SramEntry.QP, end.number)
        if message.opcode not in SENDS:
            if message.opcode is Opcode.IBV_WR_RDMA_READ:
                n_bytes = message.length
            elif message.opcode in ATOMICS:
                n_bytes = ATOMIC_BYTES
            self._pages(found, message.work.rkey, message.work.remote_address + at, n_bytes)
            return found
        header_bytes = GRH_BYTES if end.qp.qp_type is QpType.IBV_QPT_UD else 0
        taken = end.buffer(header_bytes + message.length)
        if taken is not None:
            receive, used_bytes = taken
            self._pages(found, receive.lkey, receive.local_address + used_bytes + at, header_bytes + n_bytes)
        return found

    # both --------------------------------------------------------------------------------------------------
    def _look(self, needs: Needs, entry: SramEntry, name: Hashable) -> None:
        """Look an entry up, and add what is missing to ``needs``."""
        missing = self._nic.sram.look(entry, name)
        if missing:
            own = entry if entry in self._misses else None
            needs[own] = needs.get(own, 0) + missing

    def _pages(self, needs: Needs, key: int | None, address: int, n_bytes: int) -> None:
        """Look up what translates a range: nothing for physical addresses, or for a key without a region."""
        region = None if key is None else self._nic.regions.find(key)
        if region is None:
            return
        self._look(needs, SramEntry.MPT, region.key)
        for page in region.pages(address, n_bytes):
            self._look(needs, translated_by(region), (region.key, page))

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
                self._nic.sram.wait(1)
                self._fetch(key, missing, partial(self._here, line))
                return
            line.popleft()
            go()

    def _here(self, line: deque[Step]) -> None:
        line.popleft()[2]()
        self._next(line)
        self._nic.sram.wait(-1)

    def _fetch(self, key: int, needs: Needs, go: Callable[[], None]) -> None:
        """Read what is missing, room by room, and go on."""
        if not needs:
            go()
            return
        own, n_bytes = needs.popitem() if None not in needs else (None, needs.pop(None))
        misses = None if own is None else self._misses[own]

        def here(*_: object) -> None:
            if misses is not None:
                misses.end()
            self._fetch(key, needs, go)

        def start() -> None:
            nic = self._nic
            nic.slot.settle(key)
            nic.slot.dma.read(key, 0, 0, here, n_bytes=n_bytes)

        if misses is None:
            start()
        else:
            misses.begin(start)
