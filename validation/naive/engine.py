"""The parts of the naive model: stations that settle before they serve, wires, gates that keep order.

The tie rule. An earlier arrival at a station is served earlier. Of the arrivals at one instant, the one with the
smallest key goes first: the requester's queue pair (node, number), the request's number in it, its phase (request,
response, completion of a receive, completion), the number of the packet or TLP. So that all arrivals of an instant are
in the queue before the first of them is served, a free station waits until nothing else is left to do at this instant:
it *settles*. Stations that pass customers on without any time settle in levels. Threads come after all hardware, in the
order of their nodes and cores; DMA reads sample bytes after everything.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, NamedTuple

import simpy
from simpy.resources.resource import PriorityRequest
from typing_extensions import override

from ...sim.units import PS_PER_S

Process = Generator[simpy.Event, Any, Any]

STATION, PCIE, THREAD, SAMPLE = 2, 3, 1_000, 1_000_000
"""Levels within an instant, from early to late (SimPy's own events have 0 and 1); a thread adds its number."""


class Key(NamedTuple):
    """The order of arrivals at one instant."""

    node: int
    queue_pair: int
    request: int
    phase: int
    """0 the request, 1 the response, 2 the completion of a receive, 3 the completion."""
    part: int
    """The number of the packet or TLP."""


class Simulation(simpy.Environment):
    """A SimPy environment in picoseconds, whose instants have levels."""

    def __init__(self) -> None:
        super().__init__(initial_time=0)

    @property
    def now_ps(self) -> int:
        """The present instant in picoseconds."""
        return self._now  # type: ignore[return-value]  # only integers are ever added to the initial 0

    def late(self, level: int) -> simpy.Event:
        """An event of this instant, after all those of lower levels."""
        event = simpy.Event(self)
        event._ok, event._value = True, None
        self.schedule(event, level)  # type: ignore[arg-type]  # a number, of which SimPy names two
        return event

    def until(self, at_ps: int) -> simpy.Event:
        """An event at ``at_ps``, or now if that has passed."""
        return self.timeout(max(0, at_ps - self.now_ps))


class Station(simpy.PriorityResource):
    """Servers behind one queue, in order of arrival and then of the key; free ones settle before they serve."""

    def __init__(self, sim: Simulation, capacity: int = 1, level: int = STATION) -> None:
        super().__init__(sim, capacity)
        self._sim = sim
        self._level = level
        self._settling = False

    def join(self, key: tuple[int, ...]) -> PriorityRequest:
        """Queue up; the event is the turn."""
        return self.request(priority=(self._sim.now, key))  # type: ignore[arg-type]  # anything that can be ordered

    @override
    def _trigger_put(self, get_event: Any) -> None:
        if not self._settling and self.put_queue:
            self._settling = True
            settled = self._sim.late(self._level)
            assert settled.callbacks is not None
            settled.callbacks.append(self._serve)

    def _serve(self, _: simpy.Event) -> None:
        self._settling = False
        super()._trigger_put(None)


class Wire:
    """A link or a bus: carries one message after the other, each as long as its bytes take.

    A message begins at the later of its arrival and the exact instant, a fraction, at which the one before it ended;
    first and last bit pass at these instants rounded up to a picosecond. Hence n messages of one busy period take
    exactly as long as one of their total size.
    """

    def __init__(self, sim: Simulation, bits_per_s: int, level: int = STATION) -> None:
        self._sim = sim
        self._station = Station(sim, level=level)
        self._bits_per_s = bits_per_s
        self._free = 0  # in picoseconds / bits_per_s, so that it is a whole number

    def carry(
        self,
        n_bytes: int,
        key: tuple[int, ...],
        joined: simpy.Event | None = None,
        starts: Callable[[int], None] | None = None,
    ) -> Process:
        """Carry ``n_bytes``, until the last bit is out.

        ``joined`` happens when the message is in the queue; ``starts`` is called when the first bit goes in, with the
        instant at which the last one will be out.
        """
        arrived_ps = self._sim.now_ps
        with self._station.join(key) as turn:
            if joined is not None:
                joined.succeed()
            yield turn
            begin = max(arrived_ps * self._bits_per_s, self._free)
            assert -(-begin // self._bits_per_s) == self._sim.now_ps, "the turn comes when the one before is out"
            self._free = begin + n_bytes * 8 * PS_PER_S
            out_ps = -(-self._free // self._bits_per_s)
            if starts is not None:
                starts(out_ps)
            yield self._sim.timeout(out_ps - self._sim.now_ps)


class Ticket(NamedTuple):
    """A place in an order: wait for ``before``, then let ``after`` happen."""

    number: int
    before: simpy.Event
    after: simpy.Event


class Gate:
    """Keeps an order: the holder of a ticket passes after the tickets before it."""

    def __init__(self, sim: Simulation) -> None:
        self._sim = sim
        self._count = 0
        self._last = sim.event()
        self._last.succeed()

    def ticket(self) -> Ticket:
        """A ticket for the next place in the order."""
        before, self._last = self._last, self._sim.event()
        self._count += 1
        return Ticket(self._count, before, self._last)
