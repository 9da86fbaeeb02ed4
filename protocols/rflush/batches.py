"""Batches, byte for byte: several requests in one message or in one entry of a log.

Source: Duan et al., SC'21, section 4.3 and figure 6: the sender transfers a large message, with one flush. The layout
is not said. Here the values of all writes come first, one behind the other; the objects' numbers follow, 4 bytes each.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

NUMBER_BYTES = 4


def pack_numbers(objects: Iterable[int]) -> bytes:
    """The numbers of objects, from 0."""
    return b"".join(number.to_bytes(NUMBER_BYTES, "little") for number in objects)


def unpack_numbers(data: bytes) -> list[int]:
    """The numbers that stand in these bytes."""
    return [int.from_bytes(data[at : at + NUMBER_BYTES], "little") for at in range(0, len(data), NUMBER_BYTES)]


def pack_writes(writes: Sequence[tuple[int, bytes]]) -> bytes:
    """Writes, each an object's number and its value: of a single one the value alone."""
    values = b"".join(value for _, value in writes)
    return values if len(writes) == 1 else values + pack_numbers(number for number, _ in writes)


def room_for_writes(count: int, value_bytes: int) -> int:
    """How long the bytes of so many writes are."""
    return value_bytes if count == 1 else count * (value_bytes + NUMBER_BYTES)


def unpack_writes(data: bytes, value_bytes: int) -> list[tuple[int, bytes]]:
    """The writes of a batch of more than one."""
    count = len(data) // (value_bytes + NUMBER_BYTES)
    numbers = unpack_numbers(data[count * value_bytes :])
    return [(number, data[turn * value_bytes : (turn + 1) * value_bytes]) for turn, number in enumerate(numbers)]


def pack_values(values: Sequence[bytes], value_bytes: int) -> bytes:
    """What so many reads have found, each a value or no bytes: a single one's as it is; of several first a byte each,
    whether there is a value, then the values that there are.
    """
    if len(values) == 1:
        return values[0]
    assert all(len(value) in (0, value_bytes) for value in values)
    return bytes(map(bool, values)) + b"".join(values)


def unpack_values(data: bytes, count: int, value_bytes: int) -> list[bytes | None]:
    """What ``count`` reads have found: values, and None for what was never written."""
    if count == 1:
        return [data or None]
    starts = itertools.count(count, value_bytes)
    return [data[(start := next(starts)) : start + value_bytes] if there else None for there in data[:count]]


def room_for_values(count: int, value_bytes: int) -> int:
    """How long that is at most."""
    return value_bytes if count == 1 else count * (1 + value_bytes)


def room_for_numbers(count: int) -> int:
    """How long the numbers are by which so many objects are asked for: a single one's stands in the message's tail."""
    return NUMBER_BYTES * count if count > 1 else 0
