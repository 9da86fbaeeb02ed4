"""A loaded hash table: where each key is, worked out for all at once; its bytes are made when they are looked at."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from .table import SLOTS, CuckooTable, all_hashed, alternative, hashed, tag_of

NOBODY = -1
LONGEST_SEARCH = 4**5
"""A search for room gives up behind so many buckets: as many as ways of five steps can reach (:mod:`.cuckoo`)."""


class LoadedTable:
    """The entries of a table, by the number that each has in the order of loading."""

    def __init__(
        self, table: CuckooTable, keys: bytes, places: npt.NDArray[np.int32], entries: Mapping[bytes, bytes]
    ) -> None:
        self._table = table
        self._keys = keys
        self._places = places
        """By bucket and slot, the number of the key that is there, or NOBODY."""
        self._entries = entries
        self.bucket = lru_cache(maxsize=16)(self._bucket)

    def _bucket(self, number: int) -> bytes:
        """The bytes of a bucket."""
        taken, size = {}, self._table.bucket.key_bytes
        for slot in range(SLOTS):
            entry = int(self._places[number, slot])
            if entry != NOBODY:
                key = self._keys[entry * size : (entry + 1) * size]
                tag = tag_of(hashed(key))
                taken[slot] = tag, key, self._value(key)
        return self._table.bucket.pack(taken)

    def _value(self, key: bytes) -> bytes:
        """The value of a key, which may have been given without the zeros behind it."""
        return self._entries[key if key in self._entries else key.rstrip(b"\0")]


def places_of(keys: bytes, key_bytes: int, power: int) -> npt.NDArray[np.int32] | None:
    """Where each of these keys is in a table of ``2**power`` buckets: by bucket and slot the number of a key.

    Each goes to its first bucket, as long as that has room, then to its second; for the others, one after the other,
    room is made as an insert does. None where there is none.
    """
    hashes = all_hashed(keys, key_bytes)
    buckets, mask = 1 << power, np.uint64((1 << power) - 1)
    places = np.full((buckets, SLOTS), NOBODY, np.int32)
    first = (hashes & mask).astype(np.int64)
    order = np.argsort(first, kind="stable")
    begins = np.searchsorted(first[order], np.arange(buckets))
    rank = np.arange(len(order)) - begins[first[order]]
    placed = rank < SLOTS
    places[first[order[placed]], rank[placed]] = order[placed]
    for entry in np.sort(order[~placed]):
        if not _insert(places, hashes, int(entry), int(mask)):
            return None
    return places


def _insert(places: npt.NDArray[np.int32], hashes: npt.NDArray[np.uint64], entry: int, mask: int) -> bool:
    """Put an entry into one of its buckets, others on their way to theirs; returns whether there was room."""
    number = int(hashes[entry])
    start = number & mask, alternative(mask, number & mask, tag_of(number))
    before: dict[int, tuple[int, int] | None] = dict.fromkeys(start)
    reached = deque(before)
    while reached and len(before) <= LONGEST_SEARCH:
        bucket = reached.popleft()
        for slot in range(SLOTS):
            there = int(places[bucket, slot])
            if there == NOBODY:
                _shift(places, before, bucket, slot, entry)
                return True
            to = alternative(mask, bucket, tag_of(int(hashes[there])))
            if to not in before:
                before[to] = bucket, slot
                reached.append(to)
    return False


def _shift(
    places: npt.NDArray[np.int32], before: Mapping[int, tuple[int, int] | None], bucket: int, slot: int, entry: int
) -> None:
    """Move each entry on the way to a free slot by one, and put ``entry`` where the way begins."""
    while (came := before[bucket]) is not None:
        places[bucket, slot] = places[came]
        bucket, slot = came
    places[bucket, slot] = entry
