"""Places on the way of a write, and which of them survive a power failure: rows of data, and no branch for any of them.

A path is a sequence of places, one for each stage of ``sim.trace``. A persistence domain belongs to a memory device
and says which places survive (docs/architecture.md, "Places and domains"). The vocabularies are open: the file of a new
kind of memory adds its places, paths and domains as this file does: ``Place.add``, ``Path.add``, ``Domain.add``.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from enum import Enum
from typing import Any, ClassVar, NamedTuple, Self, TypeVar

from typing_extensions import override

from ...sim.trace import Stage

_Term = TypeVar("_Term")


class _Vocabulary(type):
    """The class of an open vocabulary: iterates over its words."""

    terms: dict[str, Any]

    def __iter__(cls: type[_Term]) -> Iterator[_Term]:
        return iter(list(cls.terms.values()))  # type: ignore[attr-defined]


class Term(str, metaclass=_Vocabulary):
    """A word of an open vocabulary. There is one object for each word: ``Place("nic") is Place.NIC``.

    Raises ValueError for a word that no module has added.
    """

    __slots__ = ()

    @override
    def __init_subclass__(cls) -> None:
        cls.terms = {}

    def __new__(cls, word: str) -> Self:
        found: Self | None = cls.terms.get(word)
        if found is None:
            raise ValueError(f"{word!r} is no {cls.__name__.lower()}: one of {', '.join(cls.terms)}")
        return found

    @classmethod
    def _made(cls, word: str) -> Self:
        """A new word; one that is there already stays the same object."""
        made: Self = cls.terms.setdefault(word, str.__new__(cls, word))
        return made


class Place(Term):
    """The places where bytes may be."""

    __slots__ = ()

    NIC: ClassVar[Place]
    PCIE: ClassVar[Place]
    LLC: ClassVar[Place]
    IIO_WC: ClassVar[Place]
    STORE_BUFFER: ClassVar[Place]
    WC_BUFFER: ClassVar[Place]
    WPQ: ClassVar[Place]
    MEDIA: ClassVar[Place]
    DEVICE_BUFFER: ClassVar[Place]
    PMR: ClassVar[Place]
    PAGE_CACHE: ClassVar[Place]
    DRIVE_CACHE: ClassVar[Place]
    FLASH: ClassVar[Place]

    @classmethod
    def add(cls, word: str, in_words: str) -> Place:
        """A place that bytes pass, and how a sentence calls it."""
        place = cls._made(word)
        IN_WORDS[place] = in_words
        return place


IN_WORDS: dict[Place, str] = {}
"""How a place is called in a sentence."""

Place.NIC = Place.add("nic", "the NIC")
Place.PCIE = Place.add("pcie", "PCIe")
Place.LLC = Place.add("llc", "the LLC")
Place.IIO_WC = Place.add("iio_wc", "the IIO's write cache")
Place.STORE_BUFFER = Place.add("store_buffer", "the store buffer")
Place.WC_BUFFER = Place.add("wc_buffer", "a write-combining buffer")
Place.WPQ = Place.add("wpq", "the write pending queue")
Place.MEDIA = Place.add("media", "the medium")
Place.DEVICE_BUFFER = Place.add("device_buffer", "the device's buffer")
Place.PMR = Place.add("pmr", "the persistent memory region")
Place.PAGE_CACHE = Place.add("page_cache", "the page cache")
Place.DRIVE_CACHE = Place.add("drive_cache", "the drive's write cache")
Place.FLASH = Place.add("flash", "flash")


class Tearing(Enum):
    """The parts of a write to a line that may be there without the rest."""

    ANY_WORDS = "any of its aligned 8-byte words"
    FIRST_WORDS = "its first words, as stores of one core to one line persist in their order"
    NEVER = "nothing: the device writes its unit whole"


class Way(NamedTuple):
    """One path into memory: its places, and the facts known of it."""

    places: tuple[Place, Place, Place, Place, Place]
    """By stage (accepted, in transit, visible, queued, stored)."""
    torn: Tearing = Tearing.ANY_WORDS
    barrier: str = ""
    """The event that moves bytes from where they are visible to where they last, if no flush of a core does: in
    words.
    """
    verb: str = "store"
    """The verb for a write of a core or a drive in a sentence."""


class Path(Term):
    """The ways into memory, from each kind of writer."""

    __slots__ = ()

    DMA_DDIO: ClassVar[Path]
    DMA_NO_DDIO: ClassVar[Path]
    STORE: ClassVar[Path]
    NTSTORE: ClassVar[Path]
    PEER: ClassVar[Path]
    """DMA from the adapter to a device beside it, past the host's caches and controllers."""
    MMIO: ClassVar[Path]
    """A core's store to such a device: uncached, posted."""
    BUFFERED: ClassVar[Path]
    """write(2) into the page cache, which the kernel writes back to a drive when it likes, or has to."""
    BLOCK: ClassVar[Path]
    """A command of a drive that carries the address of the bytes: O_DIRECT, asynchronous I/O, or no kernel at all."""

    @classmethod
    def add(cls, word: str, way: Way) -> Path:
        """Add a way into memory, and the facts known of it."""
        path = cls._made(word)
        WAYS[path], PLACES[path] = way, way.places
        return path


WAYS: dict[str, Way] = {}
"""The row of each path."""
PLACES: dict[str, tuple[Place, Place, Place, Place, Place]] = {}
"""The places of each path, by stage."""


_WRITE_BARRIER = "write barrier of the device (PMRCAP.PMRWBM)"

Path.DMA_DDIO = Path.add("dma, ddio on", Way((Place.NIC, Place.PCIE, Place.LLC, Place.WPQ, Place.MEDIA)))
Path.DMA_NO_DDIO = Path.add("dma, ddio off", Way((Place.NIC, Place.PCIE, Place.IIO_WC, Place.WPQ, Place.MEDIA)))
Path.STORE = Path.add(
    "store", Way((Place.STORE_BUFFER, Place.STORE_BUFFER, Place.LLC, Place.WPQ, Place.MEDIA), Tearing.FIRST_WORDS)
)
Path.NTSTORE = Path.add("ntstore", Way((Place.WC_BUFFER, Place.WC_BUFFER, Place.WC_BUFFER, Place.WPQ, Place.MEDIA)))
Path.PEER = Path.add(
    "peer to peer",
    Way((Place.NIC, Place.PCIE, Place.DEVICE_BUFFER, Place.PMR, Place.PMR), barrier=_WRITE_BARRIER),
)
Path.MMIO = Path.add(
    "mmio store",
    Way(
        (Place.STORE_BUFFER, Place.PCIE, Place.DEVICE_BUFFER, Place.PMR, Place.PMR),
        Tearing.FIRST_WORDS,
        _WRITE_BARRIER,
        "posted store (MMIO)",
    ),
)
Path.BUFFERED = Path.add(
    "file, buffered",
    Way(
        (Place.PAGE_CACHE, Place.PCIE, Place.DRIVE_CACHE, Place.FLASH, Place.FLASH),
        barrier="FLUSH of the drive",
        verb="write into the page cache",
    ),
)
Path.BLOCK = Path.add(
    "block write",
    Way(
        (Place.PCIE, Place.PCIE, Place.DRIVE_CACHE, Place.FLASH, Place.FLASH),
        Tearing.NEVER,
        "FLUSH of the drive",
        "block write",
    ),
)


class Domain(Term):
    """A persistence domain: the part of a device's writes that survives a power failure."""

    __slots__ = ()

    MEDIA: ClassVar[Domain]
    ADR: ClassVar[Domain]
    EADR: ClassVar[Domain]
    WSP: ClassVar[Domain]
    NONE: ClassVar[Domain]
    PMR: ClassVar[Domain]
    FLASH: ClassVar[Domain]
    PLP: ClassVar[Domain]

    @classmethod
    def add(cls, word: str, survives: Iterable[Place]) -> Domain:
        """A persistence domain, and the places whose bytes survive a power failure in it."""
        domain = cls._made(word)
        _SURVIVES[domain] = frozenset(survives)
        return domain


_SURVIVES: dict[Domain, frozenset[Place]] = {}

Domain.MEDIA = Domain.add("media", {Place.MEDIA})
Domain.ADR = Domain.add("adr", {Place.WPQ, Place.MEDIA})
Domain.EADR = Domain.add("eadr", {Place.LLC, Place.WPQ, Place.MEDIA})
Domain.WSP = Domain.add(
    "wsp",
    {Place.NIC, Place.PCIE, Place.LLC, Place.IIO_WC, Place.WPQ, Place.MEDIA, Place.DEVICE_BUFFER, Place.PMR},
)
Domain.NONE = Domain.add("none", ())
Domain.PMR = Domain.add("pmr", {Place.PMR})
Domain.FLASH = Domain.add("flash", {Place.FLASH})
Domain.PLP = Domain.add("plp", {Place.DRIVE_CACHE, Place.FLASH})


def survives(place: Place, domain: Domain, iio_wc_survives: bool = False) -> bool:
    """Whether bytes in ``place`` are still there after a power failure.

    The NIC's and PCIe's buffers are in neither ADR nor eADR, and store and write-combining buffers in none (Intel,
    pmem.io glossary; Du et al., ICPP'21, section 3). Whether eADR drains the IIO's write cache is not documented; it
    counts as lost unless ``iio_wc_survives``. A device with a persistent memory region keeps writes that passed its
    write barrier, and nothing before (NVMe 1.4, PMRCAP.PMRWBM). A drive's write cache survives if capacitors protect it
    (``plp``), else only the bytes on flash do (``flash``).
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
