"""What a sequential model is: what an object does if its operations come one after the other.

A model is a record of pure functions over immutable states; a model of one's own is another such record. The result of
an operation whose response nobody saw is UNKNOWN: then the operation may have returned anything. Every model speaks of
one object; a history's objects are judged one by one (linearizability is local: Herlihy, Wing, TOPLAS 12(3), 1990).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

from ....protocols.objects import FENCES, PUTS, READS, REMOVES, SYNCS, WRITES, Signature, Takes

__all__ = [
    "FENCES", "ILLEGAL", "PUTS", "READS", "REMOVES", "SYNCS", "UNKNOWN", "WRITES", "Call", "Model", "State", "Takes",
    "no_parts", "nothing_related",
]  # fmt: skip

State = Hashable


class _Sign(Enum):
    UNKNOWN = "unknown"
    ILLEGAL = "illegal"


UNKNOWN: Final = _Sign.UNKNOWN
"""In place of a result: no response was seen."""
ILLEGAL: Final = _Sign.ILLEGAL
"""In place of a state: from this state the operation could not have returned that."""


@dataclass(frozen=True, slots=True)
class Call:
    """One operation: its name, its argument, and its result (or UNKNOWN)."""

    f: str
    argument: Hashable = None
    result: Hashable = None


def nothing_related(call: Call) -> Hashable:
    """No calls can be taken away together."""
    return None


def no_parts(call: Call) -> None:
    """The object is one piece."""
    return None


@dataclass(frozen=True)
class Model:
    """``step`` gives the state after a call, or ILLEGAL.

    ``inert`` says that a call leaves every state as it is from which it is legal: so it can be placed as soon as it
    fits, a call of unknown result can be left out, and every one can be taken away without making others illegal.
    ``related`` names calls that can be taken away together: without all calls of that name a legal sequence stays
    legal. None where there is no such name. (Both serve to show a small failing piece.)
    """

    name: str
    operations: Mapping[str, Signature]
    initial: State
    step: Callable[[State, Call], State]
    inert: Callable[[Call], bool]
    related: Callable[[Call], Hashable] = nothing_related
    parts: Callable[[Call], tuple[Hashable, ...] | None] = no_parts
    """Which parts of the object a call touches, or None for all of it: parts that no call ties are judged apart."""
    register: bool = False
    """Whether it is a register: WRITES put their argument there, READS return it, null at first."""
