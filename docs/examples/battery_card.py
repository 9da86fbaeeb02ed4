"""A card beside the adapter whose DRAM a battery backs: what is in its buffer survives while the battery is charged.

An example of a kind of memory. It is no product; the numbers of its platform say where each of them comes from.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from ...sim.bytespace import LINE_BYTES
from ...sim.stations import Pipe
from ..durability.places import Domain, Path, Place, Tearing, Way
from ..memory.devices import MemoryDevice
from ..profiles.kinds import KindParameters
from .beside import BesideAdapter, DeviceTiming
from .rootcomplex import RootComplex

BUFFER = Place.add("card_buffer", "the card's buffer")
FLASH = Place.add("card_flash", "the card's flash")
SAVE = "save to the card's flash"
DMA = Path.add("dma to a card", Way((Place.NIC, Place.PCIE, BUFFER, FLASH, FLASH), barrier=SAVE))
POSTED = Path.add(
    "posted store to a card", Way((Place.STORE_BUFFER, Place.PCIE, BUFFER, FLASH, FLASH), Tearing.FIRST_WORDS, SAVE)
)
CHARGED = Domain.add("charged", {BUFFER, FLASH})
FLAT = Domain.add("flat", {FLASH})


@dataclass(frozen=True)
class BatteryCardParameters(KindParameters):
    """A kind of such card."""

    kind: ClassVar[str] = "battery card"
    domains: ClassVar[tuple[Domain, ...]] = (CHARGED, FLAT, Domain.NONE)

    ingress_bits_per_s: int
    """What its DRAM takes in."""
    write_ps: int
    """From the adapter's root port, or a core's store buffer, to the card."""
    read_ps: int
    """Round trip of a read, by the adapter or by a core."""
    save_ps: int
    """From its buffer to flash, which it writes when it is idle."""


class BatteryCard(BesideAdapter, parameters=BatteryCardParameters):
    """Memory on one card."""

    dma_path = DMA
    mmio_path = POSTED

    def __init__(self, root: RootComplex, device: MemoryDevice, parameters: BatteryCardParameters) -> None:
        super().__init__(root, device, CardTiming(parameters))


class CardTiming(DeviceTiming):
    """One pipe into the card's DRAM. Reads come behind all writes."""

    def __init__(self, parameters: BatteryCardParameters) -> None:
        self._parameters = parameters
        self._ingress = Pipe(parameters.ingress_bits_per_s)
        self._last_ps = 0

    @override
    def dma_write(self, arrive_ps: int, n_bytes: int, late_ps: int = 0, not_before_ps: int = 0) -> tuple[int, int]:
        at_card_ps = self._last_ps = max(self._last_ps, arrive_ps + self._parameters.write_ps)
        visible_ps = max(self._ingress.send(at_card_ps, n_bytes)[1] + late_ps, not_before_ps)
        return visible_ps, visible_ps + self._parameters.save_ps

    @override
    def store(self, at_ps: int, n_bytes: int) -> tuple[int, int]:
        return self.dma_write(at_ps, n_bytes)

    @override
    def dma_read_ps(self, n_bytes: int) -> int:
        return self._parameters.read_ps

    @override
    def read_ready_ps(self, arrive_ps: int) -> int:
        return max(arrive_ps, self._ingress.free_ps)

    @override
    def stores_ps(self, lines: int, issue_ps: int, start_ps: int) -> int:
        return max(lines * issue_ps, lines * self._ingress.transfer_ps(LINE_BYTES))

    @override
    def load_ps(self, length: int, start_ps: int) -> int:
        loads = max(1, -(-length // 8))
        return self.status_read_ps(start_ps) + (loads - 1) * self._parameters.read_ps

    @override
    def status_read_ps(self, start_ps: int) -> int:
        half_ps = self._parameters.read_ps // 2
        return self.read_ready_ps(start_ps + half_ps) - start_ps - half_ps + self._parameters.read_ps
