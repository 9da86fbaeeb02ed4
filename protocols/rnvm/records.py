"""What lies in the two logs: records that begin with a head, and what a transaction and an operation are as bytes.

Source: rNVM, sections 3.3 and 4.2, figure 3. A memory-log transaction is entries {flag, address, length, data}, the
commit mark, and a checksum. The paper puts the checksum at the end; here it stands in the head, with the length, so
that whoever finds a head knows what it has to check (sizes of the fields: assumptions). A record whose body fits beside
the head is one line; else the body begins with the next line.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from ..layout import U32, Layout
from ..structures.structure import Operation

LINE = 64
WORD = 8
ENTRY, TX_COMMIT = 1, 2
"""The flag of an entry, and the mark behind the last one."""

_ENTRY_HEAD = struct.Struct("<BQI")
_STEP_HEAD = struct.Struct("<BBHIQq")
_HAS_VALUE, _HAS_NUMBER = 1, 2

Write = tuple[int, bytes]
"""An address, and the bytes that are to be there."""


class RecordHead(Layout):
    """The first 16 bytes of a record."""

    sequence = U32()
    """Its number in its log: it tells the laps of the ring apart."""
    length = U32()
    """Of the body, in bytes."""
    body_crc = U32()
    head_crc = U32()
    """The CRC32 of the twelve bytes before."""


class Position(Layout):
    """A place in a log, in one word: the LPN (log processing number) is that of the next record to process."""

    sequence = U32()
    line = U32()
    """The number of its line in the ring."""


def body_at(length: int) -> int:
    """Where a body of that length begins in its record."""
    return RecordHead.size if RecordHead.size + length <= LINE else LINE


def lines_of(length: int) -> int:
    """How many lines a record takes whose body has that length."""
    return -(-(body_at(length) + length) // LINE)


def record(sequence: int, body: bytes) -> bytes:
    """A record's bytes."""
    start = struct.pack("<III", sequence, len(body), zlib.crc32(body))
    return (start + struct.pack("<I", zlib.crc32(start))).ljust(body_at(len(body)), b"\0") + body


def head_of(data: bytes, sequence: int) -> RecordHead | None:
    """The head in ``data`` if it is whole and that of the record of this number."""
    head = RecordHead.unpack(data)
    whole = head.sequence == sequence and head.head_crc == zlib.crc32(data[: RecordHead.size - 4])
    return head if whole else None


class NoTransactionError(ValueError):
    """A body that does not end with its commit mark; of many torn words some have the checksum of the whole."""


# transactions --------------------------------------------------------------------------------------------------------
def transaction(writes: Iterable[Write]) -> bytes:
    """The body of a transaction."""
    parts = [_ENTRY_HEAD.pack(ENTRY, address, len(data)) + data for address, data in writes]
    return b"".join(parts) + bytes([TX_COMMIT])


def writes_of(body: bytes) -> list[Write]:
    """The writes of a transaction. Raises NoTransactionError if it does not end with its commit mark."""
    found, at = [], 0
    while at + _ENTRY_HEAD.size < len(body) and body[at] == ENTRY:
        _, address, length = _ENTRY_HEAD.unpack_from(body, at)
        at += _ENTRY_HEAD.size
        found.append((address, body[at : at + length]))
        at += length
    if at != len(body) - 1 or body[at] != TX_COMMIT:
        raise NoTransactionError(f"a transaction without its commit mark, at byte {at} of {len(body)}")
    return found


def merged(writes: Iterable[Write], last: Mapping[int, int] | None = None) -> list[Write]:
    """Writes of a batch as the fewest that do the same: an address is written once, adjacent ranges are one.

    Those at the addresses of ``last``, of these lengths, stand behind all others, in that order: readers find by them
    what the others write.
    """
    pieces: dict[int, bytearray] = {}
    masks: dict[int, int] = {}
    for address, data in writes:
        for line, start, piece in by_line(address, data):
            content = pieces.setdefault(line, bytearray(LINE))
            content[start : start + len(piece)] = piece
            masks[line] = masks.get(line, 0) | ((1 << len(piece)) - 1) << start
    behind = []
    for address, length in (last or {}).items():
        line, start = divmod(address, LINE)
        behind.append((address, bytes(pieces[line][start : start + length])))
        masks[line] &= ~(((1 << length) - 1) << start)
    found: list[tuple[int, bytearray]] = []
    for line in sorted(pieces):
        for start, end in runs_of(masks[line]):
            address = line * LINE + start
            if found and found[-1][0] + len(found[-1][1]) == address:
                found[-1][1].extend(pieces[line][start:end])
            else:
                found.append((address, bytearray(pieces[line][start:end])))
    return [*((address, bytes(data)) for address, data in found), *behind]


def by_line(address: int, data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """The parts of a range that lie in one line each: the line's number, where in it, the bytes."""
    done = 0
    while done < len(data):
        line, start = divmod(address + done, LINE)
        piece = data[done : done + LINE - start]
        yield line, start, piece
        done += len(piece)


def runs_of(mask: int) -> Iterator[tuple[int, int]]:
    """The runs of ones in a mask of a line's bytes: (from, to)."""
    at = 0
    while mask >> at:
        at += ((mask >> at) & -(mask >> at)).bit_length() - 1
        length = (~(mask >> at) & (mask >> at) + 1).bit_length() - 1
        yield at, at + length
        at += length


# operations ----------------------------------------------------------------------------------------------------------
class Logged(NamedTuple):
    """An operation in the operation log, and what comes behind it."""

    operation: Operation
    behind: Position


def operation_bytes(operation: Operation, words: Sequence[str]) -> bytes:
    """The body of an operation's record; ``words`` are all that an operation or a step may be called."""
    own = operation._replace(steps=())
    parts = []
    for each in (own, *operation.steps):
        has = (each.value is not None and _HAS_VALUE) | (each.number is not None and _HAS_NUMBER)
        data = each.value or b""
        head = _STEP_HEAD.pack(words.index(each.f), has, len(operation.steps), len(data), each.key, each.number or 0)
        parts.append(head + data)
    return b"".join(parts)


def operation_of(body: bytes, words: Sequence[str]) -> Operation:
    """The operation in a record's body."""
    found, at = [], 0
    while at < len(body):
        word, has, _, length, key, number = _STEP_HEAD.unpack_from(body, at)
        at += _STEP_HEAD.size
        value = body[at : at + length] if has & _HAS_VALUE else None
        found.append(Operation(words[word], key, value, (), number if has & _HAS_NUMBER else None))
        at += length
    return found[0]._replace(steps=tuple(found[1:]))
