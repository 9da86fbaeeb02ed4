"""Locks by name, which threads of one server take around what they change together; readers may share one.

Volatile, like all that a process keeps to itself. Taking one is a store, giving it back another; who finds it taken
spins. They are fair: who asked first has it first. A reader that comes behind a waiting writer waits as well, and
readers that wait next to each other go on together.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Hashable
from typing import Any

from ...models.cpu import Signal, Thread
from ...sim.clock import Clock

Code = Generator[Any, Any, Any]


class _Held:
    """A lock that somebody has: how many of them share it, and who waits, first come first served."""

    __slots__ = ("holders", "shared", "waiting")

    def __init__(self, shared: bool) -> None:
        self.holders = 1
        self.shared = shared
        self.waiting: deque[tuple[Signal, bool]] = deque()
        """Each with whether it wants to share."""


class Locks:
    """As many as there are names. With ``threads`` of one nobody can be in the way, and nothing costs anything."""

    def __init__(self, clock: Clock, threads: int) -> None:
        self._clock = clock
        self._needed = threads > 1
        self._held: dict[Hashable, _Held] = {}
        """By the name of a lock that is taken."""

    def under(self, thread: Thread, name: Hashable, code: Code, *, shared: bool = False) -> Code:
        """What ``code`` returns, run while holding the lock of that name, alone or with others who share it.

        The lock is given back too where ``code`` raises.
        """
        if not self._needed:
            return (yield from code)
        yield from self._take(thread, name, shared)
        try:
            result = yield from code
        except Exception:
            yield from self._give_back(thread, name)
            raise
        yield from self._give_back(thread, name)
        return result

    def _take(self, thread: Thread, name: Hashable, shared: bool) -> Code:
        held = self._held.get(name)
        mine = Signal(self._clock)
        if held is None:
            self._held[name] = _Held(shared)
        elif shared and held.shared and not held.waiting:
            held.holders += 1
        else:
            held.waiting.append((mine, shared))
            yield from thread.wait(mine)
            return
        yield from thread.notify(mine)  # the store of a compare-and-swap that has found it free, or shared

    def _give_back(self, thread: Thread, name: Hashable) -> Code:
        held = self._held[name]
        held.holders -= 1
        following: list[Signal] = []
        if not held.holders:
            while held.waiting and (not following or (held.shared and held.waiting[0][1])):
                signal, held.shared = held.waiting.popleft()
                following.append(signal)
            held.holders = len(following)
            if not following:
                del self._held[name]
        # One store gives it back; those who spin on the word see it at once.
        yield from thread.notify(following[0] if following else Signal(self._clock))
        for signal in following[1:]:
            signal.set()
