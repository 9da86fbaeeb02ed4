"""How much work is done while nothing returns: by it waiting for ever is recognised, however little time passes."""

from __future__ import annotations

from typing import Any

import simpy

from ...models.system import System

VERBS = 10_000
"""So many verbs posted while no operation returns, and it waits for ever: a choice, a hundred times more than the
longest operation of a store needs."""
EVENTS = 100 * VERBS
"""So many events of any kind, for those who wait without posting anything."""
LOOKS = 256
"""After so many events somebody looks how much has been done."""


class WaitsForEver(Exception):
    """Code has done far more than it can have needed, and has not returned."""


class Work:
    """The work of a system's machines since the last operation began."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._from = self._most = self._events = 0

    def begins(self, operations: int) -> None:
        """Something begins that needs as much as so many operations."""
        self._from, self._most, self._events = self._verbs(), operations, 0

    def run_through(self, process: simpy.Process) -> Any:
        """As :meth:`Clock.run_through`. Raises WaitsForEver."""
        while True:
            value = self._system.clock.run_through(process, LOOKS)
            if not process.is_alive:
                return value
            self._events += LOOKS
            verbs = self._verbs() - self._from
            if verbs > VERBS * self._most:
                raise WaitsForEver(f"{verbs:,} verbs posted, and nothing has returned")
            if self._events > EVENTS * self._most:
                raise WaitsForEver(f"{self._events:,} events, and nothing has returned")

    def _verbs(self) -> int:
        nodes = (node for machines in self._system.nodes.values() for node in machines)
        return sum(sum(node.nic.posted.values()) for node in nodes)
