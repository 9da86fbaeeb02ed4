"""TATP on rNVM: four tables, each a B+tree, and the transactions that write.

Source: Ma et al., rNVM, 2018, section 10.2, which says neither tables nor mix; "Telecom Application Transaction
Processing Benchmark", description of March 2009. Its four transactions that write are 14, 2, 2 and 2 percent of all
there (UPDATE_LOCATION, UPDATE_SUBSCRIBER_DATA, INSERT_ and DELETE_CALL_FORWARDING): 70, 10, 10 and 10 of writes alone.
"""

from __future__ import annotations

from array import array
from collections.abc import Generator, Mapping, Sequence
from typing import Any, ClassVar

from typing_extensions import override

from ..guarantees import Claims
from ..layout import WORD
from ..parts.tables import TATP
from .bpt import Bpt
from .space import Image, Space
from .structure import Algorithm, Operation, Structure
from .vectors import FINDS

Code = Generator[Any, Any, Any]

TABLE_BIT = 60
"""Where the number of its table begins in a row's key."""
TABLES = {table.name: number for number, table in enumerate(TATP.tables)}


def row_key(number: int) -> int:
    """The key of the row that the object of this number is: its table, and the row's own number there, from 1."""
    row = TATP.row(number)
    return TABLES[row.table] << TABLE_BIT | row.key + 1


class Tatp(Algorithm):
    """A transaction reads its rows before it writes; a ``w`` without a value deletes the row.

    A row that a transaction reads and writes costs one walk of its table's tree. A batch is one vector for each table.
    """

    root_bytes = WORD * len(TABLES)

    def __init__(self, space: Space, root: int, value_bytes: int) -> None:
        super().__init__(space, root, value_bytes)
        self.trees = [Bpt(space, root + WORD * number, value_bytes) for number in range(len(TABLES))]

    @override
    def perform(self, operation: Operation) -> Code:
        results: list[bytes | None] = [None] * len(operation.steps)
        rows: dict[int, list[int]] = {}
        for place in _in_order(operation):
            rows.setdefault(operation.steps[place].key, []).append(place)
        for key, places in rows.items():
            steps = [operation.steps[place] for place in places]
            found = yield from self.trees[key >> TABLE_BIT].perform_all(steps)
            for place, value in zip(places, found, strict=True):
                results[place] = value
        return tuple(results)

    @override
    def perform_all(self, operations: Sequence[Operation]) -> Code:
        results: list[list[bytes | None]] = [[None] * len(one.steps) for one in operations]
        places: list[list[tuple[int, int]]] = [[] for _ in TABLES]
        for number, operation in enumerate(operations):
            for place in _in_order(operation):
                places[operation.steps[place].key >> TABLE_BIT].append((number, place))
        for tree, mine in zip(self.trees, places, strict=True):
            if mine:
                found = yield from tree.perform_all([operations[number].steps[place] for number, place in mine])
                for (number, place), value in zip(mine, found, strict=True):
                    results[number][place] = value
        return [tuple(one) for one in results]

    @override
    @classmethod
    def load(cls, image: Image, root: int, entries: Mapping[int, bytes], value_bytes: int) -> None:
        keys = [array("Q") for _ in TABLES]
        for key in entries:
            keys[key >> TABLE_BIT].append(key)
        for number, mine in enumerate(keys):
            Bpt.load(image, root + WORD * number, {key: entries[key] for key in mine}, value_bytes)


def _in_order(operation: Operation) -> list[int]:
    """The places of a transaction's steps: those that read, then those that write."""
    return sorted(range(len(operation.steps)), key=lambda place: operation.steps[place].f not in FINDS)


class TatpStructure(Structure, name="tatp"):
    """Objects are rows (:mod:`..parts.tables`); every row has the size of a value.

    The tables are filled as the benchmark's population does, subscriber by subscriber.
    """

    title = "TATP, tables as B+trees"
    paper = "Ma et al., An Efficient Framework for Implementing Persistent Data Structures on Remote NVM, 2018"
    section = "section 10.2"
    model = "txn"
    operations = ("txn",)
    updates = frozenset({"txn"})
    inserts = "txn"
    claims: ClassVar[Claims] = {}
    algorithm = Tatp

    @override
    def key(self, number: int) -> int:
        return row_key(number)
