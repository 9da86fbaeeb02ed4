"""Memory devices of a node: byte spaces with a persistence domain, addressed together.

An address is node-wide: each device owns a range. Programs allocate from a device by name and give each allocation a
label, so that a counterexample can say ``log+0x4c0`` instead of a number.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import NamedTuple

from ...sim.bytespace import ByteSpace
from ..durability.places import Domain
from ..durability.rules import Target

DEVICE_SPAN_BITS = 40
DEVICE_SPAN_BYTES = 1 << DEVICE_SPAN_BITS
"""Room in the address space of a node for each of its devices."""
OFFSET_MASK = DEVICE_SPAN_BYTES - 1
"""The bits of an address that say where in its device it is."""


HOST_MEMORY = -1
"""The destination that all memory behind the root complex is, by number."""


@dataclass(frozen=True, slots=True)
class Destination:
    """Where a request goes, as PCIe sees it: host memory as a whole, or one device beside the adapter.

    PCIe orders nothing between destinations.
    """

    number: int = HOST_MEMORY
    """The device's number in the system, or HOST_MEMORY."""
    target: Target = Target.MEMORY
    pmrwbm: int = 0
    """PMRCAP.PMRWBM of the device."""


class Allocation(NamedTuple):
    """A labelled range of one device; ``item_bytes`` splits it into items (``index[17]``) if it has any."""

    start: int
    length: int
    label: str
    item_bytes: int | None = None

    def name(self, address: int) -> str:
        """A name for the bytes at ``address``, in words."""
        offset = address - self.start
        if self.item_bytes:
            index, rest = divmod(offset, self.item_bytes)
            return f"{self.label}[{index}]" + (f"+{rest:#x}" if rest else "")
        return f"{self.label}+{offset:#x}" if offset else self.label


class DeviceFull(MemoryError):
    """A memory device has no room for what a program reserves; ``remedy`` says what would fit, if not fewer objects."""

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.remedy = remedy


class MemoryDevice:
    """One memory device: ``number`` is unique in the system, ``index`` in its node."""

    def __init__(
        self, number: int, index: int, name: str, kind: str, domain: Domain, dimms: int, size_bytes: int
    ) -> None:
        self.number = number
        self.index = index
        self.name = name
        self.kind = kind
        self.domain = domain
        self.dimms = dimms
        self.base = index * DEVICE_SPAN_BYTES
        self.space = ByteSpace(size_bytes)
        self.traced = domain is not Domain.NONE
        """Whether its writes are recorded: nothing that certainly dies needs to be."""
        self._allocations: list[Allocation] = []
        self._next = 64  # address 0 stays free, so that it may mean "nowhere"

    def allocate(self, length: int, label: str, item_bytes: int | None = None, align: int = 64) -> int:
        """Reserve ``length`` bytes; returns the node-wide address. Raises DeviceFull."""
        start = -(-self._next // align) * align
        if start + length > self.space.size_bytes:
            raise DeviceFull(f"{self.name}: no room for {label} ({length} bytes)")
        self._next = start + length
        self._allocations.append(Allocation(start, length, label, item_bytes))
        return self.base + start

    def name_of(self, offset: int) -> str:
        """The name of the program's allocation at ``offset`` within the device."""
        found = bisect_right(self._allocations, offset, key=lambda allocation: allocation.start) - 1
        if found >= 0 and offset < self._allocations[found].start + self._allocations[found].length:
            return self._allocations[found].name(offset)
        return f"{offset:#x}"


class AddressSpace:
    """The devices of one node by name, and who owns an address."""

    def __init__(self, devices: list[MemoryDevice]) -> None:
        self.devices = {device.name: device for device in devices}
        self.by_index = devices

    def __getitem__(self, name: str) -> MemoryDevice:
        return self.devices[name]

    def locate(self, address: int) -> tuple[MemoryDevice, int]:
        """The device that ``address`` is in, and the offset within it."""
        return self.by_index[address >> DEVICE_SPAN_BITS], address & OFFSET_MASK
