"""A thread that looks at memory for the requests of many connections, and serves them in turn."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from typing import Any

from ...models.cpu import Thread

Code = Generator[Any, Any, Any]


class Rounds:
    """A loop over ranges of memory that goes on behind the one in which it has found something last.

    Who begins with the first one every time leaves the last ones waiting for as long as the first have requests.
    """

    def __init__(self) -> None:
        self._first = 0
        """The number of the range that is looked at next."""

    def next(self, thread: Thread, ranges: Sequence[tuple[int, bytes]]) -> Code:
        """Spin until a range has changed, as :meth:`Thread.spin`; returns its number, which names it in every call."""
        numbers = [*range(self._first, len(ranges)), *range(self._first)]
        found = numbers[(yield from thread.spin([ranges[number] for number in numbers]))]
        self._first = (found + 1) % len(ranges)
        return found
