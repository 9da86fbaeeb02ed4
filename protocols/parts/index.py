"""A hash index in persistent memory that clients read with one RDMA READ.

An entry is one cache line: key and *location*, the object's offset in the log and its length in one aligned 8-byte
word, so that a crash or a concurrent READ sees the old location or the new one and never a mix. A key lies in one of
the ``NEIGHBOURHOOD`` entries from its home slot on (as in hopscotch hashing, without its displacements: the table is
made large enough, and its hash chosen, so that the keys that it is loaded with fit; clients learn the hash when they
connect).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, ClassVar, NamedTuple, Protocol

from ...models.cpu import Thread
from ...models.memory.devices import MemoryDevice
from ..layout import U64, Bytes, Layout
from .placement import NEIGHBOURHOOD, Stored, place

Code = Generator[Any, Any, Any]

ENTRY_BYTES = 64
_LENGTH_BITS = 24
MOST_VALUE_BYTES = (1 << _LENGTH_BITS) - 1024
"""The largest value of an object whose length, with a header of less than 1 KiB, a :class:`Location` has room for."""


class Entry(Layout):
    """One index entry, 40 of its line's 64 bytes; a zero location means that it is free."""

    key = Bytes(32)
    location = U64()


Bits = tuple[tuple[str, int], ...]
"""What the bits of a word are, from the lowest on: names and how many."""


class _Location(NamedTuple):
    offset: int
    length: int


class Location(_Location):
    """Where an object lies: ``offset`` in the log, ``length``, the bytes in all."""

    __slots__ = ()

    bits: ClassVar[Bits] = (("length", _LENGTH_BITS), ("offset", 64 - _LENGTH_BITS))

    def pack(self) -> int:
        """The 8-byte word. Raises ValueError for an offset or a length that it has no room for."""
        if self.length >> _LENGTH_BITS or self.offset >> 64 - _LENGTH_BITS:
            raise ValueError(
                f"{self.length} bytes at {self.offset}: a length has {_LENGTH_BITS} bits, an offset the rest of 64"
            )
        return self.offset << _LENGTH_BITS | self.length

    @staticmethod
    def unpack(word: int) -> Location | None:
        """The location in a word; None for a free entry."""
        return Location(word >> _LENGTH_BITS, word & ((1 << _LENGTH_BITS) - 1)) if word else None


class Word(Protocol):
    """What the 8-byte word of an entry says: a :class:`Location`, or what a store keeps there instead.

    A page of its scheme shows its ``bits``, if it has them.
    """

    def pack(self) -> int:
        """The word; not zero."""


class HashIndex:
    """The table: loaded before the run, searched and published by the server, searched by clients."""

    Entry: ClassVar[type[Layout]] = Entry
    """What its entries are; each begins with its key."""

    def __init__(self, device: MemoryDevice, keys: Sequence[bytes]) -> None:
        """Format a table for ``keys``. Raises MemoryError when no salt gives every key a free entry."""
        self._placement = place(keys)
        self.slots = self._placement.slots
        self._device = device
        self.length = (self.slots + NEIGHBOURHOOD - 1) * ENTRY_BYTES
        self.address = device.allocate(self.length, "index", item_bytes=ENTRY_BYTES)

    @classmethod
    def says(cls, entry: bytes) -> tuple[bytes, Any]:
        """An entry's key, and what it says of it: a :class:`Location`; None if it is free."""
        found = Entry.unpack(entry)
        return found.key, Location.unpack(found.location)

    @staticmethod
    def entry(key: bytes, word: Word) -> bytes:
        """An entry's bytes before the run."""
        return Entry.pack(key=key, location=word.pack())

    def home(self, key: bytes) -> int:
        """The slot that a key's neighbourhood begins at."""
        return self._placement.home(key)

    def slots_of(self, key: bytes) -> range:
        """Where the key may lie."""
        return range(self.home(key), self.home(key) + NEIGHBOURHOOD)

    def neighbourhood(self, key: bytes) -> tuple[int, int]:
        """The range (address, length) that one READ has to fetch to find a key."""
        return self.address_of(self.home(key)), NEIGHBOURHOOD * ENTRY_BYTES

    def address_of(self, slot: int) -> int:
        """The address of a slot's entry."""
        return self.address + slot * ENTRY_BYTES

    def slot_of_loaded(self, key: bytes) -> int | None:
        """The slot of a key that the table was formatted for: it keeps it for ever. None for others."""
        return next((slot for slot in self.slots_of(key) if self._placement.key_in(slot) == key), None)

    def load(self, where: Callable[[bytes], Word | None]) -> None:
        """Fill in the entries of the keys that the table was formatted for, before the run; None: not there yet."""
        start = self.address - self._device.base
        if isinstance(self._placement, Stored):
            for slot, key in self._placement.taken():
                word = where(key)
                if word is not None:
                    self._device.space.poke(start + slot * ENTRY_BYTES, self.entry(key, word))
            return

        def entry_in(line: int) -> bytes:
            key = self._placement.key_in(line - start // ENTRY_BYTES)
            word = None if key is None else where(key)
            packed = b"" if key is None or word is None else self.entry(key, word)
            return packed.ljust(ENTRY_BYTES, b"\0")

        self._device.space.compute(start, self.length, entry_in)

    @classmethod
    def find(cls, key: bytes, neighbourhood: bytes) -> tuple[int, Any] | None:
        """The key's entry among the bytes of its neighbourhood: (which one of them, what it says)."""
        for turn in range(NEIGHBOURHOOD):
            start = turn * ENTRY_BYTES
            if neighbourhood.startswith(key, start):
                found, said = cls.says(neighbourhood[start : start + ENTRY_BYTES])
                if said is not None and found == key:
                    return turn, said
        return None

    def publish(self, thread: Thread, key: bytes, location: Word) -> Code:
        """Point the key at ``location`` by one 8-byte store, visible at once; returns the entry's address.

        Raises MemoryError when the key is new and its neighbourhood is full.
        """
        found = yield from self.look_up(thread, key)
        return (yield from self.link(thread, key, found, location))

    def look_up(self, thread: Thread, key: bytes) -> Code:
        """A key's entry: (its address, where it points); for a new key (a free one's address or None, None)."""
        address, length = self.neighbourhood(key)
        content = yield from thread.load(address, length)
        found = self.find(key, content)
        if found is not None:
            return address + found[0] * ENTRY_BYTES, found[1]
        own = self.slot_of_loaded(key)
        free = self._free(content, key) if own is None else own - self.home(key)
        return (None if free is None else address + free * ENTRY_BYTES), None

    def link(self, thread: Thread, key: bytes, found: tuple[int | None, Any], location: Word) -> Code:
        """What :meth:`publish` does with what :meth:`look_up` found."""
        entry, old = found
        if entry is None:
            raise MemoryError("index: the neighbourhood of a new key is full")
        if old is None:
            yield from thread.store(entry, Entry.pack(key=key, location=0)[:32])
        yield from self.point(thread, entry, location)
        return entry

    @staticmethod
    def point(thread: Thread, entry: int, location: Word) -> Code:
        """Point the entry at an address at ``location``, by one 8-byte store."""
        yield from thread.store(entry + Entry.offset_of("location"), location.pack().to_bytes(8, "little"))

    @classmethod
    def _free(cls, content: bytes, key: bytes) -> int | None:
        """A free entry, best the one that the key had before it was removed."""
        said = [cls.says(content[turn * ENTRY_BYTES : (turn + 1) * ENTRY_BYTES]) for turn in range(NEIGHBOURHOOD)]
        free = [turn for turn, (_, where) in enumerate(said) if where is None]
        return min(free, key=lambda turn: (said[turn][0] != key, turn), default=None)
