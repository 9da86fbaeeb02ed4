"""Objects that are lists, to which a call appends: what shows that a call has been executed twice.

A put that is executed a second time leaves the same bytes; an append leaves an item more. A scheme whose option
``model`` is ``append`` has these in the place of the table's registers: :func:`adapt` says so of its class,
:func:`table_for` makes them. An item is durable before the count that makes it part of the list.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from typing import Any

from typing_extensions import override

from ...models.cpu import Thread
from ...models.system import Node
from ..scheme import Request, Scheme, Sizes
from .objects import ObjectTable

Code = Generator[Any, Any, Any]

WORD = 8
EXECUTIONS = 4
"""For so many executions of every update there is room: a call that is sent again may be executed again."""


class ListFull(Exception):
    """A list has no room for a further item."""


class ListTable(ObjectTable):
    """Lists of items of one size: a line with the count of items, then their places, each of whole lines."""

    marked = False

    def __init__(self, node: Node, count: int, value_bytes: int, most: int) -> None:
        """Room for ``most`` items in each list."""
        super().__init__(node, count * (1 + most), max(value_bytes, WORD), "lists")
        self.value_bytes = self.flushed_bytes = value_bytes
        self._most = most

    @override
    def place(self, number: int) -> int:
        """Where the count of a list's items lies."""
        return super().place(number * (1 + self._most))

    def item(self, number: int, index: int) -> int:
        """Where an item of a list lies, by its index from 0."""
        return super().place(number * (1 + self._most) + 1 + index)

    @override
    def load(self, names: Sequence[Hashable], objects: Mapping[Hashable, bytes]) -> None:
        """Lists begin empty, as memory does."""

    @override
    def read(self, thread: Thread, number: int, index: bytes = b"") -> Code:
        """The item with this index (a word); no bytes where the list has ended."""
        at = int.from_bytes(index, "little")
        if at >= (yield from self._count(thread, number)):
            return b""
        return (yield from thread.load(self.item(number, at), self.value_bytes))

    @override
    def store(self, thread: Thread, number: int, data: bytes) -> Code:
        """Append an item: it is durable before the list counts it; :meth:`flush` makes the count durable.

        Raises :class:`ListFull`.
        """
        at = yield from self._next(thread, number)
        yield from thread.store(self.item(number, at), data)
        yield from self._counted(thread, number, at)

    @override
    def copy(self, thread: Thread, number: int, source: int) -> Code:
        """Append the item that lies at ``source``, as :meth:`store`."""
        at = yield from self._next(thread, number)
        yield from thread.memcpy(self.item(number, at), source, self.value_bytes)
        yield from self._counted(thread, number, at)

    @override
    def flush(self, thread: Thread, number: int) -> Code:
        """Make the count of a list's items durable."""
        yield from thread.flush(self.place(number), WORD)

    def _count(self, thread: Thread, number: int) -> Code:
        return int.from_bytes((yield from thread.load(self.place(number), WORD)), "little")

    def _next(self, thread: Thread, number: int) -> Code:
        at = yield from self._count(thread, number)
        if at >= self._most:
            raise ListFull
        return at

    def _counted(self, thread: Thread, number: int, at: int) -> Code:
        yield from thread.flush(self.item(number, at), self.flushed_bytes)
        yield from thread.store(self.place(number), (at + 1).to_bytes(WORD, "little"))


def adapt(kind: type[Scheme]) -> None:
    """What a scheme's class says of its objects and operations, by its option ``model``."""
    if kind.option("model") == "append":
        kind.model, kind.operations, kind.updates = "append", ("append", "read"), frozenset({"append"})


def table_for(scheme: type[Scheme], node: Node, sizes: Sizes) -> ObjectTable:
    """The objects of a scheme, by its option ``model``."""
    if scheme.option("model") == "append":
        return ListTable(node, len(sizes.objects), sizes.value_bytes, EXECUTIONS * sizes.updates)
    return ObjectTable(node, len(sizes.objects), sizes.value_bytes)


def read_object(scheme: Scheme, ask: Callable[[bytes], Code]) -> Code:
    """What a read returns: the value, None if there is none, or the items of a list, of which ``ask`` asks for one.

    A list is read item by item. It only grows: what has been read is the list at the instant when its end is found.
    """
    if scheme.model != "append":
        return (yield from ask(b"")) or None
    items: list[bytes] = []
    while item := (yield from ask(len(items).to_bytes(WORD, "little"))):
        items.append(item)
    return items


def probe_of(scheme: Scheme, object: Hashable) -> Request:
    """The read by which a fresh client finds out what became of an object."""
    return Request.of("read" if scheme.model == "append" else "get", object)
