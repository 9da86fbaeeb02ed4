"""Locks by name, which threads of one server take around what they change together.

Volatile, like all that a process keeps to itself. Taking one is a store, giving it back another; who finds it taken
spins, and the first who asked is the next to have it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Hashable
from typing import Any

from ...models.cpu import Signal, Thread
from ...sim.clock import Clock

Code = Generator[Any, Any, Any]


class Locks:
    """As many as there are names. With ``threads`` of one nobody can be in the way, and nothing costs anything."""

    def __init__(self, clock: Clock, threads: int) -> None:
        self._clock = clock
        self._needed = threads > 1
        self._waiting: dict[Hashable, deque[Signal]] = {}
        """By the name of a lock that is taken: who waits for it."""

    def under(self, thread: Thread, name: Hashable, code: Code) -> Code:
        """What ``code`` returns, run while holding the lock of that name."""
        if not self._needed:
            return (yield from code)
        yield from self._take(thread, name)
        result = yield from code
        waiting = self._waiting[name]
        if waiting:
            yield from thread.notify(waiting.popleft())
        else:
            del self._waiting[name]
            yield from thread.notify(Signal(self._clock))
        return result

    def _take(self, thread: Thread, name: Hashable) -> Code:
        waiting = self._waiting.get(name)
        mine = Signal(self._clock)
        if waiting is None:
            self._waiting[name] = deque()
            yield from thread.notify(mine)  # the store of a compare-and-swap that has found it free
        else:
            waiting.append(mine)
            yield from thread.wait(mine)
