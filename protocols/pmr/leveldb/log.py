"""LevelDB's log: records cut into pieces that fit into blocks of 32 KiB, each with a checksum (doc/log_format.md).

The write-ahead log has batches of updates in it, the manifest edits of the version.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import Any

from ....models.cpu import Thread
from ....models.storage.files import File
from .coding import Corruption, LevelEntry, Reader, masked_crc, varstring

Code = Generator[Any, Any, Any]

BLOCK = 32 * 1024
HEADER = 7
"""Checksum, length, type."""
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4


class DatabaseLog:
    """A log that is appended to, from ``length`` on."""

    def __init__(self, file: File, length: int = 0) -> None:
        self.file = file
        self.length = length

    def append(self, thread: Thread, record: bytes) -> Code:
        """Write a record, into the page cache."""
        data = b"".join(pieces(record, self.length))
        yield from thread.crc32_of(record)
        yield from self.file.pwrite(thread, data, self.length)
        self.length += len(data)

    def sync(self, thread: Thread) -> Code:
        """Make all of it durable."""
        yield from self.file.fdatasync(thread)


def pieces(record: bytes, at: int) -> Iterator[bytes]:
    """The bytes of a record that is written at an offset of a log."""
    begun = 0
    first = True
    while first or begun < len(record):
        left = BLOCK - at % BLOCK
        if left < HEADER:
            yield bytes(left)
            at += left
            continue
        part = record[begun : begun + left - HEADER]
        begun += len(part)
        last = begun == len(record)
        kind = (FULL if last else FIRST) if first else (LAST if last else MIDDLE)
        yield masked_crc(bytes([kind]) + part).to_bytes(4, "little") + len(part).to_bytes(2, "little")
        yield bytes([kind]) + part
        at += HEADER + len(part)
        first = False


class LogReader:
    """The records of a log's bytes, as far as they are whole.

    A piece whose checksum is wrong takes the rest of its block with it; what follows is read (log_format.md).
    """

    def __init__(self, data: bytes) -> None:
        self._data = data

    @staticmethod
    def matches(crc: int, data: bytes) -> bool:
        """Whether a piece has its checksum."""
        return masked_crc(data) == crc

    def records(self) -> Iterator[bytes]:
        """The records, one after the other."""
        at, parts = 0, list[bytes]()
        begun = False
        while at + HEADER <= len(self._data):
            left = BLOCK - at % BLOCK
            if left < HEADER:
                at += left
                continue
            head = Reader(self._data, at)
            crc, length, kind = head.word(), head.word(2), head.word(1)
            piece = self._data[at + HEADER : at + HEADER + length]
            fits = HEADER + length <= left and len(piece) == length and FULL <= kind <= LAST
            if not fits or not self.matches(crc, bytes([kind]) + piece):
                at += left
                begun = False
                continue
            at += HEADER + length
            if kind in (FULL, FIRST):
                parts, begun = [], True
            if begun:
                parts.append(piece)
                if kind in (FULL, LAST):
                    yield b"".join(parts)
                    begun = False


def batch_of(sequence: int, entries: Sequence[tuple[bytes, bytes | None]]) -> bytes:
    """A record of updates that follow each other from a sequence number on (db/write_batch.cc)."""
    made = [sequence.to_bytes(8, "little"), len(entries).to_bytes(4, "little")]
    for key, value in entries:
        made.append(b"\1" + varstring(key) + varstring(value) if value is not None else b"\0" + varstring(key))
    return b"".join(made)


def entries_of(record: bytes) -> Iterator[LevelEntry]:
    """The updates of a record. Raises Corruption."""
    reader = Reader(record)
    sequence, count = reader.word(8), reader.word()
    for number in range(count):
        kind = reader.word(1)
        if kind > 1:
            raise Corruption(f"an update of kind {kind}")
        key = reader.varstring()
        yield LevelEntry(key, sequence + number, reader.varstring() if kind else None)
    if not reader.over:
        raise Corruption("bytes behind the last update")
