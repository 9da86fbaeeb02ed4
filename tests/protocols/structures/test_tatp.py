"""TATP: are its transactions those of four dictionaries, alone and in batches, and where do they go?"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpsim.protocols.parts.tables import CALL_FORWARDING, SPECIAL_FACILITY, SUBSCRIBER, TATP
from rpsim.protocols.structures.bpt import Bpt
from rpsim.protocols.structures.structure import Operation
from rpsim.protocols.structures.tatp import TABLE_BIT, TABLES, Tatp, row_key
from rpsim.scenarios.transactions import BENCHMARKS

from .memory import run
from .shapes import Tree

CUSTOMERS = 3
Rows = dict[int, bytes]


def drawn(seed: int, count: int, tree: Tree) -> list[Operation]:
    """Transactions of the write mix, as a client asks for them."""
    random = np.random.default_rng(seed)
    transactions = BENCHMARKS["tatp"].transactions
    names = [name for name, one in transactions.items() if one.writes]
    found = []
    for turn in range(count):
        steps = []
        for kind, name in transactions[names[int(random.integers(len(names)))]].steps(
            [int(random.integers(CUSTOMERS))], random
        ):
            value = tree.value(turn + 2) if kind == "w" else None
            number = int(str(name).removeprefix("k"))
            steps.append(Operation("r" if kind == "r" else "w", row_key(number), value))
        found.append(Operation("txn", steps=tuple(steps)))
    return found


def loaded(size: int, by_field: bool = False) -> tuple[Tree, Rows]:
    """The tables as the benchmark fills them, and the same in a dictionary."""
    tree = Tree(Tatp, size, by_field)
    numbers = [number for customer in range(CUSTOMERS) for number in TATP.there(customer)]
    rows = {row_key(number): tree.value(1) for number in numbers}
    tree.load(rows)
    return tree, rows


def expected(rows: Rows, asked: Operation) -> tuple[bytes | None, ...]:
    """What a transaction reads from dictionaries, before it writes into them."""
    results = tuple(rows.get(step.key) if step.f == "r" else None for step in asked.steps)
    for step in asked.steps:
        if step.f == "w" and step.value is None:
            rows.pop(step.key, None)
        elif step.f == "w":
            rows[step.key] = step.value
    return results


def stored(tree: Tree) -> Rows:
    """All rows, by a transaction for each that may be there."""
    rows = {}
    for number in range(CUSTOMERS * TATP.each):
        key = row_key(number)
        (value,) = run(tree.algorithm().perform(Operation("txn", steps=(Operation("r", key),))))
        if value is not None:
            rows[key] = value
    return rows


@given(seed=st.integers(0, 1 << 32), size=st.sampled_from([8, 24]), by_field=st.booleans())
def test_transactions_are_those_of_dictionaries(seed: int, size: int, by_field: bool) -> None:
    tree, rows = loaded(size, by_field)
    for asked in drawn(seed, 12, tree):
        assert run(tree.algorithm().perform(asked)) == expected(rows, asked)
    assert stored(tree) == rows


@given(seed=st.integers(0, 1 << 32), size=st.sampled_from([8, 24]))
def test_a_batch_is_its_transactions_one_by_one(seed: int, size: int) -> None:
    tree, rows = loaded(size)
    asked = drawn(seed, 12, tree)
    for batch in (asked[:7], asked[7:]):
        assert run(tree.algorithm().perform_all(batch)) == [expected(rows, one) for one in batch]
    assert stored(tree) == rows


def test_a_batch_reads_the_nodes_of_each_table_once() -> None:
    tree, _ = loaded(8)
    asked = drawn(1, 60, tree)
    tree.memory.forget()
    run(tree.algorithm().perform_all(asked))
    assert len(set(tree.memory.reads)) == len(tree.memory.reads)


def walk(tree: Tree, keys: list[int]) -> int:
    """How many reads finds of these keys take, each alone."""
    tree.memory.forget()
    for key in keys:
        run(Bpt(tree.memory, tree.root + 8 * (key >> TABLE_BIT), 8).perform(Operation("find", key)))
    return len(tree.memory.reads)


@pytest.mark.parametrize("tables", [(SUBSCRIBER,), (SUBSCRIBER, SPECIAL_FACILITY)])
def test_a_row_that_is_read_and_written_costs_one_walk(tables: tuple[str, ...]) -> None:
    """UPDATE_LOCATION is one walk, UPDATE_SUBSCRIBER_DATA are two."""
    tree, rows = loaded(8, by_field=True)
    keys = [next(key for key in rows if key >> TABLE_BIT == TABLES[table]) for table in tables]
    finds = walk(tree, keys)
    steps = [*(Operation("r", key) for key in keys), *(Operation("w", key, tree.value(9)) for key in keys)]
    tree.memory.forget()
    assert run(tree.algorithm().perform(Operation("txn", steps=tuple(steps))))[: len(keys)] == (tree.value(1),) * len(
        keys
    )
    assert len(tree.memory.reads) == finds
    assert [data for _, data in tree.memory.writes] == [tree.value(9)] * len(keys)


def test_rows_have_keys_of_their_own_and_tables_of_their_own() -> None:
    numbers = range(CUSTOMERS * TATP.each)
    keys = [row_key(number) for number in numbers]
    assert len(set(keys)) == len(keys) and all(0 < key < 1 << 64 for key in keys)
    assert [TATP.tables[key >> TABLE_BIT].name for key in keys] == [TATP.row(number).table for number in numbers]
    forwardings = [key for number, key in enumerate(keys) if TATP.row(number).table == CALL_FORWARDING]
    assert forwardings == sorted(forwardings) and len(forwardings) == 12 * CUSTOMERS
