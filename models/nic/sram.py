"""The entries in an adapter's SRAM of tables that live in host memory: state only, no clock.

Contexts of queue pairs, the protection table's entry of each region (MPT), the translation table's entry of each page
(MTT) or of each extent of a file, and work requests share one room, but for those kinds that the profile gives a cache
of their own (``nic.caches``: adapters count hits and misses of each kind apart, NVIDIA NEO-Host). Any entry may take
any place, and a random one is evicted: the vendor publishes neither; hashed sets, as hardware has them, behave alike on
average. As long as all that exists fits, everything is there: then no lookup is needed (:attr:`Sram.crowded`).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from enum import StrEnum
from typing import Any

import numpy as np

from ..profiles.parameters.adapter import NicParameters
from ..verbs.files import FileRegion
from ..verbs.work import MemoryRegion

DRAWS = 512
"""How many random numbers are drawn at once."""


class SramEntry(StrEnum):
    """The kind of an entry."""

    QP = "queue pair context"
    MPT = "region"
    MTT = "page"
    WQE = "work request"
    EXTENT = "extent"


def translated_by(region: MemoryRegion) -> SramEntry:
    """The kind of a region's translation entries."""
    return SramEntry.EXTENT if isinstance(region, FileRegion) else SramEntry.MTT


CACHES = {
    "contexts": SramEntry.QP,
    "protection": SramEntry.MPT,
    "translations": SramEntry.MTT,
    "work_requests": SramEntry.WQE,
}
"""The names of caches in a profile (``nic.caches``), and the kind of entry of each."""


class Sram:
    """A room for entries, used in order of time; ``random`` gives the stream that picks victims, at the first."""

    __slots__ = (
        "_bytes",
        "_draws",
        "_keys",
        "_places",
        "_random",
        "capacity_bytes",
        "crowded",
        "demand_bytes",
        "hits",
        "misses",
        "used_bytes",
    )

    def __init__(self, capacity_bytes: int, random: Callable[[], np.random.Generator]) -> None:
        self.capacity_bytes = capacity_bytes
        self.demand_bytes = 0
        """Bytes that all existing entries would take."""
        self.used_bytes = 0
        self.crowded = False
        """Whether not everything fits, so that something may be missing. Only then are entries kept and counted."""
        self.hits: dict[SramEntry, int] = {}
        self.misses: dict[SramEntry, int] = {}
        self._random = random
        self._draws: list[int] = []
        self._keys: list[tuple[SramEntry, Hashable]] = []
        self._places: dict[tuple[SramEntry, Hashable], int] = {}
        self._bytes: dict[SramEntry, int] = {}

    def exists(self, n_bytes: int) -> None:
        """Something has been created that takes so much room (negative: destroyed)."""
        self.demand_bytes += n_bytes
        self.crowded = self.demand_bytes > self.capacity_bytes

    def look(self, entry: SramEntry, name: Hashable, n_bytes: int) -> int:
        """Bytes to read from host memory for this entry: 0 if it is here. From now on it is here."""
        if (entry, name) in self._places:
            self.hits[entry] = self.hits.get(entry, 0) + 1
            return 0
        self.misses[entry] = self.misses.get(entry, 0) + 1
        self.put(entry, name, n_bytes)
        return n_bytes

    def put(self, entry: SramEntry, name: Hashable, n_bytes: int) -> None:
        """Put an entry in without a lookup; all entries of a kind are equally large."""
        key = (entry, name)
        if key in self._places:
            return
        self._bytes[entry] = n_bytes
        while self._keys and self.used_bytes + n_bytes > self.capacity_bytes:
            self._remove(self._draw() % len(self._keys))
        self._places[key] = len(self._keys)
        self._keys.append(key)
        self.used_bytes += n_bytes

    def drop(self, entry: SramEntry, name: Hashable) -> None:
        """An entry is not needed any more."""
        place = self._places.get((entry, name))
        if place is not None:
            self._remove(place)

    def names(self, entry: SramEntry) -> list[Any]:
        """The names of all entries of a kind that are here."""
        return [name for kind, name in self._keys if kind is entry]

    def _remove(self, place: int) -> None:
        key, last = self._keys[place], self._keys.pop()
        if last is not key:
            self._keys[place], self._places[last] = last, place
        del self._places[key]
        self.used_bytes -= self._bytes[key[0]]

    def _draw(self) -> int:
        if not self._draws:
            self._draws = self._random().integers(1 << 62, size=DRAWS).tolist()
        return self._draws.pop()


class Tables:
    """All that an adapter holds of the host's tables: one room for the kinds that share it, and one for each other."""

    __slots__ = ("_sizes", "_waiting", "crowded", "rooms", "shared")

    def __init__(self, parameters: NicParameters, random: Callable[[str], Callable[[], np.random.Generator]]) -> None:
        self._sizes = {
            SramEntry.QP: parameters.qp_context_bytes,
            SramEntry.MPT: parameters.mpt_bytes,
            SramEntry.MTT: parameters.mtt_bytes,
            SramEntry.WQE: parameters.wqe_bytes,
            SramEntry.EXTENT: parameters.extent_entry_bytes,
        }
        self.shared = Sram(parameters.sram_bytes, random(""))
        self.rooms = dict.fromkeys(SramEntry, self.shared)
        """By kind: where its entries are."""
        for name, cache in parameters.caches.items():
            entry = CACHES[name]
            self.rooms[entry] = Sram(cache.entries * self._sizes[entry], random(f", {name}"))
        self.rooms[SramEntry.EXTENT] = self.rooms[SramEntry.MTT]
        self._waiting = 0
        """Queues of steps that wait for entries."""
        self.crowded = False
        """Whether something may be missing in any of the rooms, or a step still waits for what was."""

    def exist(self, entry: SramEntry, count: int) -> None:
        """So many entries of a kind have been created (negative: destroyed)."""
        self.rooms[entry].exists(count * self._sizes[entry])
        self._weigh()

    def wait(self, count: int) -> None:
        """So many more queues of steps wait for entries (negative: fewer). Until none does, steps look entries up even
        if all fit now: else they would overtake those.
        """
        self._waiting += count
        self._weigh()

    def _weigh(self) -> None:
        self.crowded = self._waiting > 0 or any(room.crowded for room in self._all())

    def look(self, entry: SramEntry, name: Hashable) -> int:
        """Bytes to read from host memory for an entry: 0 if it is here. From now on it is here."""
        room = self.rooms[entry]
        return room.look(entry, name, self._sizes[entry]) if room.crowded else 0

    def put(self, entry: SramEntry, name: Hashable) -> None:
        """Put an entry in without a lookup."""
        room = self.rooms[entry]
        if room.crowded:
            room.put(entry, name, self._sizes[entry])

    def drop(self, entry: SramEntry, name: Hashable) -> None:
        """An entry is not needed any more."""
        self.rooms[entry].drop(entry, name)

    def drop_region(self, region: MemoryRegion) -> None:
        """A region is no more, and none of its entries is needed."""
        translated = translated_by(region)
        self.drop(SramEntry.MPT, region.key)
        for name in self.rooms[translated].names(translated):
            if name[0] == region.key:
                self.drop(translated, name)

    @property
    def demand_bytes(self) -> int:
        """Bytes that all existing entries would take."""
        return sum(room.demand_bytes for room in self._all())

    def _all(self) -> Iterator[Sram]:
        return iter({id(room): room for room in (self.shared, *self.rooms.values())}.values())
