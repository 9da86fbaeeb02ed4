"""The objects that calls read and update in place: a table in persistent memory, whose index the clients have.

Source: Duan et al., SC'21, sections 3 (data are copied to the target memory space) and 5.1 (the index lies in the
client's DRAM, only values are remote).
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


class ObjectTable:
    """An object a place, each of whole lines; an update in place is no atomic one beyond 8 bytes."""

    def __init__(self, node: Node, count: int, value_bytes: int, name: str = "objects") -> None:
        self._pm = node.memory["pm"]
        self.value_bytes = self.flushed_bytes = value_bytes
        self._each = -(-value_bytes // LINE_BYTES) * LINE_BYTES
        self.length = self._each * count
        self._base = self._pm.allocate(self.length, name, item_bytes=self._each)

    def place(self, number: int) -> int:
        """Where an object lies."""
        return self._base + number * self._each

    def load(self, names: Sequence[Hashable], objects: Mapping[Hashable, bytes]) -> None:
        """Put the first values where they belong."""
        start = self._base - self._pm.base
        if self.length > POKED_BYTES:

            def line_of(line: int) -> bytes:
                number, offset = divmod(line * LINE_BYTES - start, self._each)
                return objects[names[number]][offset : offset + LINE_BYTES].ljust(LINE_BYTES, b"\0")

            self._pm.space.compute(start, len(objects) * self._each, line_of)
            return
        for number, name in enumerate(names):
            if name in objects:
                self._pm.space.poke(start + number * self._each, objects[name])

    def read(self, thread: Thread, number: int, index: bytes = b"") -> Code:
        """An object's value; ``index`` names an item where objects have several."""
        return (yield from thread.load(self.place(number), self.value_bytes))

    def store(self, thread: Thread, number: int, data: bytes) -> Code:
        """Store a value in place."""
        yield from thread.store(self.place(number), data)

    def copy(self, thread: Thread, number: int, source: int) -> Code:
        """Copy the value that lies at ``source`` into place."""
        yield from thread.memcpy(self.place(number), source, self.value_bytes)

    def flush(self, thread: Thread, number: int) -> Code:
        """Make what is stored of an object durable: ``flushed_bytes`` of it, usually all of its lines."""
        yield from thread.flush(self.place(number), self.flushed_bytes)
