"""What Mojim's machines keep in persistent memory and say to each other: words, entries of the log, messages."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

from ...layout import U32, Layout, Rest

Ranges = Sequence[tuple[int, bytes]]
"""Objects by number, with their new values."""


class Stance(IntEnum):
    """What a machine is, as its persistent memory says."""

    PRIMARY = 0
    MIRROR = 1
    ALONE = 2


class Standing(Layout):
    """A word: who a machine is, and since which epoch; who goes on alone begins a new one."""

    epoch = U32()
    stance = U32()


class LogPosition(Layout):
    """A word: of a mark the number of its msync and how many entries this has; of the state what has been applied, and
    the position in the log behind it.
    """

    msync = U32()
    entries = U32()


class Update(Layout):
    """An entry of the log: a range that an msync names."""

    number = U32()
    position = U32()
    value = Rest()


class Msync(Layout):
    """Store ranges (:class:`MsyncRange`), and make them durable as the mode has it; the reply says nothing."""

    ranges = Rest()


class MsyncRange(Layout):
    """A range of an msync: an object by its number, and its new value."""

    number = U32()
    value = Rest()


def pack_ranges(ranges: Ranges) -> bytes:
    """The ranges of an msync, one behind the other."""
    return b"".join(MsyncRange.pack(number=number, value=value) for number, value in ranges)


def unpack_ranges(data: bytes, value_bytes: int) -> Ranges:
    """The ranges that a message has, of values of one size."""
    each = MsyncRange.size + value_bytes
    found = [MsyncRange.unpack(data[at : at + each]) for at in range(0, len(data) - each + 1, each)]
    return [(one.number, one.value) for one in found]


class Load(Layout):
    """Read an object: the reply."""

    number = U32()


class Apply(Layout):
    """Apply what is committed: the reply is the position in the log behind it."""

    unused = U32()


class Join(Layout):
    """The other machine is there again: it gets a copy of the image, and is the mirror from then on. The reply is
    empty where it has to find out with this one whose image counts."""

    unused = U32()


class Agreed(Layout):
    """The image here is that of the other machine, and this one is its mirror."""

    epoch = U32()
