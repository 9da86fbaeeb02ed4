"""The data of a DMA read, as it comes, and the order in which an adapter's arbiter has its lines fetched.

A read by line looks at memory line after line, in an order that is the arbiter's choice. As a rule nobody writes there
meanwhile: then the lines are one run (:class:`sim.bytespace.ReadRun`), and no order has to be known.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...sim.bytespace import LINE_BYTES
from ...sim.trace import Chunk
from ..host.hostmemory import HostMemory


class Orders:
    """The orders of the lines of reads, drawn from one stream in the turn of the reads; ``arbiter`` returns the stream.

    An order is drawn when it is asked for, with those before it.
    """

    def __init__(self, arbiter: Callable[[], np.random.Generator]) -> None:
        self.arbiter = arbiter
        self._skipped: list[int] = []
        """The numbers of lines of the oldest orders that are not drawn, and that nobody will ask for."""
        self._turns: deque[Fetch] = deque()
        """The reads whose orders are the next ones."""

    def enter(self, fetch: Fetch) -> None:
        """The next order is that of ``fetch``."""
        fetch.orders = self
        self._turns.append(fetch)

    def leave(self, fetch: Fetch) -> None:
        """Nobody will ask for the order of ``fetch`` any more."""
        if fetch.order is None:
            fetch.order = ()
        turns = self._turns
        while turns and turns[0].order is not None:
            self._skipped.append(turns.popleft().count)

    def of(self, fetch: Fetch) -> Sequence[int]:
        """The order of ``fetch``: the numbers of its lines."""
        if fetch.order is None:
            self._catch_up()
        assert fetch.order is not None
        return fetch.order

    def draw(self, count: int) -> Sequence[int]:
        """The next order, of so many lines."""
        self._catch_up()
        return [int(line) for line in self.arbiter().permutation(count)]

    def _catch_up(self) -> None:
        stream = self.arbiter()
        for count in self._skipped:
            stream.permutation(count)
        self._skipped.clear()
        while self._turns:
            fetch = self._turns.popleft()
            order = [int(line) for line in stream.permutation(fetch.count)]
            if fetch.order is None:
                fetch.order = order


class Fetch:
    """The data of one read: ``count`` lines of their own, or one piece."""

    __slots__ = ("_at_ps", "_line_ps", "_missing", "address", "chunks", "count", "data", "length", "order", "orders")

    def __init__(
        self, address: int, length: int, count: int, data: bytes | bytearray, observed: list[Chunk] | None
    ) -> None:
        self.address = address
        self.length = length
        self.count = count
        self.chunks: list[Chunk] = [] if observed is None else observed
        """The chunks that the data proves to be visible."""
        self.data: Any = data
        """The data so far; by line a bytearray that grows up to the last catching up of the memory."""
        self.orders: Orders | None = None
        self.order: Sequence[int] | None = None
        """The numbers of its lines as they are fetched; None while that is not drawn."""

    def begin(self, host: HostMemory, at_ps: int, line_ps: int, part_bytes: int = 0) -> None:
        """The first piece is fetched at ``at_ps``, each other one ``line_ps`` later.

        In parts: a line that its part would wait for is then fetched earlier, beside others.
        """
        if self.count == 1:
            host.read_at(at_ps, self.address, self.length, self._take, self.chunks)
            return
        self._at_ps, self._line_ps, self._missing = at_ps, line_ps, self.length
        first, latest, lead = 0, self.count - 1, self.address % LINE_BYTES
        for part_end in range(part_bytes, self.length, part_bytes) if part_bytes else ():
            last = -(-(lead + part_end) // LINE_BYTES) - 1
            self._run(host, first, last)
            first = last + 1
        if first <= latest:
            self._run(host, first, latest)

    def _run(self, host: HostMemory, first: int, last: int) -> None:
        """Read the lines from ``first`` to ``last``, a part's, each before the last of them is due."""
        start = self._offset(first)
        address, length = self.address + start, min(self.length, self._offset(last + 1)) - start
        last_ps = self._at_ps + last * self._line_ps
        pieces, sink = partial(self._pieces, first, last), partial(self._place, start)
        host.read_run(self._at_ps, last_ps, address, length, pieces, sink, self.chunks)

    def _offset(self, line: int) -> int:
        return max(0, line * LINE_BYTES - self.address % LINE_BYTES)

    def _pieces(self, first: int, last: int) -> Iterator[tuple[int, int, int]]:
        """The pieces of the lines of a part, as they are fetched: (instant, offset from the first one, length)."""
        assert self.orders is not None
        begin = self._offset(first)
        for turn, line in enumerate(self.orders.of(self)):
            if first <= line <= last:
                start, end = self._offset(line), min(self.length, self._offset(line + 1))
                yield self._at_ps + turn % (last + 1) * self._line_ps, start - begin, end - start

    def _take(self, data: bytes) -> None:
        if isinstance(self.data, bytearray):
            self.data[:] = data
        else:
            self.data = data

    def _place(self, start: int, offset: int, data: bytes) -> None:
        begin = start + offset
        self.data[begin : begin + len(data)] = data
        self._missing -= len(data)
        if not self._missing and self.orders is not None:
            self.orders.leave(self)
