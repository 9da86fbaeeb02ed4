"""The vocabulary of guarantees: the names that a scheme claims, a scenario expects and the oracle judges.

A name here says nothing about which scheme has it: verdicts come out of histories (``rpsim.validation``).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Condition(StrEnum):
    """A condition on a history, weakest first; the meaning of each is in docs/architecture.md, "Conditions"."""

    COMMITTED = "committed"
    MONOTONIC = "monotonic"
    NO_LOST_ACK = "no_lost_ack"
    LINEARIZABLE = "linearizable"
    DURABLE = "durable"
    STRICT = "strict"


EXPLORED = (Condition.COMMITTED, Condition.MONOTONIC, Condition.NO_LOST_ACK, Condition.DURABLE)
"""The conditions that a crash exploration can judge: one read of each object after the crash decides them."""


class Verdict(StrEnum):
    """What the checker found out about a condition."""

    HOLDS = "holds"
    VIOLATED = "violated"
    UNDECIDED = "undecided"


ALWAYS = "always"
"""A claim made for every platform and every fault."""

Claims = Mapping[Condition, str]
"""What a scheme's paper claims: the condition and the platforms and faults under which it does (or ALWAYS)."""
