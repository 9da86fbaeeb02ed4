"""The slot of an adapter, and devices beside it, as a platform profile describes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from . import pcie_rate


@dataclass(frozen=True, slots=True)
class Pcie:
    """The slot of the adapter."""

    generation: int
    lanes: int
    mps_bytes: int
    """Maximum payload of a TLP."""
    mrrs_bytes: int
    """Maximum size of a read request."""
    rcb_bytes: int
    """Read completion boundary."""
    tlp_header_write_bytes: int
    tlp_header_read_bytes: int
    tlp_header_completion_bytes: int
    dma_read_ps: int
    """Round trip of a small read that misses the LLC and is answered by DRAM, without serialisation."""
    posted_write_ps: int
    """From the root port until coherent memory shows a posted write (LLC, or iio_wc with DDIO off)."""
    tlp_bits_per_s: int = 0
    """After encoding and data-link packets, before TLP headers; 0: what generation, lanes and MPS say."""
    completion_bytes: int = 0
    """What the root complex puts into one completion at most, a multiple of RCB; 0: MPS."""
    posted_headers: int = 192
    """Header credits of the root port for posted writes."""
    posted_data_bytes: int = 8192
    """What its data credits for posted writes, of 16 B each, stand for together."""
    staging_order: Literal["arrival", "round-robin", "random"] = "arrival"
    """In which order the adapter's arbiter lets packets of several queue pairs go from staging to PCIe."""

    def __post_init__(self) -> None:
        known = self.generation in pcie_rate.GIGATRANSFERS and self.lanes in pcie_rate.LANES
        if not self.tlp_bits_per_s and known:
            rate = pcie_rate.tlp_bits_per_s(self.generation, self.lanes, self.mps_bytes)
            object.__setattr__(self, "tlp_bits_per_s", rate)

    @property
    def most_completion_bytes(self) -> int:
        """The largest completion that comes back."""
        return min(self.completion_bytes or self.mps_bytes, self.mps_bytes)


@dataclass(frozen=True, slots=True)
class Peer:
    """A kind of device beside the adapter on PCIe whose memory can be addressed: a drive's persistent memory region."""

    capacity_bytes: int
    pmrwbm: int
    """PMRCAP.PMRWBM: with bit 0 a read of the region is a write barrier, with bit 1 a read of PMRSTS."""
    ingress_bits_per_s: int
    """What it takes in."""
    peer_write_ps: int
    """From the adapter's root port to the device's buffer, serialisation at the device apart."""
    peer_read_ps: int
    """Round trip of a small read by the adapter, without serialisation."""
    settle_ps: int
    """From the device's buffer to where it lasts, undisturbed."""
    mmio_read_ps: int
    """A core's uncached load of up to ``mmio_width_bytes``."""
    mmio_width_bytes: int
    mmio_write_ps: int
    """From a core's store buffer to the device's buffer, serialisation at the device apart."""
