"""The clock: an integer number of picoseconds on a SimPy environment.

No float ever enters the event queue, so two runs with one seed agree to the picosecond on every machine. Ties have one
rule: events of one instant happen in the order in which they were scheduled, and bytes that become visible at an
instant (``sim.bytespace``) are there before anything that reads at that instant.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Generator
from typing import Any

import simpy


class Clock(simpy.Environment):
    """A SimPy environment whose time is picoseconds."""

    def __init__(self) -> None:
        super().__init__(initial_time=0)

    @property
    def now_ps(self) -> int:
        """The present instant."""
        return int(self.now)

    def until(self, when_ps: int) -> simpy.Event:
        """An event at ``when_ps``; an instant that has passed counts as now."""
        return self.timeout(max(0, when_ps - self.now_ps))

    def call_at(self, when_ps: int, function: Callable[..., None], *arguments: Any) -> None:
        """Call ``function(*arguments)`` at ``when_ps`` (not before now): an event that no process waits for."""
        event = simpy.Event(self)
        event._ok = True
        event._value = None
        assert event.callbacks is not None
        event.callbacks.append(lambda _: function(*arguments))
        self.schedule(event, delay=when_ps - self.now_ps)

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
