"""The region of the drive, cut into chunks: a bitmap, who has which chunk, who waits for one.

Source: Luo et al., TCAD 2024, section IV-C, figure 4a. Chunks are of one size; each is empty, being written by one
client, or being flushed. Meta has a bit for each: 0 is empty, 1 is either of the others; only threads of the server
change it, atomically. Where no chunk is empty the next client waits for one.

What the paper leaves open is read so. Meta lies in the region, one line for 512 chunks, and takes the room of whole
chunks, with the first bytes of the region, which stay free; else it could not tell after a failure which chunks are
used. The empty chunk with the lowest number is taken. A chunk takes whole blocks of the drive, since the flush writes
those, also where less of it is used. Freed chunks are not cleared.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Any

from ...models.cpu import Signal, Thread
from ...models.memory.devices import DeviceFull
from ...models.meter import PartHistory
from ...models.system import Node
from ..parts.locks import Locks

Code = Generator[Any, Any, Any]

LINE, WORD = 64, 8
MEMORY = "pmr"
"""The name of the region among a machine's memory devices."""


class ChunkArea:
    """The places of Meta and of all chunks in a machine's region: they follow from sizes alone."""

    def __init__(self, node: Node, chunk_bytes: int, block_bytes: int, most: int | None = None) -> None:
        """``most`` chunks, or as many as there is room for. Raises DeviceFull where that is none."""
        self.device = node.memory[MEMORY]
        self.chunk_bytes = chunk_bytes
        self.stride = -(-chunk_bytes // block_bytes) * block_bytes
        """The room of a chunk: whole blocks."""
        room = self.device.space.size_bytes // self.stride
        meta_bytes = -(-room // (8 * LINE)) * LINE
        self.meta = self.device.allocate(meta_bytes, "Meta")
        taken = -(-(self.meta - self.device.base + meta_bytes) // self.stride)
        if room <= taken:
            needed = f"{MEMORY}: no room for Meta and a chunk ({self.stride * (taken + 1)} bytes)"
            raise DeviceFull(needed, "smaller chunks (the option chunk)")
        self.count = min(most or room, room - taken)
        self.base = self.device.allocate(self.stride * self.count, "chunks", self.stride, align=self.stride)
        self.length = self.base + self.stride * self.count - self.meta
        """From Meta to the last chunk's end."""

    def address(self, number: int) -> int:
        """Where a chunk begins."""
        return self.base + number * self.stride

    def number(self, address: int) -> int | None:
        """The chunk that begins at an address; None if none does."""
        number, rest = divmod(address - self.base, self.stride)
        return number if not rest and 0 <= number < self.count else None

    def word(self, number: int) -> int:
        """Where the word of Meta with a chunk's bit is."""
        return self.meta + number // (8 * WORD) * WORD

    def scan(self, thread: Thread) -> Code:
        """The numbers of the chunks whose bits are set, as Meta has them."""
        used: list[int] = []
        for first in range(0, self.count, 8 * WORD):
            word = int.from_bytes((yield from thread.load(self.word(first), WORD)), "little")
            used += [first + turn for turn in range(min(8 * WORD, self.count - first)) if word >> turn & 1]
        return used


@dataclass
class _Waiting:
    """A thread that waits for a chunk, and the one that it gets."""

    signal: Signal
    number: int = -1


class Chunks:
    """What a server's process knows of them; at its start all are empty."""

    def __init__(
        self, area: ChunkArea, node: Node, threads: int, history: PartHistory, gauge: Callable[[int], None]
    ) -> None:
        """``gauge`` is told how many are in use whenever that changes."""
        self.area = area
        self.history = history
        self.used: set[int] = set()
        self._clock = node.system.clock
        self._locks = Locks(self._clock, threads)
        self._waiting: deque[_Waiting] = deque()
        self._promised: deque[int] = deque()
        self._ownerless: set[int] = set()
        """Of the chunks that a failure has left used, those that nobody had: their allocation has not returned, or the
        bit that their return cleared is set again. To clear it once more is no operation of the history."""
        self._refusal: Exception | None = None
        """Why no chunk becomes empty any more."""
        self._gauge = gauge

    def found(self, numbers: Sequence[int]) -> None:
        """After a failure Meta says that these are used."""
        self.used.update(numbers)
        held = self._held()
        self._ownerless = {number for number in numbers if self.area.address(number) not in held}
        self._gauge(len(self.used))

    def _held(self) -> set[int]:
        """Where the chunks are that somebody has and has not begun to give back, as far as the history tells."""
        held = set()
        for row in self.history.rows:
            if row["type"] == "ok" and row["f"] == "alloc":
                held.add(row["value"][0])
            elif row["type"] == "invoke" and row["f"] == "free":
                held.discard(row["value"])
        return held

    @property
    def waiting(self) -> int:
        """How many threads wait for an empty chunk."""
        return len(self._waiting)

    def promise(self, count: int) -> list[int]:
        """The first chunks, for so many clients that are connected before the run: used, and Meta says so."""
        numbers = list(range(min(count, self.area.count)))
        self.used.update(numbers)
        self._promised.extend(numbers)
        space, base = self.area.device.space, self.area.device.base
        for number in numbers:
            self._took("loader", number)
        for word in {self.area.word(number) for number in numbers}:
            space.poke(word - base, self._word(word))
        self._gauge(len(self.used))
        return numbers

    def promised(self) -> int | None:
        """The next of those; None where all have been given."""
        return self._promised.popleft() if self._promised else None

    def take(self, thread: Thread) -> Code:
        """Take an empty chunk, and set its bit; waits until there is one. Returns its number: who asked for it has it
        once :meth:`granted` says so.

        Raises what :meth:`refuse` was told.
        """
        self.history.add(thread.name, "invoke", "alloc", self.area.stride)
        empty = (one for one in range(self.area.count) if one not in self.used)
        number = None if self._waiting else next(empty, None)  # one that is being given back is for who waits
        if number is None and self._refusal is None:
            mine = _Waiting(Signal(self._clock))
            self._waiting.append(mine)
            thread.count("waits for a chunk")
            yield from thread.wait(mine.signal)
            number = None if mine.number < 0 else mine.number
        if number is None:
            assert self._refusal is not None
            raise self._refusal
        self._use(number)
        yield from self._store(thread, number)
        return number

    def granted(self, process: str, number: int) -> None:
        """A client may write a chunk that was taken for it."""
        self.history.add(process, "ok", "alloc", [self.area.address(number), self.area.stride])

    def _took(self, process: str, number: int) -> None:
        self.history.add(process, "invoke", "alloc", self.area.stride)
        self.granted(process, number)

    def give_back(self, thread: Thread, number: int) -> Code:
        """Clear a chunk's bit: it is empty, and who has waited longest has it."""
        noted = number not in self._ownerless
        self._ownerless.discard(number)
        if noted:
            self.history.add(thread.name, "invoke", "free", self.area.address(number))
        self.used.discard(number)
        yield from self._store(thread, number)
        if noted:
            self.history.add(thread.name, "ok", "free", self.area.address(number))
        self._gauge(len(self.used))
        if self._waiting and number not in self.used:
            first = self._waiting.popleft()
            first.number = number
            self._use(number)
            yield from thread.notify(first.signal)

    def refuse(self, thread: Thread, why: Exception) -> Code:
        """No chunk becomes empty any more: whoever waits for one, or comes for one, is told."""
        self._refusal, waiting = why, list(self._waiting)
        self._waiting.clear()
        for one in waiting:
            yield from thread.notify(one.signal)

    def _use(self, number: int) -> None:
        self.used.add(number)
        self._gauge(len(self.used))

    def _store(self, thread: Thread, number: int) -> Code:
        place = self.area.word(number)
        yield from self._locks.under(thread, place, self._store_word(thread, place))

    def _store_word(self, thread: Thread, place: int) -> Code:
        yield from thread.store(place, self._word(place))

    def _word(self, place: int) -> bytes:
        first = (place - self.area.meta) * 8
        return sum(1 << number - first for number in self.used if first <= number < first + 8 * WORD).to_bytes(
            WORD, "little"
        )
