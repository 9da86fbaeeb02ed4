"""The shared cache and its I/O ways, as a platform profile describes them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Llc:
    """The shared cache, and how the adapter's writes meet it."""

    size_bytes: int
    ways: int
    io_ways: int
    """Ways in which DMA writes that miss may allocate."""
    line_bytes: int
    ddio: bool
    """DMA writes allocate in the LLC; off: they pass through iio_wc to the memory controller."""
    dma_read_hit_saving_ps: int
    """What a DMA read saves when it hits."""
    iio_wc_drain_ps: int
    """From iio_wc to the write pending queue, undisturbed."""
