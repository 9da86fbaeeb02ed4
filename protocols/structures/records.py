"""Loaded records as one table of 8-byte words: many of them at once, and lines that are made when they are touched."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from ...sim.bytespace import LINE_BYTES, round_up
from ..layout import WORD
from .space import Image

Words = npt.NDArray[np.uint64]


def words_of(length: int) -> int:
    """How many words so many bytes take."""
    return -(-length // WORD)


def padded(data: bytes) -> bytes:
    """Bytes, and zeros up to a whole word."""
    return data.ljust(words_of(len(data)) * WORD, b"\0")


def values_as_words(values: Iterable[bytes], value_bytes: int) -> Words:
    """A row of words for each value."""
    data = b"".join(values) if value_bytes % WORD == 0 else b"".join(map(padded, values))
    return np.frombuffer(data, dtype="<u8").reshape(-1, words_of(value_bytes))


def buckets_of(keys: Words, bits: int) -> npt.NDArray[np.int64]:
    """:func:`bucket_of` of many keys."""
    return ((keys * np.uint64(GOLDEN)) >> np.uint64(64 - bits)).astype(np.int64)


GOLDEN = 0x9E3779B97F4A7C15
"""2**64 over the golden ratio, odd: Knuth, The Art of Computer Programming 3, section 6.4."""


def bucket_of(key: int, bits: int) -> int:
    """The bucket of a key in a table of ``2**bits``: multiplicative hashing."""
    return (key * GOLDEN & (1 << 64) - 1) >> (64 - bits)


def show(image: Image, address: int, words: Words) -> None:
    """Have a block of whole lines at ``address`` hold these words; its lines are made when they are touched."""
    data = words.astype("<u8", copy=False).tobytes()
    length = round_up(len(data))
    if length:
        image.compute(
            address, length, lambda line: data[line * LINE_BYTES : (line + 1) * LINE_BYTES].ljust(LINE_BYTES, b"\0")
        )
