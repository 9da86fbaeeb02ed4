"""A whole history judged at one crash: every object by every condition asked for, and what follows from what."""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Mapping
from dataclasses import dataclass

from ...protocols.guarantees import Condition, Verdict
from ...scenarios.history import History, Operation, Value
from . import committed, durable, no_lost_ack
from .known import NOT_READ, Finder, ObjectHistory, cut

CONDITIONS: Mapping[Condition, Finder] = {
    Condition.COMMITTED: committed.find,
    Condition.NO_LOST_ACK: no_lost_ack.find,
    Condition.DURABLE: durable.find,
}
"""How each condition is judged on one object."""

IMPLIES: Mapping[Condition, tuple[Condition, ...]] = {
    Condition.DURABLE: (Condition.COMMITTED, Condition.NO_LOST_ACK),
}
"""What holds on every history on which the key holds."""


@dataclass(frozen=True)
class Finding:
    """The verdict on one condition; if it is violated, the first object at fault, and why, in one sentence.

    ``operations`` are those that the sentence names, the offending one first; the read after recovery is none of them.
    """

    condition: Condition
    verdict: Verdict
    object: Hashable = None
    operations: tuple[Operation, ...] = ()
    explanation: str = ""


def check(
    history: History,
    crash_ps: int,
    reads_after: Mapping[Hashable, Value],
    conditions: Iterable[Condition] = tuple(Condition),
    *,
    loaded: Container[Hashable] | None = None,
    probe: str = "get",
) -> dict[Condition, Finding]:
    """Judge ``history`` up to a system crash at ``crash_ps``, after which fresh processes read ``reads_after``.

    Objects that nobody read after the crash are judged by what came before it. ``loaded`` holds the objects that had
    a value (stamp 0) before time zero, None says all; ``probe`` is the name of the reads after recovery. Raises
    InputError if the updates of an object do not write unique values.
    """
    objects = cut(history, crash_ps, loaded, probe)
    for name in reads_after:
        if name not in objects:
            objects[name] = ObjectHistory(name, history.updates, loaded is None or name in loaded, probe)
    wanted = tuple(conditions)
    findings = {condition: Finding(condition, Verdict.HOLDS) for condition in wanted}
    for name, known in objects.items():
        recovered = reads_after.get(name, NOT_READ)
        verdicts: dict[Condition, Verdict] = {}
        for condition in wanted:
            flaw = CONDITIONS[condition](known, recovered)
            verdicts[condition] = Verdict.HOLDS if flaw is None else Verdict.VIOLATED
            if flaw is not None and findings[condition].verdict is Verdict.HOLDS:
                findings[condition] = Finding(condition, Verdict.VIOLATED, name, flaw.operations, flaw.explanation)
        assert_implications(verdicts)
    return findings


def assert_implications(found: Mapping[Condition, Verdict | Finding]) -> None:
    """AssertionError if a condition holds and one that it implies is violated: then the oracle itself is wrong."""
    verdicts = {c: v.verdict if isinstance(v, Finding) else v for c, v in found.items()}
    for stronger, weaker in IMPLIES.items():
        for condition in weaker:
            if verdicts.get(stronger) is Verdict.HOLDS and verdicts.get(condition) is Verdict.VIOLATED:
                raise AssertionError(f"{stronger} holds, and {condition}, which it implies, is violated")
