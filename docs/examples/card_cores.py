"""An adapter with cores of its own: one computes the CRC32 of each arriving packet before the packet is taken in.

An example; the idea of StRoM (Sidler et al., EuroSys'20), whose kernels stand between the network and the DMA engine.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

from rpsim.models.nic.message import Packet, mark
from rpsim.models.nic.nic import Nic
from rpsim.models.profiles.platform import Platform
from rpsim.models.verbs.ties import PACKET_SHIFT
from rpsim.sim.stations import Fifo


class CardCores:
    """The cores, one for each unit of the receive engine: packets of a queue pair pass theirs in order."""

    def __init__(self, nic: Nic, platform: Platform) -> None:
        self._clock = nic.clock
        self._cores = [Fifo() for _ in range(platform.nic.processing_units)]
        self._ps_per_byte = platform.cpu.crc_ps_per_byte
        self.found: list[int] = []

    def before(self, go_on: Callable[[Packet], None]) -> Callable[[Packet], None]:
        """What takes a packet to its core, and then goes on with it."""

        def check(packet: Packet) -> None:
            message, at, payload = packet[:3]
            done_ps = self._cores[message.to.unit].serve(self._clock.now_ps, len(payload) * self._ps_per_byte)
            self._clock.hardware(done_ps, message.key + (at >> PACKET_SHIFT), done, packet)

        def done(packet: Packet) -> None:
            if packet[2]:
                self.found.append(zlib.crc32(packet[2]))
                mark(packet[0], "core on the card", self._clock.now_ps)
            go_on(packet)

        return check


class CardNic(Nic):
    """An adapter with these cores; a request without payload passes its core too, so that nothing overtakes."""

    takes_plain_way = False

    def __init__(self, *parts: Any) -> None:
        super().__init__(*parts)
        self.cores = CardCores(self, parts[3])
        self.take_in, self.serve = self.cores.before(self.take_in), self.cores.before(self.serve)
