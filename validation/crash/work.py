"""How much work is done while nothing returns: by it waiting for ever is recognised, however little time passes."""

from __future__ import annotations

from typing import Any

import simpy

from ...models.system import System

VERBS, EACH = 1_000, 100
"""So many verbs posted while nothing returns, and so many more for each object, and it waits for ever: a choice. An
operation or a recovery may go through all objects; with one client there is nobody to wait for."""
EVENTS = 100
"""For each of these verbs so many events of any kind, for those who wait without posting anything."""
LOOKS = 256
"""After so many events somebody looks how much has been done."""


class WaitsForEver(Exception):
    """Code has done far more than it can have needed, and has not returned."""


class Work:
    """The work of a system's machines since the last operation began."""

    def __init__(self, system: System, objects: int) -> None:
        """``objects`` is how many there are."""
        self._system = system
        self._most = VERBS + EACH * objects
        self._from = self._events = 0

    def begins(self) -> None:
        """Another operation begins."""
        self._from, self._events = self._verbs(), 0

    def run_through(self, process: simpy.Process) -> Any:
        """As :meth:`Clock.run_through`. Raises WaitsForEver."""
        while True:
            value = self._system.clock.run_through(process, LOOKS)
            if not process.is_alive:
                return value
            self._events += LOOKS
            verbs = self._verbs() - self._from
            if verbs > self._most:
                raise WaitsForEver(f"{verbs:,} verbs posted, and nothing has returned")
            if self._events > EVENTS * self._most:
                raise WaitsForEver(f"{self._events:,} events, and nothing has returned")

    def _verbs(self) -> int:
        verbs = 0
        for machines in self._system.nodes.values():
            for node in machines:
                verbs += sum(node.nic.posted.values())
        return verbs
