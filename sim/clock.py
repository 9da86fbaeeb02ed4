"""The clock: an integer number of picoseconds on a SimPy environment.

No float ever enters the event queue, so two runs with one seed agree to the picosecond on every machine. Ties have one
rule: events of one instant happen in the order in which they were scheduled, and bytes that become visible at an
instant (``sim.bytespace``) are there before anything that reads at that instant.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator
from heapq import heappush
from typing import Any

import simpy
from simpy.events import NORMAL


class _Call:
    """What the environment's step needs of an event, and nothing else: a call costs half of a ``simpy.Event``."""

    __slots__ = ("_arguments", "_function", "_ok", "callbacks")

    def __init__(self, function: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        self._function = function
        self._arguments = arguments
        self._ok = True
        self.callbacks: tuple[Callable[[_Call], None], ...] | None = (_Call._run,)

    def _run(self) -> None:
        self._function(*self._arguments)


class Clock(simpy.Environment):
    """A SimPy environment whose time is picoseconds."""

    def __init__(self) -> None:
        super().__init__(initial_time=0)

    @property
    def now_ps(self) -> int:
        """The present instant."""
        return self._now  # type: ignore[return-value]  # only integers are ever added to the initial 0

    def until(self, when_ps: int) -> simpy.Event:
        """An event at ``when_ps``; an instant that has passed counts as now."""
        return self.timeout(max(0, when_ps - self.now_ps))

    def call_at(self, when_ps: int, function: Callable[..., None], *arguments: Any) -> None:
        """Call ``function(*arguments)`` at ``when_ps`` (not before now): an event that no process waits for."""
        if when_ps < self._now:
            raise ValueError(f"{when_ps} ps has passed: it is {self._now} ps")
        entry = (when_ps, NORMAL, next(self._eid), _Call(function, arguments))
        heappush(self._queue, entry)  # type: ignore[misc]  # not a simpy.Event, but as good as one

    def start(self, code: Generator[Any, Any, Any]) -> simpy.Process:
        """Run ``code`` as a process from now on."""
        return self.process(code)

    def run_until(self, event: simpy.Event | int | None = None) -> Any:
        """Run until ``event`` has happened (or that instant, or until nothing is left); returns the event's value.

        Python's cyclic garbage collector is off meanwhile: it costs up to half of a run.
        """
        collecting = gc.isenabled()
        gc.disable()
        try:
            return self.run(until=event)
        finally:
            if collecting:
                gc.enable()
