"""The objects that calls read and update in place: a table in persistent memory, whose index the clients have.

Source: Duan et al., SC'21, sections 3 (data are copied to the target memory space) and 5.1 (the index lies in the
client's DRAM, only values are remote). What tells an object that was never written is not said: here a byte of its
own, its mark, which is set durably behind the first value. A value may be any bytes, zeros too.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Mapping, Sequence
from typing import Any

from ...models.cpu import Thread
from ...models.system import Node
from ...sim.bytespace import LINE_BYTES

Code = Generator[Any, Any, Any]

POKED_BYTES = 1 << 24
"""Tables up to this size are written before the run; larger ones are computed line by line, as they are touched."""
MARK = b"\1"


class ObjectTable:
    """An object a place, each of whole lines; an update in place is no atomic one beyond 8 bytes.

    Elsewhere lie the marks, a byte for each object that was ever written. Which of them it has seen set, the server
    keeps in a list of its own, which a failure takes from it.
    """

    marked = True
    """Whether there are marks; without them zeros are an object that was never written."""

    def __init__(self, node: Node, count: int, value_bytes: int, name: str = "objects") -> None:
        self._pm = node.memory["pm"]
        self.value_bytes = self.flushed_bytes = value_bytes
        self._each = -(-value_bytes // LINE_BYTES) * LINE_BYTES
        self.length = self._each * count
        self._base = self._pm.allocate(self.length, name, item_bytes=self._each)
        self._marks = 0
        self._seen = bytearray(count)
        """By object: whether its mark has been seen."""

    def place(self, number: int) -> int:
        """Where an object lies."""
        return self._base + number * self._each

    def place_marks(self) -> None:
        """Reserve room for the marks, where there are any: behind what else a server has in persistent memory."""
        if self.marked:
            self._marks = self._pm.allocate(len(self._seen), "marks")

    def load(self, names: Sequence[Hashable], objects: Mapping[Hashable, bytes]) -> None:
        """Put the first values where they belong."""
        start = self._base - self._pm.base
        marks = bytes(name in objects for name in names)
        if self.marked:
            self._seen[:] = marks
        if self.length > POKED_BYTES:
            first = (self._marks - self._pm.base) // LINE_BYTES

            def marks_of(line: int) -> bytes:
                return marks[(line - first) * LINE_BYTES :][:LINE_BYTES].ljust(LINE_BYTES, b"\0")

            def line_of(line: int) -> bytes:
                number, offset = divmod(line * LINE_BYTES - start, self._each)
                return objects[names[number]][offset : offset + LINE_BYTES].ljust(LINE_BYTES, b"\0")

            self._pm.space.compute(start, len(objects) * self._each, line_of)
            if self.marked:
                self._pm.space.compute(first * LINE_BYTES, -(-len(marks) // LINE_BYTES) * LINE_BYTES, marks_of)
            return
        if self.marked:
            self._pm.space.poke(self._marks - self._pm.base, marks)
        for number, name in enumerate(names):
            if name in objects:
                self._pm.space.poke(start + number * self._each, objects[name])

    def read(self, thread: Thread, number: int, index: bytes = b"") -> Code:
        """An object's value, no bytes where it was never written; ``index`` names an item where there are several."""
        if not (yield from self.there(thread, number)):
            return b""
        value = yield from thread.load(self.place(number), self.value_bytes)
        return value if self.marked or any(value) else b""

    def there(self, thread: Thread, number: int) -> Code:
        """Whether an object was ever written."""
        if self.marked and not self._seen[number]:
            self._seen[number] = (yield from thread.load(self._marks + number, 1)) == MARK
        return not self.marked or bool(self._seen[number])

    def store(self, thread: Thread, number: int, data: bytes) -> Code:
        """Store a value in place."""
        yield from thread.store(self.place(number), data)

    def copy(self, thread: Thread, number: int, source: int) -> Code:
        """Copy the value that lies at ``source`` into place."""
        yield from thread.memcpy(self.place(number), source, self.value_bytes)

    def flush(self, thread: Thread, number: int) -> Code:
        """Make what is stored of an object durable: ``flushed_bytes`` of it, usually all of its lines; and mark it."""
        yield from thread.flush(self.place(number), self.flushed_bytes)
        yield from self.mark(thread, number)

    def mark(self, thread: Thread, number: int) -> Code:
        """Set an object's mark, durably, if it is not set yet: its value is durable."""
        if not (yield from self.there(thread, number)):
            yield from thread.store(self._marks + number, MARK)
            yield from thread.flush(self._marks + number, len(MARK))
            self._seen[number] = True
