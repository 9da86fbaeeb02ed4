"""The slot of an adapter, as a platform profile describes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from . import pcie_rate


@dataclass(frozen=True, slots=True)
class PcieParameters:
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
    """After encoding and data-link packets, before TLP headers; 0: the rate of generation, lanes and MPS."""
    completion_bytes: int = 0
    """The most bytes that the root complex puts into one completion, a multiple of RCB; 0: MPS."""
    posted_headers: int = 192
    """Header credits of the root port for posted writes."""
    posted_data_bytes: int = 8192
    """The bytes that its data credits for posted writes, of 16 B each, stand for together."""
    read_tags: int = 256
    """Read requests that the adapter may have under way."""
    numa_ps: int = 0
    """The time by which a round trip to memory takes longer because the adapter is on another socket."""
    switch_ps: int = 0
    """The time that a PCIe switch between adapter and root port takes to forward a TLP; 0: there is none."""
    tlp_cut: Literal["first byte", "aligned"] = "aligned"
    """Where the adapter cuts a write: each MPS from its first byte on, and at pages, or at the multiples of MPS."""
    error_every_bytes: int = 0
    """How many bytes pass both ways between two bit errors, on the average; 0: not known (``tails.replays``)."""
    replay_ps: int = 0
    """From the end of a TLP that an error has damaged until it is sent again."""
    staging_order: Literal["arrival", "round-robin", "random"] = "arrival"
    """In which order the adapter's arbiter lets packets of several queue pairs go from staging to PCIe."""
    peer_late_ps: int = 0
    """At most how much later than in order an adapter's write to a device beside it shows than one to host memory: PCIe
    keeps no order between the two. A schedule's choice; 0: none is late."""

    def __post_init__(self) -> None:
        known = self.generation in pcie_rate.GIGATRANSFERS and self.lanes in pcie_rate.LANES
        if not self.tlp_bits_per_s and known:
            rate = pcie_rate.tlp_bits_per_s(self.generation, self.lanes, self.mps_bytes)
            object.__setattr__(self, "tlp_bits_per_s", rate)

    @property
    def read_ps(self) -> int:
        """The round trip of ``dma_read_ps``, from the socket that the adapter is on."""
        return self.dma_read_ps + self.numa_ps

    @property
    def visible_ps(self) -> int:
        """``posted_write_ps`` from there: half of the round trip longer."""
        return self.posted_write_ps + self.numa_ps // 2

    @property
    def most_completion_bytes(self) -> int:
        """The largest completion that comes back."""
        return min(self.completion_bytes or self.mps_bytes, self.mps_bytes)
