"""SmallBank on rNVM: two hash tables, savings and checking, and transactions on rows of both.

Source: rNVM, section 10.2, which says no more than its name and that its time is O(1); Alomari et al., "The Cost of
Serializability on Platforms That Use Snapshot Isolation", ICDE 2008, section II. What the transactions are is the
workload's business (:mod:`rpsim.scenarios.transactions`); here they are steps on rows. The paper gives no layout. Read
here: customers are numbered, so a row's bucket is its customer's number modulo the number of buckets, and has the row
in it; only where two rows fall into one bucket, a chain goes on behind it. So a transaction reads its rows together, as
a rule by one read each, and then writes them together, each by one write: its balance and its value.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from typing_extensions import override

from ...sim.bytespace import LINE_BYTES, round_up
from ..layout import U32, U64, WORD, Layout, Rest
from ..objects import OPENING
from ..parts.tables import SMALLBANK
from .records import padded, show, values_as_words, words_of
from .source import RNVM
from .space import Image, Space
from .structure import Algorithm, Operation, Structure

Code = Generator[Any, Any, Any]

TABLE_BIT = 60
"""Where the number of its table begins in a row's key."""
NUMBERS = {table.name: number for number, table in enumerate(SMALLBANK.tables)}
SPREAD = 16
"""Buckets for each loaded row at most, where few of many customers are loaded (assumed)."""


def row_key(number: int) -> int:
    """The key of the row that an object is: its table, and the customer."""
    row = SMALLBANK.row(number)
    return NUMBERS[row.table] << TABLE_BIT | row.key


class AccountTables(Layout):
    """The root: of each table where its buckets are, and how many."""

    savings = U64()
    savings_buckets = U64()
    checking = U64()
    checking_buckets = U64()


class AccountRow(Layout):
    """A row, which is a bucket or follows one. What a transaction writes is what stands behind ``next``."""

    next = U64()
    customer = U32()
    """Its number, from 1; 0 in a bucket that was never used."""
    there = U32()
    """Whether there is such a row; 0 once it has been deleted."""
    balance = U64()
    """In cents, as a two's complement."""
    value = Rest()


WRITTEN = AccountRow.offset_of("customer")
"""Where that begins which a transaction writes."""


class RowPlace(NamedTuple):
    """Where a row is."""

    address: int
    row: AccountRow


class AccountEntry(NamedTuple):
    """What a row holds."""

    value: bytes
    balance: int


def row_bytes(value_bytes: int) -> int:
    """The length of a row with the gap behind it: below a line a power of two, so that no row lies in two lines."""
    length = AccountRow.size + value_bytes
    return round_up(length) if length > LINE_BYTES else 1 << (length - 1).bit_length()


def packed(customer: int, entry: AccountEntry | None, value_bytes: int) -> bytes:
    """What a transaction writes of a row; None: it is deleted."""
    value, balance = entry or AccountEntry(bytes(value_bytes), 0)
    unsigned = balance & (1 << 64) - 1
    row = AccountRow.pack(next=0, customer=customer + 1, there=int(entry is not None), balance=unsigned, value=value)
    return row[WRITTEN:]


class Smallbank(Algorithm):
    """``txn``; see the module. Its steps take effect in their order: see :data:`rpsim.protocols.objects.OPENING`."""

    root_bytes: ClassVar[int] = AccountTables.size

    def __init__(self, space: Space, root: int, value_bytes: int) -> None:
        super().__init__(space, root, value_bytes)
        self.row_bytes = row_bytes(value_bytes)

    @override
    def perform(self, operation: Operation) -> Code:
        tables = AccountTables.unpack((yield from self.space.read_held(self.root, AccountTables.size)))
        keys = list(dict.fromkeys(step.key for step in operation.steps))
        places = yield from self._find(tables, keys)
        held = {key: None if place is None else self._entry(place.row) for key, place in places.items()}
        results, changed = applied(operation.steps, held)
        writes, new = [], []
        for key in changed:
            place = places[key]
            if place is None:
                new.append(key)
            else:
                customer = place.row.customer - 1
                writes.append((place.address + WRITTEN, packed(customer, held[key], self.value_bytes)))
        if writes:
            yield from self.space.write_all(writes)
        for key in new:
            entry = held[key]
            if entry is not None:
                yield from self._insert(tables, key, entry)
        return results

    def _entry(self, row: AccountRow) -> AccountEntry | None:
        """What a row holds; None for one that is not there."""
        if not row.there:
            return None
        return AccountEntry(row.value[: self.value_bytes], row.balance - (row.balance >> 63 << 64))

    def _bucket(self, tables: AccountTables, key: int) -> int:
        """The address of a row's bucket."""
        table, customer = key >> TABLE_BIT, key & (1 << TABLE_BIT) - 1
        start, buckets = (
            (tables.checking, tables.checking_buckets) if table else (tables.savings, tables.savings_buckets)
        )
        return int(start + customer % buckets * self.row_bytes)

    def _find(self, tables: AccountTables, keys: Sequence[int]) -> Code:
        """The place of each row, None for one that was never there; those of all chains are read together."""
        places: dict[int, RowPlace | None] = dict.fromkeys(keys)
        pending = {key: self._bucket(tables, key) for key in keys}
        while pending:
            length = AccountRow.size + self.value_bytes
            found = yield from self.space.read_all([(address, length) for address in pending.values()])
            rows = {key: AccountRow.unpack(data) for key, data in zip(pending, found, strict=True)}
            for key, row in rows.items():
                address = pending.pop(key)
                if row.customer == (key & (1 << TABLE_BIT) - 1) + 1:
                    places[key] = RowPlace(address, row)
                elif row.next:
                    pending[key] = row.next
        return places

    def _insert(self, tables: AccountTables, key: int, entry: AccountEntry) -> Code:
        """A row that was never there: into its bucket, or in front of what is behind that."""
        bucket = self._bucket(tables, key)
        first = AccountRow.unpack((yield from self.space.read(bucket, AccountRow.size + self.value_bytes)))
        data = packed(key & (1 << TABLE_BIT) - 1, entry, self.value_bytes)
        if first.customer == 0:
            yield from self.space.write(bucket + WRITTEN, data)
            return
        address = yield from self.space.allocate(self.row_bytes)
        yield from self.space.write(address, first.next.to_bytes(WORD, "little") + data)
        yield from self.space.publish(bucket, address.to_bytes(WORD, "little"))

    @override
    @classmethod
    def load(cls, image: Image, root: int, entries: Mapping[int, bytes], value_bytes: int) -> None:
        words: list[int] = []
        for number in range(len(NUMBERS)):
            mine = {key & (1 << TABLE_BIT) - 1: value for key, value in entries.items() if key >> TABLE_BIT == number}
            words += _loaded(image, mine, value_bytes)
        image.put(root, b"".join([word.to_bytes(WORD, "little") for word in words]))


def applied(
    steps: Iterable[Operation], held: dict[int, AccountEntry | None]
) -> tuple[tuple[AccountEntry | None, ...], list[int]]:
    """What each step returns, and the keys of the rows that are written; ``held``, the rows, is changed."""
    results: list[AccountEntry | None] = []
    changed: dict[int, None] = {}
    taken = 0
    for step in steps:
        before = held[step.key]
        if step.f == "r":
            results.append(before)
            continue
        results.append(None)
        changed[step.key] = None
        if step.value is None:
            held[step.key] = None
            continue
        balance = 0 if before is None else before.balance
        if step.f == "out":
            taken, balance = taken + balance, 0
        elif step.f == "in":
            balance += taken
        else:
            balance += step.number or 0
        held[step.key] = AccountEntry(step.value, balance)
    return tuple(results), list(changed)


def _loaded(image: Image, rows: Mapping[int, bytes], value_bytes: int) -> tuple[int, int]:
    """A table with these rows, each with the opening balance: its address, and the number of its buckets."""
    each = row_bytes(value_bytes) // WORD
    count = len(rows)
    buckets = max(1, min(max(rows, default=0) + 1, SPREAD * count))
    address = image.allocate(round_up(buckets * each * WORD))
    customers = np.fromiter(rows, np.int64, count)
    places, first = np.unique(customers % buckets, return_index=True)
    words = np.zeros((buckets, each), np.uint64)
    values = values_as_words(rows.values(), value_bytes)
    words[places, 1] = (customers[first] + 1).astype(np.uint64) | np.uint64(1 << 32)
    words[places, 2] = OPENING
    words[places, 3 : 3 + words_of(value_bytes)] = values[first]
    others = np.ones(count, bool)
    others[first] = False
    for turn in np.flatnonzero(others).tolist():
        customer = int(customers[turn])
        bucket = customer % buckets
        block = image.allocate(each * WORD)
        entry = AccountEntry(values[turn].tobytes()[:value_bytes], OPENING)
        following = int(words[bucket, 0]).to_bytes(WORD, "little")
        image.put(block, padded(following + packed(customer, entry, value_bytes)))
        words[bucket, 0] = block
    show(image, address, words)
    return address, buckets


class SmallbankStructure(Structure, name="smallbank"):
    """Objects are rows (:mod:`..parts.tables`). Without batches, as the hash table: the paper has none in table 3."""

    title = "SmallBank, tables as hash tables"
    paper = RNVM
    section = "section 10.2"
    model = "accounts"
    operations = ("txn",)
    updates = frozenset({"txn"})
    inserts = "txn"
    batched = False
    algorithm = Smallbank

    @override
    def key(self, number: int) -> int:
        return row_key(number)
