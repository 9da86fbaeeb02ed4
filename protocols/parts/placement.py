"""Which slot of a hash table each of the keys has that it is formatted for.

Up to :data:`STORED_KEYS` keys they are placed one by one, by their CRC32 with a salt with which all of them fit. Beyond
that nothing is stored: a computed permutation of the slots gives each key one of its own, a perfect hash for the keys
that the table is formatted for. A look-up costs the same either way: it reads the whole neighbourhood.
"""

from __future__ import annotations

import functools
import zlib
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Protocol

from ...sim.permutation import Permutation

NEIGHBOURHOOD = 4
STORED_KEYS = 1 << 17
"""Up to so many keys are placed one by one."""
_SALTS = 64


class KeyPlacement(Protocol):
    """Where keys lie in a table of ``slots`` slots and the rest of the last neighbourhood."""

    slots: int

    def home(self, key: bytes) -> int:
        """The slot that a key's neighbourhood begins at."""

    def key_in(self, slot: int) -> bytes | None:
        """The key that the table is formatted with in this slot; None where it is free."""


def place(keys: Sequence[bytes]) -> KeyPlacement:
    """A placement for ``keys``. Raises MemoryError when no salt gives every key a free slot."""
    return Stored(tuple(keys)) if len(keys) <= STORED_KEYS else Computed(keys)


class Stored:
    """Few keys, placed one by one."""

    def __init__(self, keys: tuple[bytes, ...]) -> None:
        self.slots = max(16, 1 << (8 * len(keys) - 1).bit_length())
        self._salt, self._placed = _format(keys, self.slots)

    def home(self, key: bytes) -> int:
        """By its CRC32."""
        return _home(key, self._salt, self.slots)

    def key_in(self, slot: int) -> bytes | None:
        """As they were placed."""
        return self._placed.get(slot)

    def taken(self) -> Iterator[tuple[int, bytes]]:
        """Every slot that has a key, and the key."""
        return iter(self._placed.items())


class Computed:
    """Any number of keys that know their own number (``keys.index``)."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        self._keys = keys
        self.slots = 1 << (2 * len(keys) - 1).bit_length()
        self._slot = Permutation(self.slots, 0)

    def home(self, key: bytes) -> int:
        """By its number; by its CRC32 for a key that is none of those."""
        try:
            return self._slot(self._keys.index(key))
        except ValueError:
            return _home(key, 0, self.slots)

    def number_in(self, slot: int) -> int | None:
        """The number of the key in a slot."""
        if slot >= self.slots:
            return None
        number = self._slot.inverse(slot)
        return number if number < len(self._keys) else None

    def key_in(self, slot: int) -> bytes | None:
        """The one whose number the permutation sends there."""
        number = self.number_in(slot)
        return None if number is None else self._keys[number]


def _home(key: bytes, salt: int, slots: int) -> int:
    return zlib.crc32(key, salt) % slots


@functools.lru_cache(maxsize=8)
def _format(keys: tuple[bytes, ...], slots: int) -> tuple[int, Mapping[int, bytes]]:
    """The first salt that gives every key an entry of its own, and who has which (remembered: recovery asks again)."""
    for salt in range(_SALTS):
        placed: dict[int, bytes] = {}
        for key in keys:
            home = _home(key, salt, slots)
            free = next((slot for slot in range(home, home + NEIGHBOURHOOD) if slot not in placed), None)
            if free is None:
                break
            placed[free] = key
        else:
            return salt, MappingProxyType(placed)  # which nobody can change: nor need it be put back
    raise MemoryError(f"index: no salt of {_SALTS} puts {len(keys)} keys within {NEIGHBOURHOOD} of home")
