"""The log of a group's replica: an object's versions, each in an entry with its checksum.

Each client process has two entries of each object, and writes the one that holds its older version. So nobody
overwrites what another one writes, an update that comes late changes only what its writer has not written since, and
the version before an update stays whole until the next one has returned.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from ...sim.bytespace import LINE_BYTES
from ..layout import U32, Block, Layout, Rest
from ..scheme import Sizes

TURNS = 2


class LoggedEntry(Layout):
    """A version of an object; its first word, checksum and version, lasts as a whole or not at all."""

    crc = U32()
    version = U32()
    """From 1; 0: nothing."""
    unused = Block(56)
    value = Rest()


HEAD = LoggedEntry.size


class EntryPlace(NamedTuple):
    """An entry's place in the log: the object and the client process by number, and which of its two entries."""

    number: int
    writer: int
    turn: int


class LogLayout:
    """Where the entries of a log lie."""

    def __init__(self, sizes: Sizes) -> None:
        self.writers = sizes.clients
        self.entry_bytes = HEAD + -(-sizes.value_bytes // LINE_BYTES) * LINE_BYTES
        self.length = self.entry_bytes * TURNS * self.writers * len(sizes.objects)
        self.used_bytes = HEAD + sizes.value_bytes

    def offset(self, place: EntryPlace) -> int:
        """Where an entry begins, from the log's start."""
        return ((place.number * self.writers + place.writer) * TURNS + place.turn) * self.entry_bytes

    def place(self, offset: int) -> EntryPlace:
        """The entry that an offset lies in."""
        rest, turn = divmod(offset // self.entry_bytes, TURNS)
        return EntryPlace(*divmod(rest, self.writers), turn)

    def places(self, number: int) -> Iterator[EntryPlace]:
        """All entries of an object."""
        return (EntryPlace(number, writer, turn) for writer in range(self.writers) for turn in range(TURNS))


def packed(version: int, value: bytes) -> bytes:
    """An entry's bytes."""
    return LoggedEntry.pack(crc=zlib.crc32(value), version=version, unused=bytes(56), value=value)


def crc_of(head: bytes) -> int | None:
    """The checksum that an entry's first line says; None for one that was never written."""
    entry = LoggedEntry.unpack(head)
    return int(entry.crc) if entry.version else None


class LoggedVersion(NamedTuple):
    """A version of an object, and the entry that it is in."""

    number: int
    place: EntryPlace
    value: bytes = b""


class Directory:
    """What clients agree on outside of the protocol, as those of a single object's shapes do: the versions' order, and
    the newest version that has returned. Recovery does not read it.
    """

    def __init__(self, layout: LogLayout) -> None:
        self._layout = layout
        self._last: dict[int, int] = {}
        self._held: dict[EntryPlace, int] = {}
        self.newest: dict[int, LoggedVersion] = {}
        """By object: the newest version that has returned."""

    def next(self, number: int, writer: int) -> LoggedVersion:
        """The next version of an object, in the entry of its writer that is older."""
        version = self._last[number] = self._last.get(number, 1) + 1
        both = [EntryPlace(number, writer, turn) for turn in range(TURNS)]
        place = min(both, key=lambda one: self._held.get(one, 0))
        self._held[place] = version
        return LoggedVersion(version, place)

    def returned(self, version: LoggedVersion) -> None:
        """An update has returned."""
        number = version.place.number
        self.newest[number] = max(version, self.newest.get(number, version))

    def found(self, number: int, newest: LoggedVersion | None, held: Mapping[EntryPlace, int]) -> None:
        """Recovery has found this out about an object; versions that were never seen again count no more."""
        for place in self._layout.places(number):
            self._held[place] = held.get(place, 0)
        self._last[number] = newest.number if newest is not None else 1
        self.newest.pop(number, None)
        if newest is not None:
            self.newest[number] = newest
