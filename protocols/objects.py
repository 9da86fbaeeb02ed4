"""The vocabulary of objects: the sequential models by name, and what their operations take and return.

A scheme names the model that its objects follow (``Scheme.model``), a run encodes arguments and decodes results by this
table, and the oracle (``rpsim.validation.oracle.models``) says what each operation does to an object.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from enum import Enum
from typing import NamedTuple

from .guarantees import Condition


class Takes(Enum):
    """What the ``value`` of an invocation, or of its ``ok``, must be."""

    NOTHING = "no value"
    ANY = "anything"
    VALUE = "a value"
    TEXT = "a text"
    ENTRY = "a list of two: [key, value], the key a number or a text"
    RANGE = "a list of two: [from, to], null for an open end"
    PLACE_TEXT = "a list of two: [offset, text]"
    PLACE_LENGTH = "a list of two: [offset, length]"
    SIZE = "a whole number, or nothing"
    BLOCK = "an address, [address, size], or null"
    TXN = 'a list of ["r", key, null], ["w", key, value] and ["append", key, value]'
    POSTING = 'a list of ["look", key, null], ["add", key, [value, number]], ["out", key, value], ["in", key, value]'
    NUMBER = "a whole number"
    PAIR = "a list of two: [expected, new]"
    LIST = "a list of values"
    ITEM = "a value, not null"
    TRUTH = "true or false"
    SUCCESS = "true, false, or the invocation's value again (it succeeded)"
    SAME = "nothing, or the invocation's value again"


class Signature(NamedTuple):
    """What an operation takes and what it returns."""

    argument: Takes
    result: Takes


WRITES = ("write", "put", "create", "insert", "send")
READS = ("read", "get", "find")
REMOVES = ("delete",)
"""Of the entry of a map: afterwards it is absent, as it was at first."""
PUTS = ("enqueue", "push")
"""Into a queue or a stack, whose other operation takes an item out, or finds nothing."""
TAKES_OUT = ("dequeue", "pop", "alloc")
"""Out of a container; what is empty gives nothing."""
SYNCS = ("sync", "fsync", "flush")
"""Of every model: what returned before one was invoked is durable once it has returned (see ``scope``)."""
FENCES = ("ofence",)
"""Operations of every model that order a client's posts; the conditions ignore them."""

TRANSACTION = "txn"
TRANSACTIONAL = ("txn", "accounts")
"""The models whose operations are transactions: steps on several objects that take effect together."""
LOOKS = ("r", "look")
"""The steps of a transaction that read: the value of an object, or that and its number."""

_VERBS = (("put", "get"), ("insert", "find"), ("write", "read"), ("enqueue", "dequeue"), ("push", "pop"))


def verbs(operations: Collection[str]) -> tuple[str, str] | None:
    """The operations that stand for an update and for a read where a workload knows of nothing else; None: none do.

    Of a queue or a stack they are putting in and taking out; of transactions both are one of a single step.
    """
    if TRANSACTION in operations:
        return TRANSACTION, TRANSACTION
    return next((pair for pair in _VERBS if set(pair) <= set(operations)), None)


def owner(number: int, own: int, processes: int) -> int:
    """The process that an object belongs to where ``own`` objects in turn are each one's."""
    return number // own % processes


_READ = Signature(Takes.NOTHING, Takes.VALUE)
_WRITE = Signature(Takes.VALUE, Takes.SAME)
_REMOVE = Signature(Takes.NOTHING, Takes.SAME)
_PUT_IN = Signature(Takes.ITEM, Takes.SAME)
_READ_LIST = Signature(Takes.NOTHING, Takes.LIST)
_REGISTER = {f: _READ for f in READS} | {f: _WRITE for f in WRITES if f not in ("insert", "send")}

OPERATIONS: Mapping[str, Mapping[str, Signature]] = {
    "register": _REGISTER,
    "kv": _REGISTER | {"insert": _WRITE, "delete": _REMOVE},
    "cas-register": _REGISTER
    | {
        "cas": Signature(Takes.PAIR, Takes.SUCCESS),
        "fetch_add": Signature(Takes.NUMBER, Takes.NUMBER),
        "put_if_absent": Signature(Takes.VALUE, Takes.SUCCESS),
    },
    "append": {"append": _WRITE, "read": _READ_LIST},
    "log": {"append": _WRITE, "read_all": _READ_LIST},
    "set": {"add": _WRITE, "remove": _WRITE, "contains": Signature(Takes.VALUE, Takes.TRUTH), "read": _READ_LIST},
    "queue": {"enqueue": _PUT_IN, "dequeue": _READ},
    "stack": {"push": _PUT_IN, "pop": _READ},
    "words": _REGISTER | {"send": _WRITE},
    "ordered-map": {
        "insert": Signature(Takes.ENTRY, Takes.SAME),
        "delete": _WRITE,
        "find": Signature(Takes.VALUE, Takes.VALUE),
        "scan": Signature(Takes.RANGE, Takes.LIST),
    },
    "txn": {"txn": Signature(Takes.TXN, Takes.TXN)},
    "accounts": {"txn": Signature(Takes.POSTING, Takes.POSTING)},
    "allocator": {"alloc": Signature(Takes.SIZE, Takes.BLOCK), "free": Signature(Takes.NUMBER, Takes.SAME)},
    "file": {
        "write": Signature(Takes.PLACE_TEXT, Takes.SAME),
        "append": Signature(Takes.TEXT, Takes.SAME),
        "read": Signature(Takes.PLACE_LENGTH, Takes.TEXT),
        "truncate": Signature(Takes.NUMBER, Takes.SAME),
        "size": Signature(Takes.NOTHING, Takes.NUMBER),
    },
    "counter": {"fetch_add": Signature(Takes.NUMBER, Takes.NUMBER), "read": Signature(Takes.NOTHING, Takes.NUMBER)},
    "kv-text": _REGISTER | {"insert": _WRITE, "delete": _REMOVE, "append": Signature(Takes.TEXT, Takes.SAME)},
}
"""By model: its operations; where those of a history fit several models, the first is meant."""

REGISTERS = ("register", "kv", "words")
"""The models whose objects are registers that an update gives a value of its own."""
VALUED = (*REGISTERS, "cas-register", *TRANSACTIONAL)
"""The models whose objects hold a value, which may be loaded before time zero; all others begin empty, or at 0."""
RUN = tuple(name for name in OPERATIONS if name not in ("ordered-map", "file", "kv-text"))
"""The models that a scheme may name. A map whose keys are objects of their own is ``kv``."""

_ORDERED = (
    Condition.BUFFERED_CUT, Condition.BUFFERED, Condition.LINEARIZABLE, Condition.DURABLE, Condition.PERSISTENT,
    Condition.STRICT,
)  # fmt: skip
OPENING = 1_000_000
"""The number that each object of the model ``accounts`` holds at first: in cents the least balance of an account of
SmallBank in H-Store's version, 10,000 dollars. The steps of its transactions are ``r``, which finds (bytes, number);
``w`` with the change of the number; ``out``, which writes a value and leaves 0; ``in``, which writes a value and adds
what this transaction has taken out."""
FOUND = ("append", "log", "set", "queue", "stack", *TRANSACTIONAL)
"""The models that show which item was put in by whom: ``committed`` asks that nothing is found which nobody put in."""


def conditions_of(model: str) -> tuple[Condition, ...]:
    """The conditions that objects of a model can be judged by, weaker ones first."""
    wanted = {Condition.NO_LOST_ACK, Condition.BOUNDED_LOSS, *_ORDERED}
    if model in REGISTERS:
        wanted |= {Condition.COMMITTED, Condition.MONOTONIC, Condition.SESSION}
    if model in FOUND:
        wanted |= {Condition.COMMITTED, Condition.EXACTLY_ONCE}
    if model == "set":
        wanted -= {Condition.EXACTLY_ONCE}
    return tuple(condition for condition in Condition if condition in wanted)
