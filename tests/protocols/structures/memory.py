"""A space in a dictionary: reads and writes are counted, take no time, and outside of live blocks are refused.
What the front-end holds (``read_held``) is not counted as read.

What is allocated begins as garbage, as memory that is used again does; so an algorithm that counts on zeros fails.
"""

from bisect import bisect_right, insort
from collections.abc import Callable, Generator, Sequence
from typing import Any

from rpsim.protocols.structures.space import Image, NoRoom, Range, Space

LINE = 64
GARBAGE = b"\xa5"
BASE = 1 << 20
"""Where the first block begins: no structure may count on low addresses."""


def run(code: Generator[Any, Any, Any]) -> Any:
    """What a generator returns that never has to wait."""
    try:
        next(code)
    except StopIteration as end:
        return end.value
    raise AssertionError("the algorithm waits for something that its space does not know")


class Memory(Space):
    """The space; ``memory.image`` is the image of the same bytes, for loading."""

    def __init__(self, by_field: bool = False, limit_bytes: int = 1 << 40) -> None:
        self.by_field = by_field
        self.lines: dict[int, bytes] = {}
        self.blocks: dict[int, int] = {}
        """Live blocks: where they begin, and their length."""
        self.image = _Loading(self)
        self.end = BASE + limit_bytes
        self._starts: list[int] = []
        self._next = BASE
        self._computed: list[tuple[int, int, Callable[[int], bytes]]] = []
        self._free: dict[int, list[int]] = {}
        self._loaded: set[int] = set()
        self.forget()

    def forget(self) -> None:
        """Count from here on."""
        self.reads: list[Range] = []
        """Ranges that were read, in order."""
        self.depths: list[int] = []
        """The depth that each of these reads said."""
        self.rounds = 0
        """How often something was waited for: a read, or several together."""
        self.writes: list[tuple[int, bytes]] = []
        """What was written, in order, published words included."""
        self.published: list[int] = []
        """The addresses of published words."""
        self.allocated: list[Range] = []
        self.freed: list[Range] = []

    # the space ---------------------------------------------------------------------------------------------
    def read(self, address: int, length: int, depth: int = 0) -> Generator[Any, Any, bytes]:
        yield from ()
        self.rounds += 1
        return self._read(address, length, depth)

    def read_all(self, ranges: Sequence[Range], depth: int = 0) -> Generator[Any, Any, list[bytes]]:
        yield from ()
        self.rounds += bool(ranges)
        return [self._read(address, length, depth) for address, length in ranges]

    def read_held(self, address: int, length: int) -> Generator[Any, Any, bytes]:
        yield from ()
        self._check(address, length)
        return self.peek(address, length)

    def write(self, address: int, data: bytes) -> Generator[Any, Any, None]:
        yield from ()
        self._check(address, len(data))
        self.writes.append((address, bytes(data)))
        self.poke(address, data)

    def publish(self, address: int, data: bytes) -> Generator[Any, Any, None]:
        assert len(data) == 8 and address % 8 == 0, f"{len(data)} bytes at {address:#x} are not published at once"
        self.published.append(address)
        yield from self.write(address, data)

    def allocate(self, length: int) -> Generator[Any, Any, int]:
        yield from ()
        recycled = self._free.get(length)
        address = recycled.pop() if recycled else self.reserve(length, LINE if length >= LINE else 8)
        self._own(address, length)
        self.poke(address, GARBAGE * length)
        self.allocated.append((address, length))
        return address

    def free(self, address: int, length: int) -> Generator[Any, Any, None]:
        yield from ()
        self._disown(address, length)
        self._free.setdefault(length, []).append(address)
        self.freed.append((address, length))

    # what its image does ----------------------------------------------------------------------------------------
    def put(self, address: int, data: bytes) -> None:
        self._check(address, len(data))
        self.poke(address, data)

    def compute(self, address: int, length: int, source: Callable[[int], bytes]) -> None:
        assert address % LINE == 0 and length % LINE == 0
        self._check(address, length)
        self._computed.append((address, address + length, source))

    # what tests look at -----------------------------------------------------------------------------------------
    def reserve(self, length: int, align: int = LINE) -> int:
        """Room for something, not yet a live block."""
        address = -(-self._next // align) * align
        if address + length > self.end:
            raise NoRoom
        self._next = address + length
        return address

    def root(self, length: int) -> int:
        """A place for a root: a live block of zeros."""
        address = self.reserve(length)
        self._own(address, length)
        self.poke(address, bytes(length))
        return address

    def peek(self, address: int, length: int) -> bytes:
        """The bytes of a range, uncounted."""
        first, last = address // LINE, (address + length - 1) // LINE
        whole = b"".join(self._line(number) for number in range(first, last + 1))
        return whole[address - first * LINE : address - first * LINE + length]

    def poke(self, address: int, data: bytes) -> None:
        """Write uncounted, anywhere."""
        done = 0
        while done < len(data):
            number, offset = divmod(address + done, LINE)
            part = data[done : done + LINE - offset]
            if len(part) < LINE:
                line = self._line(number)
                part = line[:offset] + part + line[offset + len(part) :]
            self.lines[number] = bytes(part)
            done += LINE - offset

    def copy(self) -> "Memory":
        """The same bytes and blocks, counting anew."""
        twin = Memory(self.by_field)
        twin.lines, twin.blocks, twin._starts = dict(self.lines), dict(self.blocks), list(self._starts)
        twin.end, twin._next, twin._computed = self.end, self._next, list(self._computed)
        twin._loaded = set(self._loaded)
        twin._free = {length: list(places) for length, places in self._free.items()}
        return twin

    def prefixes(self, before: "Memory") -> "list[Memory]":
        """The memory after none, one, ... and all of the writes since the copy ``before``, with no block given back."""
        states = []
        for count in range(len(self.writes) + 1):
            state = before.copy()
            state._free, state._next = {}, self._next
            for address, length in self.allocated:
                state._own(address, length)
                state.poke(address, GARBAGE * length)
            for address, data in self.writes[:count]:
                state.poke(address, data)
            states.append(state)
        return states

    def _line(self, number: int) -> bytes:
        line = self.lines.get(number)
        if line is None:
            line = bytes(LINE)
            for start, end, source in self._computed:
                if start <= number * LINE < end:
                    line = source(number - start // LINE)
                    assert len(line) == LINE
            self.lines[number] = line
        return line

    def _read(self, address: int, length: int, depth: int) -> bytes:
        self._check(address, length)
        self.reads.append((address, length))
        assert len(self.reads) < 200_000, "a chain without an end"
        self.depths.append(depth)
        return self.peek(address, length)

    def _own(self, address: int, length: int) -> None:
        self.blocks[address] = length
        insort(self._starts, address)

    def _disown(self, address: int, length: int) -> None:
        """A block is free, or a part of one that was loaded: many nodes are loaded as one block."""
        self._check(address, length)
        place = bisect_right(self._starts, address) - 1
        start = self._starts.pop(place)
        end = start + self.blocks.pop(start)
        whole = (start, end) == (address, address + length)
        assert whole or start in self._loaded, f"{length} bytes at {address:#x} are no block"
        for first, last in ((start, address), (address + length, end)):
            if first < last:
                self._own(first, last - first)
                self._loaded.add(first)

    def _check(self, address: int, length: int) -> None:
        place = bisect_right(self._starts, address) - 1
        start = self._starts[place] if place >= 0 else 0
        inside = place >= 0 and address + length <= start + self.blocks[start]
        assert inside, f"{length} bytes at {address:#x} are not in one live block"


class _Loading(Image):
    """The image's side of a memory."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory

    def allocate(self, length: int) -> int:
        address = self._memory.reserve(length)
        self._memory._own(address, length)
        self._memory._loaded.add(address)
        return address

    def put(self, address: int, data: bytes) -> None:
        self._memory.put(address, data)

    def compute(self, address: int, length: int, source: Callable[[int], bytes]) -> None:
        self._memory.compute(address, length, source)
