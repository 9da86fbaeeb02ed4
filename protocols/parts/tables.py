"""The tables of transaction benchmarks: which object of a run is which row, and what a row holds before time zero.

A run's objects are ``k0``, ``k1``, ...; those of one customer follow each other. Stores place rows by these tables, and
the workload of kind ``transactions`` draws from them.

Sources: SmallBank: Alomari et al., "The Cost of Serializability on Platforms That Use Snapshot Isolation", ICDE 2008,
section II, with the procedures and amounts of H-Store's version. TATP: "Telecom Application Transaction Processing
Benchmark", description of March 2009, section 3 (tables).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from typing_extensions import override

from ...sim.permutation import mixed


class Row(NamedTuple):
    """A row: its table, and its key there."""

    table: str
    key: int


class Table(NamedTuple):
    """A table with so many rows for each customer at most."""

    name: str
    rows: int


class BenchmarkTables:
    """Several tables: of each customer all rows, table by table, then those of the next customer."""

    def __init__(self, name: str, tables: Sequence[Table]) -> None:
        self.name = name
        self.tables = tuple(tables)
        self.each = sum(table.rows for table in tables)
        """How many objects a customer has."""

    def row(self, number: int) -> Row:
        """The row that the object of a number is."""
        customer, place = divmod(number, self.each)
        for table in self.tables:
            if place < table.rows:
                return Row(table.name, customer * table.rows + place)
            place -= table.rows
        raise AssertionError

    def number(self, customer: int, name: str, turn: int = 0) -> int:
        """The object that is a customer's row in a table, the first or one further on. KeyError for no such table."""
        before = customer * self.each
        for table in self.tables:
            if table.name == name:
                return before + turn
            before += table.rows
        raise KeyError(name)

    def there(self, customer: int) -> Iterator[int]:
        """The objects of a customer that are there before time zero, in order."""
        yield from range(customer * self.each, (customer + 1) * self.each)


class _Tatp(BenchmarkTables):
    """One to four rows of access info and of special facilities, none to three call forwardings for each of these."""

    @override
    def there(self, customer: int) -> Iterator[int]:
        """As often as the description has it, section 3.2: each number as likely as any other."""
        draw = mixed(customer)
        yield self.number(customer, SUBSCRIBER)
        infos, draw = _chosen(draw, FACILITIES, at_least=1)
        yield from (self.number(customer, ACCESS_INFO, one) for one in infos)
        facilities, draw = _chosen(draw, FACILITIES, at_least=1)
        yield from (self.number(customer, SPECIAL_FACILITY, one) for one in facilities)
        for facility in facilities:
            times, draw = _chosen(draw, STARTS, at_least=0)
            yield from (self.number(customer, CALL_FORWARDING, facility * STARTS + one) for one in times)


SAVINGS, CHECKING = "savings", "checking"
SMALLBANK = BenchmarkTables("smallbank", [Table(SAVINGS, 1), Table(CHECKING, 1)])

SUBSCRIBER, ACCESS_INFO, SPECIAL_FACILITY, CALL_FORWARDING = (
    "subscriber", "access-info", "special-facility", "call-forwarding",
)  # fmt: skip
FACILITIES = 4
"""The types of access info, and of special facilities."""
STARTS = 3
"""The hours at which a forwarding may start: 0, 8, 16."""
TATP = _Tatp(
    "tatp",
    [
        Table(SUBSCRIBER, 1),
        Table(ACCESS_INFO, FACILITIES),
        Table(SPECIAL_FACILITY, FACILITIES),
        Table(CALL_FORWARDING, FACILITIES * STARTS),
    ],
)

TABLES = {one.name: one for one in (SMALLBANK, TATP)}
"""By the benchmark's name."""


def _chosen(draw: int, of: int, at_least: int) -> tuple[list[int], int]:
    """Some of ``of`` numbers, how many and which by ``draw``; and the next draw."""
    count, draw = at_least + draw % (of + 1 - at_least), mixed(draw)
    left, found = list(range(of)), []
    for _ in range(count):
        found.append(left.pop(draw % len(left)))
        draw = mixed(draw)
    return sorted(found), draw
