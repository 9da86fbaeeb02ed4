"""The plainest store: a register for each key that the machine was formatted for, in its DRAM.

No paper's: what a server of messages keeps, and a store whose own work is nothing but a load or a store.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from typing import Any

from typing_extensions import override

from ...models.cpu import Thread
from ...models.system import Node
from ..layout import U64, Layout
from .store import Store, StoreSizes

Code = Generator[Any, Any, Any]
LINE = 64


class Register(Layout):
    """What comes before a register's value."""

    length = U64()
    """That of the value and one more; 0: nothing was ever put."""


class Registers(Store):
    """A table of them, in which keys get places in the order in which they come."""

    def __init__(self, node: Node, sizes: StoreSizes) -> None:
        super().__init__(node, sizes)
        self._each = -(-(Register.size + sizes.value_bytes) // LINE) * LINE
        self._dram = node.memory["dram"]
        self.begin()

    @override
    def begin(self) -> None:
        self._places: dict[bytes, int] = {}

    def _place(self, key: bytes) -> int:
        if key not in self._places:
            self._places[key] = self._dram.allocate(self._each, "register")
        return self._places[key]

    @override
    def load(self, entries: Mapping[bytes, bytes]) -> None:
        for key, value in entries.items():
            at = self._place(self.padded(key, value)) - self._dram.base
            self._dram.space.poke(at, Register.pack(length=len(value) + 1) + value)

    @override
    def put(self, thread: Thread, key: bytes, value: bytes) -> Code:
        yield from thread.store(self._place(self.padded(key, value)), Register.pack(length=len(value) + 1) + value)

    @override
    def get(self, thread: Thread, key: bytes) -> Code:
        key = self.padded(key)
        if key not in self._places:
            return None
        data = yield from thread.load(self._places[key], self._each)
        length = Register.unpack(data).length
        return data[Register.size : Register.size + length - 1] if length else None

    @override
    def remove(self, thread: Thread, key: bytes) -> Code:
        yield from thread.store(self._place(self.padded(key)), Register.pack(length=0))
