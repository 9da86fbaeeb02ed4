"""SmallBank and TATP: their transactions as steps on objects, and how often each is drawn.

Sources: SmallBank: Alomari et al., "The Cost of Serializability on Platforms That Use Snapshot Isolation", ICDE 2008,
section II; SendPayment, amounts and the shares with reads are H-Store's version's. TATP: "Telecom Application
Transaction Processing Benchmark", description of March 2009, sections 3.3 and 3.4.

Deliberate differences. Every transaction of SmallBank commits: an overdraft is neither refused nor charged, so what
each adds to the bank's money is known without its place in the order. TATP's insert of a call forwarding that is there
already replaces it (the standard counts it as failed), and a transaction that needs a special facility which a
subscriber has not got ends behind its reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..protocols.parts.tables import (
    ACCESS_INFO,
    CALL_FORWARDING,
    CHECKING,
    FACILITIES,
    SAVINGS,
    SMALLBANK,
    SPECIAL_FACILITY,
    STARTS,
    SUBSCRIBER,
    TATP,
    BenchmarkTables,
)  # fmt: skip

Step = tuple[Any, ...]
"""(kind, object), behind which ``add`` has a number: see :data:`STEPS`."""
STEPS = ("r", "w", "append", "add", "out", "in", "delete")
"""The kinds of a transaction's steps as they are planned: Jepsen's; writes that add to the object's number, take all of
it out, or put in what the transaction has taken out; and one after which the object is absent."""
Steps = Callable[[Sequence[int], np.random.Generator], Iterable[Step]]
"""The steps of a transaction on these customers; what else it needs is drawn."""

DEPOSIT, TRANSACT, CHECK, PAYMENT = 130, 2020, 500, 500
"""What the transactions of SmallBank move, in cents: H-Store's SmallBankConstants (1.30, 20.20, 5 and 5 dollars)."""


class TransactionKind(NamedTuple):
    """A transaction of a benchmark."""

    steps: Steps
    customers: int
    """On how many different customers it is."""
    writes: float
    """Its share in the write mix."""
    standard: float
    """Its share in the standard's own mix."""


class Benchmark(NamedTuple):
    """A benchmark: tables and transactions."""

    tables: BenchmarkTables
    transactions: Mapping[str, TransactionKind]

    def shares(self, mix: str) -> dict[str, float]:
        """The share of each transaction in the mix ``writes`` or ``standard``, those that occur."""
        every = {name: getattr(one, mix) for name, one in self.transactions.items()}
        return {name: share for name, share in every.items() if share}


def _object(tables: BenchmarkTables, customer: int, table: str, turn: int = 0) -> str:
    return f"k{tables.number(customer, table, turn)}"


# SmallBank --------------------------------------------------------------------------------------------------------


def _account(customer: int) -> tuple[str, str]:
    """The objects of a customer: savings and checking."""
    return _object(SMALLBANK, customer, SAVINGS), _object(SMALLBANK, customer, CHECKING)


def _balance(customers: Sequence[int], random: np.random.Generator) -> Iterable[Step]:
    savings, checking = _account(customers[0])
    return ("r", savings), ("r", checking)


def _deposit_checking(customers: Sequence[int], random: np.random.Generator) -> Iterable[Step]:
    _, checking = _account(customers[0])
    return ("r", checking), ("add", checking, DEPOSIT)


def _transact_savings(customers: Sequence[int], random: np.random.Generator) -> Iterable[Step]:
    savings, _ = _account(customers[0])
    return ("r", savings), ("add", savings, TRANSACT)


def _amalgamate(customers: Sequence[int], random: np.random.Generator) -> Iterable[Step]:
    """All that the first has goes to the checking account of the second."""
    savings, checking = _account(customers[0])
    _, other = _account(customers[1])
    reads = ("r", savings), ("r", checking), ("r", other)
    return *reads, ("out", savings), ("out", checking), ("in", other)


def _write_check(customers: Sequence[int], random: np.random.Generator) -> Iterable[Step]:
    savings, checking = _account(customers[0])
    return ("r", savings), ("r", checking), ("add", checking, -CHECK)


def _send_payment(customers: Sequence[int], random: np.random.Generator) -> Iterable[Step]:
    _, checking = _account(customers[0])
    _, other = _account(customers[1])
    return ("r", checking), ("r", other), ("add", checking, -PAYMENT), ("add", other, PAYMENT)


# TATP -------------------------------------------------------------------------------------------------------------


def _has(customer: int, table: str, turn: int) -> bool:
    """Whether a row is there before time zero; those of which this is asked neither come nor go."""
    return TATP.number(customer, table, turn) in TATP.there(customer)


def _get_subscriber_data(customers: Sequence[int], random: np.random.Generator) -> Iterable[Step]:
    return [("r", _object(TATP, customers[0], SUBSCRIBER))]


def _get_new_destination(customers: Sequence[int], random: np.random.Generator) -> Iterable[Step]:
    facility, start = int(random.integers(FACILITIES)), int(random.integers(STARTS))
    yield "r", _object(TATP, customers[0], SPECIAL_FACILITY, facility)
    for one in range(start + 1):
        yield "r", _object(TATP, customers[0], CALL_FORWARDING, facility * STARTS + one)


def _get_access_data(customers: Sequence[int], random: np.random.Generator) -> Iterable[Step]:
    return [("r", _object(TATP, customers[0], ACCESS_INFO, int(random.integers(FACILITIES))))]


def _update_subscriber(customers: Sequence[int], random: np.random.Generator) -> Iterable[Step]:
    facility = int(random.integers(FACILITIES))
    rows = [_object(TATP, customers[0], SUBSCRIBER), _object(TATP, customers[0], SPECIAL_FACILITY, facility)]
    yield from (("r", row) for row in rows)
    if _has(customers[0], SPECIAL_FACILITY, facility):
        yield from (("w", row) for row in rows)


def _update_location(customers: Sequence[int], random: np.random.Generator) -> Iterable[Step]:
    subscriber = _object(TATP, customers[0], SUBSCRIBER)
    return ("r", subscriber), ("w", subscriber)


def _insert_call_forwarding(customers: Sequence[int], random: np.random.Generator) -> Iterable[Step]:
    facility, start = int(random.integers(FACILITIES)), int(random.integers(STARTS))
    yield "r", _object(TATP, customers[0], SUBSCRIBER)
    yield "r", _object(TATP, customers[0], SPECIAL_FACILITY, facility)
    if _has(customers[0], SPECIAL_FACILITY, facility):
        yield "w", _object(TATP, customers[0], CALL_FORWARDING, facility * STARTS + start)


def _delete_call_forwarding(customers: Sequence[int], random: np.random.Generator) -> Iterable[Step]:
    place = int(random.integers(FACILITIES)) * STARTS + int(random.integers(STARTS))
    yield "r", _object(TATP, customers[0], SUBSCRIBER)
    yield "delete", _object(TATP, customers[0], CALL_FORWARDING, place)


BENCHMARKS: Mapping[str, Benchmark] = {
    "smallbank": Benchmark(
        SMALLBANK,
        {
            "balance": TransactionKind(_balance, 1, 0, 0.15),
            "deposit-checking": TransactionKind(_deposit_checking, 1, 0.2, 0.15),
            "transact-savings": TransactionKind(_transact_savings, 1, 0.2, 0.15),
            "amalgamate": TransactionKind(_amalgamate, 2, 0.2, 0.15),
            "write-check": TransactionKind(_write_check, 1, 0.2, 0.15),
            "send-payment": TransactionKind(_send_payment, 2, 0.2, 0.25),
        },
    ),
    "tatp": Benchmark(
        TATP,
        {
            "get-subscriber-data": TransactionKind(_get_subscriber_data, 1, 0, 0.35),
            "get-new-destination": TransactionKind(_get_new_destination, 1, 0, 0.10),
            "get-access-data": TransactionKind(_get_access_data, 1, 0, 0.35),
            "update-subscriber-data": TransactionKind(_update_subscriber, 1, 0.1, 0.02),
            "update-location": TransactionKind(_update_location, 1, 0.7, 0.14),
            "insert-call-forwarding": TransactionKind(_insert_call_forwarding, 1, 0.1, 0.02),
            "delete-call-forwarding": TransactionKind(_delete_call_forwarding, 1, 0.1, 0.02),
        },
    ),
}
"""By name. The write mix of TATP is the standard's without its reads; that of SmallBank has equal shares, as in the
five programs of Alomari et al."""
MIXES = ("writes", "standard")
