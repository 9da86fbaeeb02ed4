"""The vocabulary of guarantees: the names that a scheme claims, a scenario expects and the oracle judges.

A name here says nothing about which scheme has it: verdicts come out of histories (``rpsim.validation``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from enum import StrEnum


class Condition(StrEnum):
    """A condition on a history, weaker ones first; what each means is in docs/conditions.md."""

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


MEANINGS: Mapping[Condition, str] = {
    Condition.COMMITTED: "each read returns a whole value that a client wrote, or the one from before the run",
    Condition.EXACTLY_ONCE: "no update is executed twice",
    Condition.SESSION: "each client reads its own writes, and never an older value after a newer one",
    Condition.MONOTONIC: "no read after the crash returns an older value than a read before it",
    Condition.BOUNDED_LOSS: "an update is not lost if it had returned long enough before the crash",
    Condition.NO_LOST_ACK: "an update that had returned to its client before the crash is not lost",
    Condition.BUFFERED_CUT: "what is left after the crash is a past state of the whole, of after its last sync",
    Condition.BUFFERED: "what is left after the crash is what the updates up to one of them, in their order, did",
    Condition.LINEARIZABLE: "each operation takes effect at one instant between its invocation and its response",
    Condition.DURABLE: "all that had returned, reads too, still counts after the crash: all operations fit one order",
    Condition.PERSISTENT: "an update that the crash broke off takes effect before its client's next one, or never",
    Condition.STRICT: "an update that the crash broke off takes effect before the crash, or never",
}
"""Each condition in a line, for whoever meets it in a report; docs/conditions.md has the definitions."""

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

NO_FAULT = "no fault"
"""A claim for as long as nothing fails: all that "strong consistency" can mean of updates that are durable later."""

ONE_WRITER = "one writer"
"""A claim for workloads in which no two processes write one object: the paper orders what comes on one connection."""

Claims = Mapping[Condition, str]
"""What a scheme's paper claims: the condition, and where: ALWAYS, or one of several alternatives (``;``), each of parts
(``,``) that must all apply: a platform, a switch, a fault without its index (``optane-adr, server power``), ONE_WRITER.
"""

_INDEX = re.compile(r"\[\d+\]")


def covers(selector: str, platform: str) -> bool:
    """Whether ``optane-adr`` or ``ddio on`` or ``optane-adr, ddio on`` speaks of the platform with this label."""
    parts = {part.strip() for part in platform.split(",")}
    return all(part.strip() in parts for part in selector.split(","))


def claimed(claims: Claims, condition: str, platform: str, fault: str, *, one_writer: bool = True) -> bool:
    """Whether the claim covers this platform (by its label), this fault (``server[0] power``) and this workload, in
    which each object has one process that writes it, or not.

    A claim is made always, or for one of several: ``optane-eadr; optane-adr, ddio off, server power, one writer``.
    """
    circumstances = f"{platform}, {re.sub(_INDEX, '', fault)}{f', {ONE_WRITER}' if one_writer else ''}"
    where = {str(name): text for name, text in claims.items()}.get(condition)
    return where is not None and (
        where.strip() == ALWAYS or any(covers(part, circumstances) for part in where.split(";"))
    )


def misplaced(claims: Claims | Mapping[str, str], known: Callable[[str], bool]) -> Iterator[tuple[str, str]]:
    """Conditions, each with a part of where it is claimed that is not ``known``, so that it would claim nothing.

    Beside a platform in a file of a user's own, whose switches and devices nobody here knows, all parts are taken.
    """
    for condition, where in claims.items():
        for alternative in [] if where.strip() == ALWAYS else where.split(";"):
            parts = [part.strip() for part in alternative.split(",")]
            if not any(part.endswith((".yaml", ".yml")) for part in parts):
                yield from ((str(condition), part) for part in parts if not known(part))
