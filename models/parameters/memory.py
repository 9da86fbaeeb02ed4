"""Memory controllers, DIMMs and memory devices, as a platform profile describes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Domain = Literal["media", "adr", "eadr", "wsp", "none", "pmr", "flash", "plp"]
"""What of a memory device survives a power failure, beyond the medium itself (``none``: not even that)."""


@dataclass(frozen=True, slots=True)
class Imc:
    """The memory controllers of one node."""

    channels: int
    wpq_bytes: int
    """Write pending queue of one channel."""
    wpq_accept_ps: int
    """What one line takes to be accepted, per channel."""
    interleave_bytes: int


@dataclass(frozen=True, slots=True)
class Media:
    """A kind of DIMM."""

    line_bytes: int
    """What the medium writes at once (an XPLine of Optane)."""
    capacity_bytes: int
    """Of one DIMM."""
    load_ps: int
    """A core's load that misses all caches."""
    dma_read_extra_ps: int
    """What a DMA read that misses the LLC takes longer here than from DRAM."""
    write_ps: int
    """From the write pending queue to the medium, undisturbed."""
    read_bandwidth_bits_per_s: int
    """Of one DIMM."""
    write_bandwidth_bits_per_s: int
    """Of one DIMM."""
    clwb_to_wpq_ps: int
    """From the issue of a clwb or clflushopt until the line is in the write pending queue."""
    ntstore_to_wpq_ps: int


@dataclass(frozen=True, slots=True)
class MemoryDevice:
    """A memory of a node, as protocols name it (``pm``, ``dram``, ``pmr``)."""

    device: str
    """The kind of DIMM or device: a key of ``Platform.media`` or of ``Platform.peers``."""
    domain: Domain
    dimms: int
    """How many of them there are, interleaved; of a device beside the adapter there is one."""
