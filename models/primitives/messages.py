"""The messages of a primitive, byte for byte: the ranges to which updates belong."""

from __future__ import annotations

import struct
from collections.abc import Sequence

TRAILER = struct.Struct("<QQ")
"""Behind an update's bytes in a SEND: the address where they belong, and their length."""
TRAILER_BYTES = TRAILER.size
FLAG = struct.Struct("<Q8s")
"""The flag in a message or in a packet's header: the address where it belongs, and its bytes."""
WINDOW_BITS = 28
"""An immediate names a registered region by its highest bits, and an offset into it by these."""
_RANGE = struct.Struct("<QI")


def message_of(ranges: Sequence[tuple[int, int]]) -> bytes:
    """A message with ranges that are to be persisted."""
    return b"".join(_RANGE.pack(*each) for each in ranges)


def ranges_in(message: bytes) -> list[tuple[int, int]]:
    """The ranges in such a message."""
    return list(_RANGE.iter_unpack(message))
