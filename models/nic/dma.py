"""DMA reads of one adapter: payloads and work requests that it fetches, READs and atomics that it serves.

A read request goes through PCIe behind the adapter's posted writes, completions of its own included, and is looked at
once all of them are visible (PCIe base specification, table 2-40). Whether it hits or misses the cache then decides how
long it takes; each of its lines is as old as the instant at which it is fetched. Requests are looked at in their order,
and their completions come back in that order. A request holds a tag until its data is back; without one it waits.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from heapq import heappop, heappush
from typing import Any

import numpy as np

from ...sim.bytespace import LINE_BYTES
from ...sim.clock import HARDWARE, Clock
from ...sim.trace import Chunk
from ..host.hostmemory import HostMemory
from ..memory.devices import DEVICE_SPAN_BITS, OFFSET_MASK
from ..pcie.link import PcieLink
from .fetch import Fetch, Orders

Done = Callable[[Any, list[Chunk]], None]
"""Takes the data of a read (bytes, or a bytearray that grows), and the chunks that it proves to be visible."""
Look = Callable[[int, int], None]
"""Takes when a request that is looked at now is served, and how long the answer takes from there to the link (ps)."""


class DmaReader:
    """The DMA reads of one adapter; ``arbiter`` draws the order of lines.

    Its methods are called at the instant at which a request enters PCIe, in time order.
    """

    def __init__(
        self,
        clock: Clock,
        host: HostMemory,
        pcie: PcieLink,
        arbiter: Callable[[], np.random.Generator],
        settle: Callable[[int], None] = lambda key: None,
    ) -> None:
        self._clock = clock
        self._queue: list[Any] = clock._queue
        self._host = host
        self._pcie = pcie
        self.orders = Orders(arbiter)
        self._numbers = itertools.count()
        self._settle = settle
        """Called before a request that had to wait enters PCIe: writes the completions that come before it."""
        self._mrrs_bytes = pcie.parameters.mrrs_bytes
        self._most_tags = self._tags = pcie.parameters.read_tags
        """All tags, and the free ones."""
        self._waiting: deque[tuple[int, int, Callable[[], None]]] = deque()
        """Reads that wait for tags, in order: (number of tags, key, function that starts the read)."""
        self._due: deque[tuple[int, int, int]] = deque()
        """Tags that are free from an instant on at which no event is: (instant, key, number), in order."""
        self._requests: list[tuple[int, int, int, int, int, tuple[int, int] | None, Look, int]] = []
        """Requests by (when they are looked at, number)."""

    def request(
        self,
        key: int,
        address: int,
        length: int,
        look: Look,
        *,
        not_before_ps: int = 0,
        n_bytes: int | None = None,
        sooner_ps: int = 0,
    ) -> None:
        """A request for a range, or for ``n_bytes`` that the core has just written, enters PCIe now.

        ``key`` is free for a hardware event at any instant from now on. ``not_before_ps`` is when all writes are
        visible that the request has to be behind although they came on another way. Host memory answers ``sooner_ps``
        sooner than a payload's fetch would be back.
        """
        host = self._host
        size = length if n_bytes is None else n_bytes
        at_root_ps = self._pcie.read_request(self._clock._now, size, address)
        peer = host.peer_of(address) if host.peers and n_bytes is None else None
        served: tuple[int, int] | None = None  # (when it is served, round trip) where no memory is looked at
        if peer is None:
            looked_at_ps = host.looked_at_ps(at_root_ps)
        else:  # all writes ahead of it are known already
            looked_at_ps, latency_ps = at_root_ps, peer.dma_read_ps(0, length)
            served = peer.read_ready_ps(max(at_root_ps, not_before_ps) + latency_ps // 2), latency_ps
        looked_at_ps = looked_at_ps if looked_at_ps > not_before_ps else not_before_ps
        found = looked_at_ps, next(self._numbers), at_root_ps, address, length, served, look, sooner_ps
        heappush(self._requests, found)
        heappush(self._queue, (looked_at_ps, HARDWARE, key, self._look, None))

    def _look(self, _: None) -> None:
        """Requests of one instant keep their order, whatever their keys are."""
        at_root_ps, address, length, served, look, sooner_ps = heappop(self._requests)[2:]
        host = self._host
        if served is None:
            attached = host.attached[address >> DEVICE_SPAN_BITS]
            latency_ps = attached.dma_read_ps(address & OFFSET_MASK, length)
            if sooner_ps:
                latency_ps = max(latency_ps - sooner_ps, 2)
            ready_ps = host.read_ready_ps(at_root_ps, latency_ps)
        else:
            ready_ps, latency_ps = served
            ready_ps = max(ready_ps, self._clock.now_ps)
        look(ready_ps, latency_ps - latency_ps // 2)

    def read(
        self,
        key: int,
        address: int,
        length: int,
        done: Done,
        *,
        by_line: bool = False,
        not_before_ps: int = 0,
        after: Callable[[], int] | None = None,
        n_bytes: int | None = None,
        sampled: Callable[[int], None] | None = None,
        part_bytes: int = 0,
        parts: list[int] | None = None,
        observed: list[Chunk] | None = None,
        sooner_ps: int = 0,
    ) -> None:
        """Read a range; ``done`` is called when the data is in the adapter. The rest is as in :meth:`request`.

        In one piece, or ``by_line`` in any order: the data may then mix old and new against a concurrent
        writer. At the look ``after`` is called for an instant before which nothing is fetched, and ``sampled`` with
        the instant at which the last piece is fetched. With ``parts``, of ``part_bytes`` each, no line is fetched later
        than its part needs; ``done`` is called when the first of them is in the adapter, and the list gets when each of
        them is. The data that ``done`` was called with then grows, up to now with :meth:`catch_up`. ``observed`` is the
        list that chunks are put in.
        """
        size = length if n_bytes is None else n_bytes
        tags = min(self._pcie.requests(size, address), self._most_tags)
        fetch = self.lines(address, length, observed) if by_line else Fetch(address, length, 1, b"", observed)

        def look(ready_ps: int, back_ps: int) -> None:
            at_ps = ready_ps if after is None else max(ready_ps, after())
            in_parts = part_bytes if parts is not None else 0
            if length:
                fetch.begin(self._host, at_ps, self._pcie.line_ps, in_parts if by_line else 0)
            latest = fetch.count - 1
            last_ps = at_ps + latest * self._pcie.line_ps
            if parts is None:
                fetched_ps = self._pcie.read_completion(at_ps + back_ps, size, address, last_ps + back_ps)
            else:
                parts.extend(self.completions(fetch, at_ps + back_ps, in_parts))
                fetched_ps = parts[0]
            heappush(self._queue, (fetched_ps, HARDWARE, key, self._fetched, (fetch, tags, done)))
            if sampled is not None:
                sampled(last_ps)

        if self._take(tags, key):
            self.request(key, address, length, look, not_before_ps=not_before_ps, n_bytes=n_bytes, sooner_ps=sooner_ps)
        else:
            for due in self._due:
                heappush(self._queue, (due[0], HARDWARE, due[1], self.give_back, due[2]))
            self._due.clear()
            start = partial(
                self.request, key, address, length, look, not_before_ps=not_before_ps, n_bytes=n_bytes,
                sooner_ps=sooner_ps,
            )  # fmt: skip
            self._waiting.append((tags, key, start))

    def completions(self, fetch: Fetch, from_ps: int, part_bytes: int) -> list[int]:
        """When each part of a read is in the adapter whose first line leaves memory's side at ``from_ps``."""
        instants, line_ps, lead, latest = [], self._pcie.line_ps, fetch.address % LINE_BYTES, fetch.count - 1
        for start in range(0, fetch.length, part_bytes):
            part = min(part_bytes, fetch.length - start)
            end = min(latest, -(-(lead + start + part) // LINE_BYTES) - 1)  # its last line among the pieces
            begin = min(end, -(-(lead + start) // LINE_BYTES)) if start else 0
            begin_ps, end_ps = from_ps + begin * line_ps, from_ps + end * line_ps
            instants.append(self._pcie.read_completion(begin_ps, part, fetch.address + start, end_ps))
        return instants

    def lines(self, address: int, length: int, observed: list[Chunk] | None = None) -> Fetch:
        """A read by line that has its turn now at the arbiter."""
        count = (address + length - 1) // LINE_BYTES - address // LINE_BYTES + 1 if length else 1
        fetch = Fetch(address, length, count, bytearray(length), observed)
        if count > 1:
            self.orders.enter(fetch)
        return fetch

    def order(self, count: int) -> Sequence[int]:
        """In which order the next so many pieces are fetched: the arbiter's choice."""
        return self.orders.draw(count) if count > 1 else range(count)

    def _fetched(self, found: tuple[Fetch, int, Done]) -> None:
        fetch, tags, done = found
        self.give_back(tags)  # of a read in parts with the first of them: the others are on their way, in order
        if fetch.length:
            self._host.catch_up_bytes(fetch.address)
        done(fetch.data, fetch.chunks)

    def take_tags(self, key: int, address: int, length: int) -> int:
        """Take the tags of a read now, whose look will say ahead when its data :meth:`comes`; returns how many.

        0, and nothing is taken, if it has to wait for them.
        """
        requests = (address % self._mrrs_bytes + length - 1) // self._mrrs_bytes + 1
        tags = requests if requests < self._most_tags else self._most_tags
        return tags if self._take(tags, key) else 0

    def comes(self, at_ps: int, key: int, tags: int) -> None:
        """The data of a read will be in the adapter at ``at_ps``: its tags are free then."""
        if self._waiting:
            heappush(self._queue, (at_ps, HARDWARE, key, self.give_back, tags))
        else:
            self._due.append((at_ps, key, tags))

    def _take(self, tags: int, key: int) -> bool:
        """Take so many tags for a read now, unless it has to wait for them."""
        due = self._due
        if due:
            now = self._clock._now, key
            while due and due[0] < now:
                self._tags += due.popleft()[2]
        if tags > self._tags or self._waiting:
            return False
        self._tags -= tags
        return True

    def give_back(self, tags: int) -> None:
        """Tags are free from now on: reads that wait for them start."""
        self._tags += tags
        while self._waiting and self._waiting[0][0] <= self._tags:
            tags, key, start = self._waiting.popleft()
            self._tags -= tags
            self._settle(key)
            start()

    def catch_up(self, address: int) -> None:
        """Extend the data of reads of the memory at ``address`` by the lines fetched until now."""
        self._host.catch_up_bytes(address)
