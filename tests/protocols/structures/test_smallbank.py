"""Does SmallBank's structure do what a dictionary of balances does, by reads together and writes together?"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpsim.protocols.guarantees import Condition
from rpsim.protocols.objects import OPENING
from rpsim.protocols.parts.tables import SMALLBANK
from rpsim.protocols.structures.smallbank import Smallbank, row_key
from rpsim.protocols.structures.structure import Operation
from rpsim.scenarios.transactions import BENCHMARKS
from rpsim.validation.crash.explorer import Explorer

from ... import small
from .memory import Memory, run

VALUE_BYTES = 12
TRANSACTIONS = BENCHMARKS["smallbank"].transactions
DEPOSITED = {"balance": 0, "deposit-checking": 130, "transact-savings": 2020, "amalgamate": 0, "write-check": -500,
             "send-payment": 0}  # fmt: skip
"""What each transaction adds to the bank's money, in cents."""
ROWS = {"deposit-checking": (1, 1), "transact-savings": (1, 1), "amalgamate": (3, 3), "write-check": (2, 1),
        "send-payment": (2, 2)}  # fmt: skip
"""How many rows each reads, and writes."""


def value(number: int, length: int = VALUE_BYTES) -> bytes:
    return (number + 1).to_bytes(length, "big")


def bank(objects, length: int = VALUE_BYTES) -> tuple[Memory, int]:
    """A memory with the rows of these objects."""
    memory = Memory()
    root = memory.root(Smallbank.root_bytes)
    Smallbank.load(memory.image, root, {row_key(one): value(one, length) for one in objects}, length)
    return memory, root


def perform(memory: Memory, root: int, operation: Operation, length: int = VALUE_BYTES):
    """A transaction by an algorithm of its own: it can keep nothing but bytes."""
    return run(Smallbank(memory, root, length).perform(operation))


def transaction(name: str, customers, stamp: int) -> Operation:
    """A transaction of the benchmark as the algorithm gets it."""
    steps = []
    for kind, name_of_object, *number in TRANSACTIONS[name].steps(customers, np.random.default_rng(1)):
        key = row_key(int(name_of_object[1:]))
        written = None if kind == "r" else value(stamp)
        steps.append(Operation("w" if kind == "add" else kind, key, written, (), number[0] if number else None))
    return Operation("txn", steps=tuple(steps))


def money(memory: Memory, root: int, customers) -> int:
    """All that is in the bank."""
    steps = tuple(Operation("r", row_key(2 * customer + table)) for customer in customers for table in range(2))
    return sum(entry[1] for entry in perform(memory, root, Operation("txn", steps=steps)) if entry is not None)


OBJECTS = st.one_of(st.integers(0, 19), st.integers(0, 2**33 - 8))
STEP = st.tuples(st.sampled_from(["r", "w", "in", "out", "delete"]), OBJECTS, st.integers(-(10**6), 10**6))


@pytest.mark.long
@settings(max_examples=60)
@given(
    loaded=st.lists(OBJECTS, max_size=14, unique=True),
    work=st.lists(st.lists(STEP, min_size=1, max_size=5), max_size=12),
    length=st.integers(5, 70),
)
def test_any_transactions_are_as_in_a_dictionary(loaded, work, length):
    """Rows of any customers, those that share a bucket, new ones and deleted ones among them."""
    memory, root = bank(loaded, length)
    held = {one: (value(one, length), OPENING) for one in loaded}
    for turn, steps in enumerate(work):
        asked, expected, taken = [], [], 0
        for kind, one, number in steps:
            written = None if kind in ("r", "delete") else value(turn, length)
            asked.append(Operation("w" if kind == "delete" else kind, row_key(one), written, (), number))
            expected.append(held.get(one) if kind == "r" else None)
            balance = held.get(one, (b"", 0))[1]
            if kind == "delete":
                held.pop(one, None)
            elif kind == "w":
                held[one] = (written, balance + number)
            elif kind == "in":
                held[one] = (written, balance + taken)
            elif kind == "out":
                taken, held[one] = taken + balance, (written, 0)
        assert perform(memory, root, Operation("txn", steps=tuple(asked)), length) == tuple(expected)
    every = sorted({*loaded, *(one for steps in work for _, one, _ in steps)})
    steps = tuple(Operation("r", row_key(one)) for one in every)
    assert perform(memory, root, Operation("txn", steps=steps), length) == tuple(held.get(one) for one in every)


@given(
    st.lists(
        st.tuples(st.sampled_from(sorted(TRANSACTIONS)), st.permutations(range(6)).map(lambda order: order[:2])),
        max_size=30,
    )
)
@settings(max_examples=40)
def test_money_comes_by_deposits_and_goes_by_checks(work):
    memory, root = bank(range(12))
    expected = 12 * OPENING
    for turn, (name, customers) in enumerate(work):
        perform(memory, root, transaction(name, customers, turn))
        expected += DEPOSITED[name]
        assert money(memory, root, range(6)) == expected


@pytest.mark.parametrize("name", sorted(ROWS))
def test_rows_are_read_together_and_each_is_one_write(name):
    memory, root = bank(range(200))
    memory.forget()
    perform(memory, root, transaction(name, (7, 40), 1))
    assert (len(memory.reads), len(memory.writes)) == ROWS[name]
    assert memory.rounds == 1
    assert {len(data) for _, data in memory.writes} == {16 + VALUE_BYTES}
    assert all(first // 64 == (first + length - 1) // 64 for first, length in memory.reads), "a row is in one line"


def test_the_average_is_that_of_the_five_that_write():
    """rNVM's SmallBank: 1.8 rows read and 1.6 written."""
    assert [sum(each) / len(ROWS) for each in zip(*ROWS.values(), strict=True)] == [1.8, 1.6]


def test_without_a_log_a_crash_splits_a_payment():
    memory, root = bank(range(8))
    before = memory.copy()
    memory.forget()
    perform(memory, root, transaction("send-payment", (0, 3), 1))
    assert [money(state, root, range(4)) - 8 * OPENING for state in memory.prefixes(before)] == [0, -500, 0]


def test_a_row_that_is_new_in_a_used_bucket_is_there_or_not_after_any_write():
    loaded = [SMALLBANK.number(customer, "savings") for customer in range(3)]
    memory, root = bank(loaded)
    before = memory.copy()
    memory.forget()
    new = SMALLBANK.number(4, "savings")  # of three buckets it is in that of customer 1
    perform(memory, root, Operation("txn", steps=(Operation("w", row_key(new), value(9), (), 5),)))
    assert len(memory.writes) == 2 and len(memory.published) == 1
    for state in memory.prefixes(before):
        found = perform(state, root, Operation("txn", steps=tuple(Operation("r", row_key(o)) for o in [*loaded, new])))
        assert found[:-1] == tuple((value(one), OPENING) for one in loaded)
        assert found[-1] in (None, (value(9), 5))


@pytest.mark.long
def test_150000_customers_are_loaded_without_a_write():
    memory, root = bank(range(300_000), 8)
    assert len(memory.lines) < 20
    assert money_of(memory, root, 149_999) == 2 * OPENING


def money_of(memory, root, customer):
    steps = tuple(Operation("r", row_key(2 * customer + table)) for table in range(2))
    return sum(entry[1] for entry in perform(memory, root, Operation("txn", steps=steps), 8))


def txn(*steps):
    return {"process": 0, "f": "txn", "steps": [list(step) for step in steps]}


PAYMENT = txn(("r", "k1"), ("r", "k3"), ("add", "k1", -500), ("add", "k3", 500))
ALL_OF_IT = txn(("r", "k0"), ("r", "k1"), ("out", "k0"), ("out", "k1"), ("in", "k3"))


@pytest.mark.parametrize(("mode", "refuted"), [("naive", True), ("rnvm-r", False)])
def test_every_crash_point_of_two_transactions_on_a_mode(mode, refuted):
    """In place half of a transaction may be there, even where all that is visible lasts; a log has it whole."""
    vary = {"platform": ["any-server"], "ddio": ["on"], "domain": ["wsp"]}
    result = small.run(f"smallbank on {mode}", [PAYMENT, ALL_OF_IT], keys=4, vary=vary)
    assert [step[2] for step in result.history.operations[1].result[:2]] == [(0, OPENING), (1, OPENING - 500)]
    judged = {Condition.COMMITTED, Condition.NO_LOST_ACK, Condition.DURABLE}
    found = Explorer(result, conditions=judged).walk()
    assert found.exhaustive
    assert (Condition.DURABLE in found.first) is refuted
