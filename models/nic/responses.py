"""Responses of one queue pair leave in the order of its requests, even if their execution ends in another."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter
from typing import Any

from ...sim.clock import Clock

Send = Callable[[int], None]
"""Lets a response go at the given instant."""


@dataclass(slots=True)
class Expected:
    """The response to ``message``; ``send`` is None until it is known when the response is ready."""

    message: Any
    ready_ps: int = 0
    send: Send | None = None


_message = attrgetter("message")


class Responses:
    """The responses that one queue pair has to send."""

    __slots__ = ("_clock", "last_ps", "waiting")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self.waiting: deque[Expected] = deque()
        """Requests whose responses' instants are not known, and those behind them."""
        self.last_ps = 0
        """When the last response leaves whose instant is known and that waits for no other."""

    def expect(self, message: object) -> None:
        """A request has arrived whose execution may take time: later ones answer after it."""
        if message not in map(_message, self.waiting):
            self.waiting.append(Expected(message))

    def leaves(self, message: object, ready_ps: int) -> int | None:
        """When the response to ``message`` leaves if it is the first to; None, and nothing done, if others are."""
        waiting = self.waiting
        if waiting[0].message is not message or (len(waiting) > 1 and waiting[1].send is not None):
            return None
        waiting.popleft()
        last_ps = self.last_ps
        self.last_ps = ready_ps = ready_ps if ready_ps > last_ps else last_ps
        return ready_ps

    def forget(self, message: object) -> None:
        """Drop the response to ``message``, unless its instant is known already."""
        if not self.waiting:
            return
        self.waiting = deque(entry for entry in self.waiting if entry.message is not message or entry.send is not None)
        self._leave()

    def ready(self, message: object, ready_ps: int, send: Send) -> None:
        """The response to ``message`` is ready at ``ready_ps``: it leaves then, or behind those before it."""
        if not self.waiting:
            self.last_ps = max(ready_ps, self.last_ps)
            send(self.last_ps)
            return
        for entry in self.waiting:
            if entry.message is message:
                entry.ready_ps, entry.send = ready_ps, send
                break
        else:
            self.waiting.append(Expected(message, ready_ps, send))
        self._leave()

    def _leave(self) -> None:
        while self.waiting:
            first = self.waiting[0]
            if first.send is None:
                return
            self.waiting.popleft()
            self.last_ps = max(first.ready_ps, self.last_ps, self._clock.now_ps)
            first.send(self.last_ps)
