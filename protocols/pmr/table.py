"""The bytes of a cuckoo hash table: buckets of four pairs, the values' lengths, a tag and a mark for each."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import numpy as np
import numpy.typing as npt

from ...models.cpu import Thread

Code = Generator[Any, Any, Any]
Hashes = npt.NDArray[np.uint64]

LINE = 64
SLOTS = 4
_LENGTH = 4
"""The bytes of a value's length."""
_WORD = (1 << 64) - 1
_FIRST, _SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB
"""Of splitmix64's finalizer (Steele et al., OOPSLA 2014, figure 17)."""
_SPREAD = 0xC6A4A7935BD1E995
"""MurmurHash2's multiplier, by which libcuckoo makes of a tag what its two buckets are apart."""


def hashed(key: bytes) -> int:
    """The hash of a key: its words one after the other, each mixed in."""
    word = 0
    for at in range(0, len(key), 8):
        word ^= int.from_bytes(key[at : at + 8], "little")
        word = (word ^ word >> 30) * _FIRST & _WORD
        word = (word ^ word >> 27) * _SECOND & _WORD
        word ^= word >> 31
    return word


def all_hashed(keys: bytes, key_bytes: int) -> Hashes:
    """:func:`hashed` of many keys, one behind the other."""
    count, words = len(keys) // key_bytes, -(-key_bytes // 8)
    whole = np.zeros((count, words * 8), np.uint8)
    whole[:, :key_bytes] = np.frombuffer(keys, np.uint8).reshape(count, key_bytes)
    table = whole.view("<u8")
    word = np.zeros(count, np.uint64)
    for column in range(words):
        word ^= table[:, column]
        word = (word ^ word >> np.uint64(30)) * np.uint64(_FIRST)
        word = (word ^ word >> np.uint64(27)) * np.uint64(_SECOND)
        word ^= word >> np.uint64(31)
    return word


def tag_of(number: int) -> int:
    """The tag of a hash: its eight bytes, one over the other."""
    number ^= number >> 32
    number ^= number >> 16
    return (number ^ number >> 8) & 0xFF


def alternative(mask: int, bucket: int, tag: int) -> int:
    """The other bucket of a key that is in ``bucket``."""
    return (bucket ^ (tag + 1) * _SPREAD) & mask


class Bucket:
    """Where what is in a bucket: four pairs of key and value, then lengths, tags and marks."""

    def __init__(self, key_bytes: int, value_bytes: int) -> None:
        self.key_bytes = key_bytes
        self.pair = key_bytes + value_bytes
        """The bytes of a key and its value."""
        self.lengths = SLOTS * self.pair
        """The offset of the lengths; the tags follow, and the marks."""
        self.tags = self.lengths + SLOTS * _LENGTH
        self.marks = self.tags + SLOTS
        self.length = -(-(self.marks + SLOTS) // 8) * 8

    def table_bytes(self, power: int) -> int:
        """The bytes of a table, in whole lines."""
        return -(-(self.length << power) // LINE) * LINE

    def pack(self, taken: dict[int, tuple[int, bytes, bytes]]) -> bytes:
        """A bucket's bytes: by slot the tag, the key and the value."""
        made = bytearray(self.length)
        for slot, (tag, key, value) in taken.items():
            made[slot * self.pair : slot * self.pair + len(key) + len(value)] = key + value
            at = self.lengths + slot * _LENGTH
            made[at : at + _LENGTH] = len(value).to_bytes(_LENGTH, "little")
            made[self.tags + slot], made[self.marks + slot] = tag, 1
        return bytes(made)

    def moved(self, data: bytes, stays: Callable[[bytes, int], bool]) -> bytes:
        """The bucket ``data`` with those keys only that ``stays(key, tag)`` says."""
        made = bytearray(data)
        for slot in range(SLOTS):
            at = slot * self.pair
            if made[self.marks + slot] and not stays(data[at : at + self.key_bytes], data[self.tags + slot]):
                made[self.marks + slot] = 0
        return bytes(made)


class CuckooTable:
    """A table of ``2**power`` buckets at an address."""

    def __init__(self, address: int, power: int, bucket: Bucket) -> None:
        self.address = address
        self.power = power
        self.mask = (1 << power) - 1
        self.bucket = bucket
        self.length = bucket.table_bytes(power)

    def key(self, bucket: int, slot: int) -> int:
        """The address of a key, and of the pair."""
        return self.address + bucket * self.bucket.length + slot * self.bucket.pair

    def value(self, bucket: int, slot: int) -> int:
        """The address of a value."""
        return self.key(bucket, slot) + self.bucket.key_bytes

    def length_of_value(self, bucket: int, slot: int) -> int:
        """The address of a value's length."""
        return self.address + bucket * self.bucket.length + self.bucket.lengths + slot * _LENGTH

    def mark(self, bucket: int, slot: int) -> int:
        """The address of the byte that says whether a slot is taken."""
        return self.address + bucket * self.bucket.length + self.bucket.marks + slot

    def read_tags(self, thread: Thread, bucket: int) -> Code:
        """The tags of a bucket's slots, and whether each is taken."""
        data = yield from thread.load(self.address + bucket * self.bucket.length + self.bucket.tags, 2 * SLOTS)
        return data[:SLOTS], data[SLOTS:]

    def read_value(self, thread: Thread, bucket: int, slot: int) -> Code:
        """The value of a slot."""
        length = yield from thread.load(self.length_of_value(bucket, slot), _LENGTH)
        bytes_ = int.from_bytes(length, "little")
        return (yield from thread.load(self.value(bucket, slot), bytes_)) if bytes_ else b""

    def write_value(self, thread: Thread, bucket: int, slot: int, value: bytes) -> Code:
        """Overwrite the value of a slot."""
        if value:
            yield from thread.store(self.value(bucket, slot), value)
        yield from thread.store(self.length_of_value(bucket, slot), len(value).to_bytes(_LENGTH, "little"))

    def write(self, thread: Thread, bucket: int, slot: int, tag: int, key: bytes, value: bytes) -> Code:
        """Fill a slot that is not taken."""
        yield from thread.store(self.key(bucket, slot), key + value)
        yield from thread.store(self.length_of_value(bucket, slot), len(value).to_bytes(_LENGTH, "little"))
        yield from thread.store(self.mark(bucket, slot) - SLOTS, bytes([tag]))
        yield from thread.store(self.mark(bucket, slot), b"\1")

    def clear(self, thread: Thread, bucket: int, slot: int) -> Code:
        """Empty a slot."""
        yield from thread.store(self.mark(bucket, slot), b"\0")

    def line(self, number: int, bucket: Callable[[int], bytes]) -> bytes:
        """A line of the table, put together of the buckets that it touches."""
        start, length = number * LINE, self.bucket.length
        first, last = start // length, min((start + LINE - 1) // length, self.mask)
        data = b"".join(bucket(one) for one in range(first, last + 1))
        return data[start - first * length :][:LINE].ljust(LINE, b"\0")

    def doubled(self, full: CuckooTable, read: Callable[[int, int], bytes]) -> Callable[[int], bytes]:
        """The buckets of this table as they are behind the doubling of a ``full`` one, whose bytes ``read`` has."""
        length, mask = self.bucket.length, self.mask

        def bucket(number: int) -> bytes:
            source = number & full.mask

            def goes_here(key: bytes, tag: int) -> bool:
                first = hashed(key) & mask
                place = first if first & full.mask == source else alternative(mask, first, tag)
                return place == number

            return self.bucket.moved(read(full.address + source * length, length), goes_here)

        return bucket
