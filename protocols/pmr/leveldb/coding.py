"""Numbers and checksums as LevelDB writes them: varints, fixed words, masked CRCs, internal keys.

The checksum is zlib's CRC32 where LevelDB has CRC32C: another polynomial, the same strength against tears. It is masked
as there (doc/log_format.md, util/crc32c.h), since a checksum of bytes with checksums in them says little.
"""

from __future__ import annotations

import zlib
from typing import NamedTuple

VALUE, DELETION = 1, 0
"""The kinds of an entry."""
TAG_BYTES = 8
"""A sequence number of seven bytes, and the kind."""
_MASK = 0xA282EAD8
_WORD = (1 << 32) - 1


class Corruption(Exception):
    """Bytes of a file are not what was written."""


class LevelEntry(NamedTuple):
    """A version of a key: entries are in the order of keys, the newest version of each first."""

    key: bytes
    sequence: int
    value: bytes | None
    """None: the key was removed."""

    @property
    def order(self) -> tuple[bytes, int]:
        """What entries are sorted by."""
        return self.key, -self.sequence

    @property
    def internal_key(self) -> bytes:
        """The key with its tag."""
        return self.key + tag_of(self.sequence, self.value)


def tag_of(sequence: int, value: bytes | None) -> bytes:
    """Sequence number and kind in one word."""
    return (sequence << 8 | (DELETION if value is None else VALUE)).to_bytes(TAG_BYTES, "little")


def entry_of(internal_key: bytes, value: bytes) -> LevelEntry:
    """The entry of an internal key and its value. Raises Corruption."""
    if len(internal_key) < TAG_BYTES:
        raise Corruption("an internal key without a tag")
    tag = int.from_bytes(internal_key[-TAG_BYTES:], "little")
    return LevelEntry(internal_key[:-TAG_BYTES], tag >> 8, value if tag & 0xFF == VALUE else None)


def masked_crc(data: bytes) -> int:
    """The checksum of bytes as it is stored."""
    crc = zlib.crc32(data)
    return ((crc >> 15 | crc << 17) + _MASK) & _WORD


def varint(number: int) -> bytes:
    """Seven bits a byte, the lowest first."""
    made = bytearray()
    while number >= 0x80:
        made.append(number & 0x7F | 0x80)
        number >>= 7
    made.append(number)
    return bytes(made)


def varstring(data: bytes) -> bytes:
    """A length, and so many bytes."""
    return varint(len(data)) + data


class Reader:
    """Bytes that are read one field after the other; each raises Corruption where there are too few."""

    def __init__(self, data: bytes, at: int = 0) -> None:
        self.data = data
        self.at = at

    @property
    def over(self) -> bool:
        """Whether all has been read."""
        return self.at >= len(self.data)

    def take(self, length: int) -> bytes:
        """So many bytes."""
        found = self.data[self.at : self.at + length]
        if len(found) < length:
            raise Corruption("a field that is cut short")
        self.at += length
        return found

    def word(self, length: int = 4) -> int:
        """A fixed number."""
        return int.from_bytes(self.take(length), "little")

    def varint(self) -> int:
        """A number of seven bits a byte."""
        number = shift = 0
        while True:
            byte = self.take(1)[0]
            number |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return number
            if shift > 63:
                raise Corruption("a number without an end")

    def varstring(self) -> bytes:
        """A length, and so many bytes."""
        return self.take(self.varint())
