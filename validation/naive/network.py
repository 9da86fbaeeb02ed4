"""The network of the naive model: a process for each packet."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import simpy

from ...models.profiles.platform import Platform
from .engine import PCIE, Key, Process, Simulation, Station, Wire


@dataclass
class Packet:
    """One of a message's packets; ``ready`` (None: now) is when its payload is there."""

    n_bytes: int
    key: Key
    arrived: Callable[[], Process]
    ready: simpy.Event | None = None


class Network:
    """Switches in a row with a link to each node and one back; cut-through. No packet waits between switches."""

    def __init__(self, sim: Simulation, platform: Platform, nodes: int) -> None:
        self._sim = sim
        self._fabric = platform.fabric
        self._ports = [Station(sim) for _ in range(nodes)]
        """A port is a message's until its last packet has come to it."""
        self._sent = 0
        self._out = [Wire(sim, platform.fabric.link_bits_per_s, level=PCIE) for _ in range(nodes)]
        self._in = [Wire(sim, platform.fabric.link_bits_per_s) for _ in range(nodes)]

    def send(self, source: int, destination: int, packets: list[Packet]) -> None:
        """The packets of a message come to the port now, or when they are ready."""

        def code() -> Process:
            with self._ports[source].join(packets[0].key) as turn:
                yield turn
                for packet in packets:
                    if packet.ready is not None:
                        yield packet.ready
                    self._packet(source, destination, packet.n_bytes, packet.key, packet.arrived)

        self._sim.process(code())

    def _packet(self, source: int, destination: int, n_bytes: int, key: Key, arrived: Callable[[], Process]) -> None:
        """Send a packet now; ``arrived`` goes on when its last bit is there."""
        fabric = self._fabric
        self._sent += 1
        turn = (self._sent,)
        link_ps = fabric.propagation_ps + fabric.phy_ps

        def out() -> Process:
            if fabric.switches:
                yield from self._out[source].carry(
                    n_bytes, turn, starts=lambda out_ps: void(self._sim.process(switched(out_ps)))
                )
            else:
                yield from self._out[source].carry(n_bytes, turn)
                yield self._sim.timeout(link_ps)
                yield from arrived()

        def switched(out_ps: int) -> Process:
            for _ in range(fabric.switches):
                yield self._sim.timeout(link_ps + fabric.switch_ps)
            yield from self._in[destination].carry(n_bytes, key)
            # The tail is never ahead of itself.
            yield self._sim.until(out_ps + fabric.switches * (link_ps + fabric.switch_ps))
            yield self._sim.timeout(link_ps)
            yield from arrived()

        self._sim.process(out())


def void(_: object) -> None:
    """For callbacks that return nothing."""
