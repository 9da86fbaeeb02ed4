"""Spin locks in DRAM, one for each stripe of a table's buckets, a line apart; and taking all of them.

A thread takes a lock by an exchange on its line, which therefore comes to its core's caches, and spins while another
has it. Who waits is served in order: a fairness that libcuckoo's test-and-set does not promise, and which keeps runs
the same from machine to machine.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from typing import Any

from ...models.cpu import Signal, Thread
from ...sim.clock import Clock

Code = Generator[Any, Any, Any]
LINE = 64
WORD = 8


class Stripes:
    """``count`` locks from ``address`` on."""

    def __init__(self, clock: Clock, address: int, count: int) -> None:
        self.address = address
        self.count = count
        self._clock = clock
        self._waiting: dict[int, deque[Signal]] = {}
        """By the number of a lock that is taken: who waits for it."""

    @staticmethod
    def length(count: int) -> int:
        """The bytes of so many locks."""
        return count * LINE

    def take(self, thread: Thread, first: int, second: int) -> Code:
        """Take the locks of two buckets, the lower one first: so no two threads wait for each other."""
        for number in self._locks(first, second):
            yield from thread.store(self.address + number * LINE, (1).to_bytes(WORD, "little"))
            yield from self._wait(thread, number)

    def give(self, thread: Thread, first: int, second: int) -> Code:
        """Give them back, each by a store."""
        for number in self._locks(first, second):
            yield from thread.store(self.address + number * LINE, bytes(WORD))
            self._pass_on(number)

    def take_all(self, thread: Thread) -> Code:
        """Take every lock, in order, as a thread does that changes the whole table."""
        begun = 0
        for number in range(self.count):
            if number in self._waiting:
                yield from thread.touch(self.address + begun * LINE, (number + 1 - begun) * LINE, store=True)
                begun = number + 1
            yield from self._wait(thread, number)
        if begun < self.count:
            yield from thread.touch(self.address + begun * LINE, (self.count - begun) * LINE, store=True)

    def give_all(self, thread: Thread) -> Code:
        """Give every lock back."""
        yield from thread.touch(self.address, self.length(self.count), store=True)
        for number in range(self.count):
            self._pass_on(number)

    def _locks(self, first: int, second: int) -> list[int]:
        """The numbers of the locks of two buckets: of every ``count``-th bucket the same."""
        return sorted({first % self.count, second % self.count})

    def _wait(self, thread: Thread, number: int) -> Code:
        waiting = self._waiting.get(number)
        if waiting is None:
            self._waiting[number] = deque()
            return
        mine = Signal(self._clock)
        waiting.append(mine)
        yield from thread.wait(mine)

    def _pass_on(self, number: int) -> None:
        waiting = self._waiting[number]
        if waiting:
            waiting.popleft().set()
        else:
            del self._waiting[number]
