"""The version: which tables are on which level, and what is to be merged next; the manifest's edits of it.

Sources: LevelDB, doc/impl.md; db/dbformat.h and db/version_set.cc for constants; db/version_edit.cc for the records.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from .coding import Corruption, LevelEntry, Reader, varint, varstring

LEVELS = 7
"""``kNumLevels``."""
MERGE_AT = 4
"""Level 0 is merged into level 1 once it has so many tables (``kL0_CompactionTrigger``)."""
SLOW_AT = 8
"""Each write is put off by a millisecond (``kL0_SlowdownWritesTrigger``)."""
STOP_AT = 12
"""Writes wait (``kL0_StopWritesTrigger``)."""
HIGHEST_FOR_MEMTABLE = 2
"""A memtable's table goes as far down where it overlaps nothing (``kMaxMemCompactLevel``)."""
LEVEL_1_BYTES = 10 << 20
"""Level 1 is merged once it is larger; each further level may be ten times as large (``MaxBytesForLevel``)."""
TABLE_BYTES = 2 << 20
"""A merge makes tables of so many bytes (``max_file_size``)."""
GRANDPARENTS = 10
"""No table goes down that overlaps so many tables' bytes two levels below (``MaxGrandParentOverlapBytes``)."""

_COMPARATOR, _LOG, _NEXT, _SEQUENCE, _POINTER, _DELETED, _NEW, _OLDEST = 1, 2, 3, 4, 5, 6, 7, 9


class TableFile(NamedTuple):
    """A table as the version knows it."""

    number: int
    length: int
    smallest: bytes
    """The internal key of its first entry."""
    largest: bytes

    def overlaps(self, first: bytes, last: bytes) -> bool:
        """Whether it may have a key of this range."""
        return first <= self.largest[:-8] and self.smallest[:-8] <= last


@dataclass
class VersionEdit:
    """What a record of the manifest changes."""

    log: int | None = None
    """Logs before this one are not needed any more."""
    next_number: int | None = None
    sequence: int | None = None
    pointers: list[tuple[int, bytes]] = field(default_factory=list)
    deleted: list[tuple[int, int]] = field(default_factory=list)
    """Level and number."""
    new: list[tuple[int, TableFile]] = field(default_factory=list)
    oldest: int | None = None
    """Files of logs before this one are empty (LevelDB has the number of another log here, which it does not use)."""

    def pack(self) -> bytes:
        """The record: a tag before each field."""
        made = [varint(_COMPARATOR) + varstring(b"leveldb.BytewiseComparator")]
        numbers = (_LOG, self.log), (_OLDEST, self.oldest), (_NEXT, self.next_number), (_SEQUENCE, self.sequence)
        for tag, number in numbers:
            if number is not None:
                made.append(varint(tag) + varint(number))
        made += [varint(_POINTER) + varint(level) + varstring(key) for level, key in self.pointers]
        made += [varint(_DELETED) + varint(level) + varint(number) for level, number in self.deleted]
        for level, table in self.new:
            made.append(varint(_NEW) + varint(level) + varint(table.number) + varint(table.length))
            made.append(varstring(table.smallest) + varstring(table.largest))
        return b"".join(made)

    @staticmethod
    def unpack(record: bytes) -> VersionEdit:
        """The edit of a record. Raises Corruption."""
        edit, reader = VersionEdit(), Reader(record)
        while not reader.over:
            tag = reader.varint()
            if tag == _COMPARATOR:
                reader.varstring()
            elif tag == _LOG:
                edit.log = reader.varint()
            elif tag == _OLDEST:
                edit.oldest = reader.varint()
            elif tag == _NEXT:
                edit.next_number = reader.varint()
            elif tag == _SEQUENCE:
                edit.sequence = reader.varint()
            elif tag == _POINTER:
                edit.pointers.append((reader.varint(), reader.varstring()))
            elif tag == _DELETED:
                edit.deleted.append((reader.varint(), reader.varint()))
            elif tag == _NEW:
                level, number, length = reader.varint(), reader.varint(), reader.varint()
                edit.new.append((level, TableFile(number, length, reader.varstring(), reader.varstring())))
            else:
                raise Corruption(f"an edit with the tag {tag}")
        return edit


class Merge(NamedTuple):
    """A merge: tables of a level, and those of the next one that overlap them."""

    level: int
    upper: Sequence[TableFile]
    lower: Sequence[TableFile]


class Version:
    """The tables of each level, and where the next merge of a level begins."""

    def __init__(self, shrunk: int = 1) -> None:
        """``shrunk``: sizes of levels and tables are so many times smaller, as of a database of fewer keys."""
        self.levels: list[list[TableFile]] = [[] for _ in range(LEVELS)]
        self.pointers: dict[int, bytes] = {}
        self.table_bytes = max(1, TABLE_BYTES // shrunk)
        self.level_1_bytes = max(1, LEVEL_1_BYTES // shrunk)

    def apply(self, edit: VersionEdit) -> None:
        """Change it as an edit says. Level 0 is in the order of numbers, all others in that of keys."""
        self.pointers.update(edit.pointers)
        for level, number in edit.deleted:
            self.levels[level] = [table for table in self.levels[level] if table.number != number]
        for level, table in edit.new:
            self.levels[level].append(table)
        for level, tables in enumerate(self.levels):
            tables.sort(key=(lambda one: one.smallest) if level else (lambda one: one.number))

    def whole(self) -> VersionEdit:
        """The edit that makes it of nothing."""
        tables = [(level, table) for level, tables in enumerate(self.levels) for table in tables]
        return VersionEdit(pointers=sorted(self.pointers.items()), new=tables)

    def tables_with(self, key: bytes) -> Iterable[TableFile]:
        """The tables that may have a key, the newest versions first."""
        for level, tables in enumerate(self.levels):
            found = [table for table in tables if table.overlaps(key, key)]
            yield from reversed(found) if level == 0 else found

    def overlapping(self, level: int, first: bytes, last: bytes) -> list[TableFile]:
        """The tables of a level that may have keys of a range; on level 0 with those that these overlap."""
        found = [table for table in self.levels[level] if table.overlaps(first, last)]
        if level == 0 and found:
            wider = range_of(found)
            if wider[0] < first or wider[1] > last:
                return self.overlapping(0, min(first, wider[0]), max(last, wider[1]))
        return found

    def level_for(self, first: bytes, last: bytes) -> int:
        """The level that a memtable's table of this range goes to (``PickLevelForMemTableOutput``)."""
        level = 0
        if self.overlapping(0, first, last):
            return 0
        while level < HIGHEST_FOR_MEMTABLE and not self.overlapping(level + 1, first, last):
            below = self.overlapping(level + 2, first, last) if level + 2 < LEVELS else []
            if sum(table.length for table in below) > GRANDPARENTS * self.table_bytes:
                break
            level += 1
        return level

    def due(self) -> Merge | None:
        """The merge that is due most; None if none is (``Finalize``, ``PickCompaction``)."""
        scores = [len(self.levels[0]) / MERGE_AT]
        most = self.level_1_bytes
        for level in range(1, LEVELS - 1):
            scores.append(sum(table.length for table in self.levels[level]) / most)
            most *= 10
        level = max(range(len(scores)), key=lambda one: scores[one])
        if scores[level] < 1:
            return None
        pointer = self.pointers.get(level, b"")
        tables = self.levels[level]
        first = next((table for table in tables if table.largest > pointer), tables[0])
        upper = [first] if level else self.overlapping(0, *range_of([first]))
        return Merge(level, upper, self.overlapping(level + 1, *range_of(upper)))

    def is_lowest(self, level: int, key: bytes) -> bool:
        """Whether no level below has a key: then nobody needs to know that it was removed."""
        return not any(table.overlaps(key, key) for tables in self.levels[level + 1 :] for table in tables)


def range_of(tables: Sequence[TableFile]) -> tuple[bytes, bytes]:
    """The first and the last key that tables have."""
    return min(table.smallest[:-8] for table in tables), max(table.largest[:-8] for table in tables)


def described(number: int, length: int, first: LevelEntry, last: LevelEntry) -> TableFile:
    """A table with these first and last entries."""
    return TableFile(number, length, first.internal_key, last.internal_key)


def newest(entries: Sequence[LevelEntry]) -> list[LevelEntry]:
    """The entries in order, of each key the newest only: nobody reads as of a time before."""
    found: list[LevelEntry] = []
    for entry in sorted(entries, key=lambda one: one.order):
        if not found or found[-1].key != entry.key:
            found.append(entry)
    return found
