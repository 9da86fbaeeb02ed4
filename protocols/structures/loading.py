"""What the images of loaded structures share: equal items in lines, computed when they are touched."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from ...sim.bytespace import LINE_BYTES
from .space import Image


@runtime_checkable
class Numbered(Protocol):
    """Objects with values that know the objects' numbers, so that many need not be found by their names."""

    def numbered(self) -> tuple[Sequence[int], Iterable[bytes]]:
        """The numbers of the objects, and the value of each, in order."""


def numbered(objects: Mapping[Hashable, bytes], names: Sequence[Hashable]) -> tuple[Sequence[int], Iterable[bytes]]:
    """The numbers of the objects among ``names``, and the value of each."""
    if isinstance(objects, Numbered):
        return objects.numbered()
    return [names.index(name) for name in objects], objects.values()


class LoadedItems:
    """``count`` items of equal size in an image; none that fits into a line lies in two."""

    def __init__(self, image: Image, count: int, item_bytes: int) -> None:
        self._count, self._item_bytes = count, item_bytes
        self._per_line = max(1, LINE_BYTES // item_bytes)
        self._lines_each = -(-item_bytes // LINE_BYTES)
        self.length = -(-count // self._per_line) * self._lines_each * LINE_BYTES
        self.address = image.allocate(self.length)

    def __getitem__(self, number: int) -> int:
        """The address of an item."""
        group, rest = divmod(number, self._per_line)
        return self.address + group * self._lines_each * LINE_BYTES + rest * self._item_bytes

    def compute(self, image: Image, item: Callable[[int], bytes]) -> None:
        """Have ``item(number)`` give each item's bytes when a line of it is first touched."""
        newest: list[tuple[int, bytes]] = []

        def line(number: int) -> bytes:
            group, part = divmod(number, self._lines_each)
            if not newest or newest[0][0] != group:
                first = group * self._per_line
                numbers = range(first, min(first + self._per_line, self._count))
                newest[:] = [(group, b"".join([item(n).ljust(self._item_bytes, b"\0") for n in numbers]))]
            return newest[0][1][part * LINE_BYTES : (part + 1) * LINE_BYTES].ljust(LINE_BYTES, b"\0")

        image.compute(self.address, self.length, line)
