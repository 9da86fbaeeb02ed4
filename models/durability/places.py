"""Places on the way of a write, and which of them survive a power failure.

A path is a sequence of places, one for each stage of ``sim.trace``. A persistence domain belongs to a memory device
and says which places survive (docs/architecture.md, "Places and domains").
"""

from __future__ import annotations

import functools
from enum import StrEnum

from ...sim.trace import Stage


class Place(StrEnum):
    """Where bytes may be."""

    NIC = "nic"
    PCIE = "pcie"
    LLC = "llc"
    IIO_WC = "iio_wc"
    STORE_BUFFER = "store_buffer"
    WC_BUFFER = "wc_buffer"
    WPQ = "wpq"
    MEDIA = "media"
    DEVICE_BUFFER = "device_buffer"
    PMR = "pmr"
    PAGE_CACHE = "page_cache"
    DRIVE_CACHE = "drive_cache"
    FLASH = "flash"


IN_WORDS: dict[Place, str] = {
    Place.NIC: "the NIC",
    Place.PCIE: "PCIe",
    Place.LLC: "the LLC",
    Place.IIO_WC: "the IIO's write cache",
    Place.STORE_BUFFER: "the store buffer",
    Place.WC_BUFFER: "a write-combining buffer",
    Place.WPQ: "the write pending queue",
    Place.MEDIA: "the medium",
    Place.DEVICE_BUFFER: "the device's buffer",
    Place.PMR: "the persistent memory region",
    Place.PAGE_CACHE: "the page cache",
    Place.DRIVE_CACHE: "the drive's write cache",
    Place.FLASH: "flash",
}
"""How a place is called in a sentence."""


class Path(StrEnum):
    """The ways into memory."""

    DMA_DDIO = "dma, ddio on"
    DMA_NO_DDIO = "dma, ddio off"
    STORE = "store"
    NTSTORE = "ntstore"
    PEER = "peer to peer"
    """DMA from the adapter to a device beside it, past the host's caches and controllers."""
    MMIO = "mmio store"
    """A core's store to such a device: uncached, posted."""
    BUFFERED = "file, buffered"
    """write(2) into the page cache, which the kernel writes back to a drive when it likes, or has to."""
    BLOCK = "block write"
    """A command of a drive that is told where the bytes are: O_DIRECT, asynchronous I/O, or no kernel at all."""


PLACES: dict[str, tuple[Place, Place, Place, Place, Place]] = {
    Path.DMA_DDIO: (Place.NIC, Place.PCIE, Place.LLC, Place.WPQ, Place.MEDIA),
    Path.DMA_NO_DDIO: (Place.NIC, Place.PCIE, Place.IIO_WC, Place.WPQ, Place.MEDIA),
    Path.STORE: (Place.STORE_BUFFER, Place.STORE_BUFFER, Place.LLC, Place.WPQ, Place.MEDIA),
    Path.NTSTORE: (Place.WC_BUFFER, Place.WC_BUFFER, Place.WC_BUFFER, Place.WPQ, Place.MEDIA),
    Path.PEER: (Place.NIC, Place.PCIE, Place.DEVICE_BUFFER, Place.PMR, Place.PMR),
    Path.MMIO: (Place.STORE_BUFFER, Place.PCIE, Place.DEVICE_BUFFER, Place.PMR, Place.PMR),
    Path.BUFFERED: (Place.PAGE_CACHE, Place.PCIE, Place.DRIVE_CACHE, Place.FLASH, Place.FLASH),
    Path.BLOCK: (Place.PCIE, Place.PCIE, Place.DRIVE_CACHE, Place.FLASH, Place.FLASH),
}


class Domain(StrEnum):
    """A persistence domain: what of a device's writes survives a power failure."""

    MEDIA = "media"
    ADR = "adr"
    EADR = "eadr"
    WSP = "wsp"
    NONE = "none"
    PMR = "pmr"
    FLASH = "flash"
    PLP = "plp"


_SURVIVES: dict[Domain, frozenset[Place]] = {
    Domain.MEDIA: frozenset({Place.MEDIA}),
    Domain.ADR: frozenset({Place.WPQ, Place.MEDIA}),
    Domain.EADR: frozenset({Place.LLC, Place.WPQ, Place.MEDIA}),
    Domain.WSP: frozenset(Place)
    - {Place.STORE_BUFFER, Place.WC_BUFFER, Place.PAGE_CACHE, Place.DRIVE_CACHE, Place.FLASH},
    Domain.NONE: frozenset(),
    Domain.PMR: frozenset({Place.PMR}),
    Domain.FLASH: frozenset({Place.FLASH}),
    Domain.PLP: frozenset({Place.DRIVE_CACHE, Place.FLASH}),
}


def survives(place: Place, domain: Domain, iio_wc_survives: bool = False) -> bool:
    """Whether bytes in ``place`` are still there after a power failure.

    The NIC's and PCIe's buffers are in neither ADR nor eADR, and store and write-combining buffers in none (Intel,
    pmem.io glossary; Du et al., ICPP'21, section 3). Whether eADR drains the IIO's write cache is not documented; it
    counts as lost unless ``iio_wc_survives``. A device with a persistent memory region promises what has passed its
    write barrier, and nothing before (NVMe 1.4, PMRCAP.PMRWBM). A drive's write cache survives if capacitors protect it
    (``plp``), else only what is on flash does (``flash``).
    """
    if place is Place.IIO_WC and domain is Domain.EADR:
        return iio_wc_survives
    return place in _SURVIVES[domain]


@functools.cache
def safe_stage(path: str, domain: Domain, iio_wc_survives: bool = False) -> Stage | None:
    """The first stage of ``path`` that is inside ``domain``; None where nothing of the device survives."""
    for stage, place in zip(Stage, PLACES[path], strict=True):
        if survives(place, domain, iio_wc_survives):
            return stage
    return None
