"""The caches between cores, adapter and memory, and the translation in front of them, as a platform describes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .counts import NONE, CountOrZero

Policy = Literal["lru", "random", "unpredictable"]
"""Which line of a set goes (``models.host.cacheset``)."""


@dataclass(frozen=True, slots=True)
class LlcParameters:
    """The shared cache, and how the adapter's writes meet it."""

    size_bytes: int
    ways: int
    io_ways: int
    """Ways in which DMA writes that miss may allocate: the highest ones, as many as IIO_LLC_WAYS has bits."""
    line_bytes: int
    ddio: bool
    """DMA writes allocate in the LLC; off: they pass through iio_wc to the memory controller."""
    dma_read_hit_saving_ps: int
    """The time that a DMA read saves when it hits."""
    iio_wc_drain_ps: int
    """From iio_wc to the write pending queue, undisturbed."""
    slices: int = 1
    policy: Policy = "lru"
    scattered_page_bytes: int = 0
    """Pages of this size lie anywhere in physical memory, so that a buffer loads sets unevenly; 0: in one piece."""
    non_allocating_hit: Literal["invalidate", "update"] = "invalidate"
    """The effect of a DMA write that does not allocate (DDIO off) on a copy in a cache; it goes to memory in either
    case.
    """
    load_ps: int = 0
    """A core's load that hits here; 0: as in its first-level cache."""
    victims_hold: bool = False
    """A write that allocates keeps its PCIe credits, and a core's miss its fill buffer, until the dirty line that has
    to go for it is in a write pending queue; off: nobody waits.
    """
    completions: Literal["at_hand", "as_memory"] = "at_hand"
    """``as_memory``: a poll that finds a completion loads it from DRAM where DDIO is off; ``at_hand``: it always costs
    what it costs out of this cache."""
    flush_all_ps_per_byte: int = 0
    """The time of ``wbinvd`` for each byte of the cache, dirty or not."""

    @property
    def io_bytes(self) -> int:
        """How much the ways hold in which DMA writes may allocate."""
        return self.size_bytes // self.ways * self.io_ways


@dataclass(frozen=True, slots=True)
class PrivateCacheParameters:
    """The caches of one core alone; a size of 0 is no such cache."""

    l1_bytes: int = 0
    l1_ways: int = 8
    l2_bytes: int = 0
    l2_ways: int = 16
    l2_load_ps: int = 0
    """A load that hits in the second level."""
    fill_buffers: int = 1
    """How many lines of one core may be on their way at once, to it or from it past the caches."""
    prefetch_lines: CountOrZero = NONE
    """How many lines ahead of a stream the core's prefetcher asks for, and brings at once, past the fill buffers; 0:
    there is none."""
    read_for_ownership: Literal["shared", "waited"] = "shared"
    """``waited``: who flushes a line, or fences, waits until the core has read the line that it stored to. ``shared``:
    nobody does, and a store is held for its line's share of the fill buffers."""


@dataclass(frozen=True, slots=True)
class TlbParameters:
    """The second-level translation buffer of a core; without entries, translation costs nothing."""

    entries: int = 0
    page_bytes: int = 4096
    """The memory that one entry maps: 4 KiB, 2 MiB or 1 GiB."""
