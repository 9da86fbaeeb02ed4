"""The order in which a responder executes the requests of one queue pair: that of the table in ``models.rules``.

Only READ, ATOMIC, ATOMIC WRITE and FLUSH take time to execute; a WRITE or SEND is executed as it is accepted. A request
starts at once unless an earlier one that the table puts before it has not finished yet; if the end of that one is known
already, it starts at once too and is told not to have its effect before then (the READs behind a READ are under way
together, and look at memory one after the other).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

from .rules import Request, Switches, executed_before

POSTED = (Request.WRITE, Request.SEND)
"""Executed at their acceptance: nothing ever waits for one that came earlier."""


@functools.cache
def predecessors(switches: Switches) -> Mapping[Request, frozenset[Request]]:
    """By request: the kinds of earlier requests that it may have to wait for.

    A fence is the requester's business: it does not send a request before what the fence waits for has completed.
    """
    return {
        second: frozenset(
            first for first in Request if first not in POSTED and executed_before(first, second, False, switches)
        )
        for second in Request
    }


class Running:
    """A request that executes; ``end_ps`` is None as long as its end is not known."""

    __slots__ = ("end_ps", "kind")

    def __init__(self, kind: Request) -> None:
        self.kind = kind
        self.end_ps: int | None = None


Start = Callable[[int], None]
"""Starts a request: it may have no effect before the given instant."""


class ExecutionOrder:
    """The requests of one queue pair at its responder."""

    __slots__ = ("_before", "_parked", "_running")

    def __init__(self, switches: Switches) -> None:
        self._before = predecessors(switches)
        self._running: list[Running] = []
        """In order; those whose end has passed go when somebody looks."""
        self._parked: list[tuple[Request, list[Running], Start]] = []

    @property
    def idle(self) -> bool:
        """Whether a request that arrives now has nobody to wait for, whatever it is."""
        return not self._running and not self._parked

    def arrive(self, kind: Request, now_ps: int, start: Start) -> None:
        """A request arrives: start it now, or as soon as those before it are done."""
        running = self._running = [entry for entry in self._running if entry.end_ps is None or entry.end_ps > now_ps]
        before = self._before[kind]
        waits = [entry for entry in running if entry.kind in before]
        blocked = any(entry.end_ps is None for entry in waits)
        if blocked or (self._parked and self._must_follow_parked(kind)):
            self._parked.append((kind, waits, start))
        else:
            start(max((entry.end_ps for entry in waits if entry.end_ps is not None), default=now_ps))

    def begin(self, kind: Request) -> Running:
        """A request of ``kind`` starts to execute; its end is told by :meth:`end`."""
        entry = Running(kind)
        self._running.append(entry)
        return entry

    def end(self, entry: Running, end_ps: int) -> None:
        """It is known when ``entry`` ends: let start what waited for that."""
        entry.end_ps = end_ps
        parked, self._parked = self._parked, []
        for number, (kind, waits, start) in enumerate(parked):
            if any(other.end_ps is None for other in waits) or self._must_follow_parked(kind):
                self._parked.append(parked[number])
            else:
                start(max((other.end_ps for other in waits if other.end_ps is not None), default=0))

    def _must_follow_parked(self, kind: Request) -> bool:
        """Whether a request that still waits comes before one of ``kind`` behind it."""
        return any(first in POSTED or first in self._before[kind] for first, _, _ in self._parked)
