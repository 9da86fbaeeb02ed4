"""The vocabulary of guarantees: the names that a scheme claims, a scenario expects and the oracle judges.

A name here says nothing about which scheme has it: verdicts come out of histories (``rpsim.validation``).
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum


class Condition(StrEnum):
    """A condition on a history, weaker ones first; what each means is in docs/check.md, "Conditions"."""

    COMMITTED = "committed"
    EXACTLY_ONCE = "exactly_once"
    SESSION = "session"
    MONOTONIC = "monotonic"
    BOUNDED_LOSS = "bounded_loss"
    NO_LOST_ACK = "no_lost_ack"
    BUFFERED_CUT = "buffered_cut"
    BUFFERED = "buffered"
    LINEARIZABLE = "linearizable"
    DURABLE = "durable"
    PERSISTENT = "persistent"
    STRICT = "strict"


EXPLORED = (Condition.COMMITTED, Condition.MONOTONIC, Condition.NO_LOST_ACK, Condition.DURABLE)
"""The conditions that an exploration of power failures can judge: one read of each object after it decides them."""


class Verdict(StrEnum):
    """What the checker found out about a condition."""

    HOLDS = "holds"
    VIOLATED = "violated"
    UNDECIDED = "undecided"


ALWAYS = "always"
"""A claim made for every platform and every fault."""

SERVER_CRASH = "server power; server process"
"""A claim for what papers call a crash of the server: of its power or of its process, once."""

Claims = Mapping[Condition, str]
"""What a scheme's paper claims: the condition, and where: ALWAYS, or one of several alternatives (``;``), each of parts
(``,``) that must all apply: a platform, a switch, a fault without its index (``optane-adr, server power``)."""
