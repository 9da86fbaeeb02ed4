"""Responses of one queue pair leave in the order of its requests, whatever order their execution ends in."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from ..sim.clock import Clock
from .verbs import SendWR

Send = Callable[[], None]


@dataclass(slots=True)
class _Expected:
    """The response to ``work``; ``send`` is None as long as nobody knows when it is ready."""

    work: SendWR
    ready_ps: int = 0
    send: Send | None = None


class Responses:
    """What one queue pair has to answer."""

    __slots__ = ("_clock", "_last_ps", "_queue")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._queue: deque[_Expected] = deque()
        self._last_ps = 0

    def expect(self, work: SendWR) -> None:
        """A request has arrived whose execution may take time: later ones answer after it."""
        if not any(entry.work is work for entry in self._queue):
            self._queue.append(_Expected(work))

    def forget(self, work: SendWR) -> None:
        """It will not be answered, unless that has been decided already."""
        if not self._queue:
            return
        self._queue = deque(entry for entry in self._queue if entry.work is not work or entry.send is not None)
        self._leave()

    def ready(self, work: SendWR, ready_ps: int, send: Send) -> None:
        """The response to ``work`` is ready at ``ready_ps``: it leaves then, or behind those before it."""
        if not self._queue:
            self._last_ps = max(ready_ps, self._last_ps)
            self._clock.call_at(self._last_ps, send)
            return
        for entry in self._queue:
            if entry.work is work:
                entry.ready_ps, entry.send = ready_ps, send
                break
        else:
            self._queue.append(_Expected(work, ready_ps, send))
        self._leave()

    def _leave(self) -> None:
        while self._queue:
            first = self._queue[0]
            if first.send is None:
                return
            self._queue.popleft()
            self._last_ps = max(first.ready_ps, self._last_ps, self._clock.now_ps)
            self._clock.call_at(self._last_ps, first.send)
