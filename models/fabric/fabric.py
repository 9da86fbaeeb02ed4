"""The fabric: a star of ports around a switch, a bandwidth pipe for each direction of each link.

Cut-through switches (the usual ones): a packet's head leaves ``switch_ps`` after it came in, its tail never before it
has all arrived. Where flows meet (the entrance of the last switch's output) an event keeps them in order of arrival.

Between two ports there are as many switches as the profile says, in a row, of which only the last brings flows
together: the links between switches are so many that no packet waits there (a fat tree without
oversubscription), so they are latencies. None at all is a cable, which has two ends.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

from ...sim.clock import Clock
from ...sim.errors import InputError, Mistake
from ...sim.stations import Pipe
from ..profiles.parameters.fabric import FabricParameters
from .disturbance import DisturbedPath, Weather

if TYPE_CHECKING:
    import networkx as nx

Deliver = Callable[[int], None]
"""Called with the instant at which a packet's last bit is at its destination, in order of arrival there."""


NO_QUEUE_PAIR = 0
"""In the place of a queue pair's number: a frame of TCP."""


class Departure(NamedTuple):
    """A packet that left a port: when its last and its first bit did, which port, the number of the sender's queue pair
    there, and where it goes.
    """

    end_ps: int
    port: str
    start_ps: int
    queue_pair: int
    to: str


class NoPipe:
    """The end of a packet's way, where it has come through the only link there is."""

    def send(self, arrive_ps: int, n_bytes: int) -> tuple[int, int]:
        """When the first and the last bit are there: at once."""
        return arrive_ps, arrive_ps


class Fabric:
    """Links and switches of a system; names of vertices are the nodes' names and ``switch``.

    Raises InputError for more than two ports on a cable.
    """

    def __init__(
        self, clock: Clock, parameters: FabricParameters, ports: list[str], weather: Weather | None = None
    ) -> None:
        if not parameters.switches and len(ports) > 2:
            raise InputError([Mistake(f"{len(ports)} machines on a cable: {', '.join(ports)}", "two, or a switch")])
        self.clock = clock
        self.parameters = parameters
        self.lead_ps, self.crossing_ps, self.last_ps = parameters.lead_ps, parameters.crossing_ps, parameters.last_ps
        self._ports = ports
        self._pipes = {
            link: Pipe(parameters.link_bits_per_s) for port in ports for link in ((port, "switch"), ("switch", port))
        }
        self.weather = weather
        """The faults of the network; None: there are none, and adapters take their short way."""
        self.stores = parameters.forwarding == "store_and_forward" and parameters.switches > 0
        self._between: dict[tuple[str, str], list[Pipe]] = {}
        self._outputs: dict[str, deque[tuple[int, int]]] = {}
        """By destination: (when it is out, bytes) of the packets in the queue of the last switch."""
        self._filled: dict[str, int] = {}
        self.departures: list[Departure] | None = None
        """If it is a list: the packets that left a port, in the order of sending."""

    @property
    def graph(self) -> nx.Graph[str]:
        """Ports and the switch, an edge for each link: a star, to draw or to measure.

        A run asks for no path in it, so that networkx is imported here alone: that takes each process a tenth of a
        second.
        """
        import networkx as nx  # noqa: PLC0415

        graph: nx.Graph[str] = nx.Graph()
        graph.add_edges_from((port, "switch") for port in self._ports)
        return graph

    def route(self, source: str, destination: str) -> tuple[tuple[str, str], ...]:
        """The links that a packet takes: the only path of a star."""
        return (source, "switch"), ("switch", destination)

    def number(self, name: str) -> int:
        """The place of a node among the ports: arrivals at one instant are served in that order."""
        return self._ports.index(name)

    def port(self, name: str) -> Pipe:
        """The pipe out of a node's port."""
        return self._pipes[name, "switch"]

    def last_link(self, destination: str) -> Pipe | NoPipe:
        """The pipe from the last switch to ``destination``; of a cable that is the one out of the other port."""
        return self._pipes["switch", destination] if self.parameters.switches else NoPipe()

    # on a disturbed fabric ----------------------------------------------------------------------------------
    def path(self, source: str, destination: str) -> DisturbedPath:
        """The faults of the packets from one port to another."""
        assert self.weather is not None
        return self.weather.path(source, destination)

    def stored_ps(self, source: str, destination: str, end_ps: int, n_bytes: int) -> int:
        """When the last switch has all of a packet whose last bit leaves its port at ``end_ps``: each stores it first.

        Asked in the order of the packets of the path.
        """
        link_ps, switch_ps = self.parameters.link_ps, self.parameters.switch_ps
        ends = source, destination
        if ends not in self._between:
            self._between[ends] = [Pipe(self.parameters.link_bits_per_s) for _ in range(self.parameters.switches - 1)]
        at_ps = end_ps + link_ps
        for pipe in self._between[ends]:
            at_ps = pipe.send(at_ps + switch_ps, n_bytes)[1] + link_ps
        return at_ps

    def fits(self, destination: str, now_ps: int, n_bytes: int) -> bool:
        """Whether a packet that is at the last switch now finds room in the queue to ``destination``."""
        most = self.parameters.buffer_bytes
        if not most:
            return True
        queue = self._outputs.setdefault(destination, deque())
        while queue and queue[0][0] <= now_ps:
            self._filled[destination] -= queue.popleft()[1]
        return self._filled.get(destination, 0) + n_bytes <= most

    def queued(self, destination: str, out_ps: int, n_bytes: int) -> None:
        """A packet is in that queue until its last bit is out."""
        if self.parameters.buffer_bytes:
            self._outputs[destination].append((out_ps, n_bytes))
            self._filled[destination] = self._filled.get(destination, 0) + n_bytes

    def send(self, source: str, destination: str, start_ps: int, n_bytes: int, deliver: Deliver) -> int:
        """Send one packet that is ready at ``start_ps``; returns when its last bit has left the source's port.

        The plain form, an event at the entrance of each switch; adapters send through ``models.nic.port``.
        """
        left_ps = self._hop(self.route(source, destination), 0, start_ps, start_ps, n_bytes, deliver)
        if self.departures is not None:
            self.departures.append(Departure(left_ps, source, start_ps, 0, destination))
        return left_ps

    def _hop(
        self,
        route: tuple[tuple[str, str], ...],
        index: int,
        head_ps: int,
        tail_ps: int,
        n_bytes: int,
        deliver: Deliver,
    ) -> int:
        start_ps, end_ps = self._pipes[route[index]].send(head_ps, n_bytes)
        end_ps = max(end_ps, tail_ps)
        switch_ps = self.crossing_ps
        if index + 1 == len(route):
            deliver(end_ps + self.last_ps)
        else:
            head_at_switch_ps = start_ps + self.lead_ps
            tail_out_ps = end_ps + self.lead_ps + switch_ps

            def forward() -> None:
                self._hop(route, index + 1, head_at_switch_ps + switch_ps, tail_out_ps, n_bytes, deliver)

            self.clock.call_at(head_at_switch_ps, forward)
        return end_ps
