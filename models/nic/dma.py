"""DMA reads of one adapter: payloads and work requests that it fetches, READs and atomics that it serves.

A read request goes through PCIe behind the adapter's posted writes, completions of its own included, and is looked at
once all of them are visible (PCIe base specification, table 2-40). Whether it hits or misses the cache then decides how
long it takes; each of its lines is as old as the instant at which it is fetched. Requests are looked at in their order,
and their completions come back in that order. A request holds a tag until its data is back; without one it waits.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from heapq import heappop, heappush
from typing import Any

import numpy as np

from ...sim.bytespace import LINE_BYTES, lines
from ...sim.clock import HARDWARE, Clock
from ...sim.trace import Chunk
from ..host.hostmemory import HostMemory
from ..pcie.link import PcieLink

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
        self.arbiter = arbiter
        self._numbers = itertools.count()
        self._settle = settle
        """Called before a request that had to wait enters PCIe: writes the completions that come before it."""
        self._most_tags = self._tags = pcie.parameters.read_tags
        """All tags, and the free ones."""
        self._waiting: deque[tuple[int, int, Callable[[], None]]] = deque()
        """Reads that wait for tags, in order: (number of tags, key, function that starts the read)."""
        self._requests: list[tuple[int, int, _Request]] = []
        """Requests by (when they are looked at, number)."""

    def request(
        self, key: int, address: int, length: int, look: Look, *, not_before_ps: int = 0, n_bytes: int | None = None
    ) -> None:
        """A request for a range, or for ``n_bytes`` that the core has just written, enters PCIe now.

        ``key`` is free for a hardware event at any instant from now on. ``not_before_ps`` is when all writes are
        visible that the request has to be behind although they came on another way.
        """
        host = self._host
        size = length if n_bytes is None else n_bytes
        at_root_ps = self._pcie.read_request(self._clock._now, size, address)
        peer = host.peer_of(address) if n_bytes is None else None
        served: tuple[int, int] | None = None
        if peer is None:
            looked_at_ps = host.looked_at_ps(at_root_ps)
        else:  # all writes ahead of it are known already
            looked_at_ps, latency_ps = at_root_ps, peer.dma_read_ps(0, length)
            served = peer.read_ready_ps(at_root_ps + latency_ps // 2), latency_ps
        looked_at_ps = looked_at_ps if looked_at_ps > not_before_ps else not_before_ps
        request = _Request(at_root_ps, address, length, served, look)
        heappush(self._requests, (looked_at_ps, next(self._numbers), request))
        heappush(self._queue, (looked_at_ps, HARDWARE, key, self._look, None))

    def _look(self, _: None) -> None:
        """Requests of one instant keep their order, whatever their keys are."""
        request = heappop(self._requests)[2]
        host = self._host
        if request.served is None:
            latency_ps = host.dma_read_ps(request.address, request.length)
            ready_ps = host.read_ready_ps(request.at_root_ps, latency_ps)
        else:
            ready_ps, latency_ps = request.served
            ready_ps = max(ready_ps, self._clock.now_ps)
        request.look(ready_ps, latency_ps - latency_ps // 2)

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
    ) -> None:
        """Read a range; ``done`` is called when the data is in the adapter. The rest is as in :meth:`request`.

        In one piece, or ``by_line`` in any order: the data may then mix old and new against a concurrent
        writer. At the look ``after`` is called for an instant before which nothing is fetched, and ``sampled`` with
        the instant at which the last piece is fetched. With ``parts``, of ``part_bytes`` each, no line is fetched later
        than its part needs; ``done`` is called when the first of them is in the adapter, and the list gets when each of
        them is. The data that ``done`` was called with then grows, up to now with :meth:`catch_up`. ``observed`` is the
        list that chunks are put in.
        """
        pieces = split(address, length) if by_line else [(address, length)] if length else []
        order = self.order(len(pieces))
        size = length if n_bytes is None else n_bytes
        tags = min(self._pcie.requests(size, address), self._most_tags)
        found = _Found(
            address, pieces, done, tags, observed, bytearray(length) if parts is not None and by_line else None
        )

        def look(ready_ps: int, back_ps: int) -> None:
            at_ps = ready_ps if after is None else max(ready_ps, after())
            if len(pieces) == 1:
                self._host.read_at(at_ps, *pieces[0], found.sink(0), found.chunks)
            else:
                self._sample(found, order, at_ps, part_bytes if parts is not None and by_line else 0)
            line_ps, latest = self._pcie.line_ps, len(pieces) - 1 if pieces else 0
            last_ps = at_ps + latest * line_ps
            if parts is None:
                fetched_ps = self._pcie.read_completion(at_ps + back_ps, size, address, last_ps + back_ps)
            else:
                lead = address % LINE_BYTES
                for start in range(0, size, part_bytes):
                    part = min(part_bytes, size - start)
                    end = min(latest, -(-(lead + start + part) // LINE_BYTES) - 1)  # its last line among the pieces
                    begin = min(end, -(-(lead + start) // LINE_BYTES)) if start else 0
                    from_ps, until_ps = at_ps + begin * line_ps + back_ps, at_ps + end * line_ps + back_ps
                    parts.append(self._pcie.read_completion(from_ps, part, address + start, until_ps))
                fetched_ps = parts[0]
            heappush(self._queue, (fetched_ps, HARDWARE, key, self._fetched, found))
            if sampled is not None:
                sampled(last_ps)

        if tags <= self._tags and not self._waiting:
            self._tags -= tags
            self.request(key, address, length, look, not_before_ps=not_before_ps, n_bytes=n_bytes)
        else:
            start = partial(self.request, key, address, length, look, not_before_ps=not_before_ps, n_bytes=n_bytes)
            self._waiting.append((tags, key, start))

    def order(self, count: int) -> Iterable[int]:
        """In which order the next so many pieces are fetched: the arbiter's choice."""
        return self.arbiter().permutation(count) if count > 1 else range(count)

    def _sample(self, found: _Found, order: Iterable[int], at_ps: int, part_bytes: int) -> None:
        """Pieces are fetched one after the other, but one that its part would wait for then earlier, beside others."""
        pieces, line_ps, lead = found.pieces, self._pcie.line_ps, found.address % LINE_BYTES
        for turn, index in enumerate(order):
            slot = turn
            if part_bytes:
                end = (pieces[index][0] - found.address) // part_bytes * part_bytes + part_bytes
                slot %= -(-(lead + end) // LINE_BYTES)
            self._host.read_at(at_ps + slot * line_ps, *pieces[index], found.sink(index), found.chunks)

    def _fetched(self, found: _Found) -> None:
        self._tags += found.tags  # of a read in parts with the first of them: the others are on their way, in order
        while self._waiting and self._waiting[0][0] <= self._tags:
            tags, key, start = self._waiting.popleft()
            self._tags -= tags
            self._settle(key)
            start()
        if found.pieces:
            self._host.catch_up_bytes(found.address)
        found.done(b"".join(found.data) if found.whole is None else found.whole, found.chunks)

    def catch_up(self, address: int) -> None:
        """Extend the data of reads of the memory at ``address`` by the lines fetched until now."""
        self._host.catch_up_bytes(address)


class _Request:
    """A request under way. ``served`` is (when it is served, round trip) where no memory is looked at, else None."""

    __slots__ = ("address", "at_root_ps", "length", "look", "served")

    def __init__(self, at_root_ps: int, address: int, length: int, served: tuple[int, int] | None, look: Look) -> None:
        self.at_root_ps = at_root_ps
        self.address = address
        self.length = length
        self.served = served
        self.look = look


class _Found:
    """The data that a read has found so far; ``whole`` is the buffer of a read whose parts are used as they come."""

    __slots__ = ("address", "chunks", "data", "done", "pieces", "tags", "whole")

    def __init__(
        self,
        address: int,
        pieces: list[tuple[int, int]],
        done: Done,
        tags: int,
        chunks: list[Chunk] | None = None,
        whole: bytearray | None = None,
    ) -> None:
        self.address = address
        self.pieces = pieces
        self.done = done
        self.tags = tags
        self.whole = whole
        self.data = [b""] * len(pieces)
        self.chunks: list[Chunk] = [] if chunks is None else chunks

    def sink(self, index: int) -> Callable[[bytes], None]:
        """The function that takes piece ``index`` of the data."""

        def take(data: bytes) -> None:
            if self.whole is None:
                self.data[index] = data
            else:
                start = self.pieces[index][0] - self.address
                self.whole[start : start + len(data)] = data

        return take


def split(address: int, length: int) -> list[tuple[int, int]]:
    """A range cut at line boundaries: (address, length) pieces."""
    pieces = []
    for line in lines(address, length):
        start, end = max(address, line * LINE_BYTES), min(address + length, (line + 1) * LINE_BYTES)
        pieces.append((start, end - start))
    return pieces
