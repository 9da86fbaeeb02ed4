"""Which bytes of a memory anybody looks at: who is told, and how fetched bytes are given out so that it is known."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol


class Onlooker(Protocol):
    """Who is told what is looked at of bytes that come from a source."""

    def looked(self, address: int, length: int) -> None:
        """These bytes are read; their lines have been asked for."""

    def claim(self, address: int, length: int) -> Callable[[int, int], None] | None:
        """The reader of these bytes looks at none of them but those that it tells the returned call, from which one up
        to which; None: it looks at all.
        """

    def copied(self) -> None:
        """Lines are copied that nobody has asked for: others stand for them from now on."""


class Fetched:
    """Bytes that have been fetched, given out slice by slice: so it is known which ones anybody looks at."""

    __slots__ = ("_data", "_give_out")

    def __init__(self, data: bytes, give_out: Callable[[int, int], None] | None) -> None:
        self._data = data
        self._give_out = give_out

    def __getitem__(self, part: slice) -> bytes:
        if self._give_out is not None:
            start, end, step = part.indices(len(self._data))
            if step != 1:
                raise ValueError(f"every {step}th byte: only bytes one behind the other are given out")
            self._give_out(start, end)
        return self._data[part]
