"""A whole history judged at one crash: every object by every condition asked for, and what follows from what."""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Mapping
from dataclasses import dataclass

from ...protocols.guarantees import EXPLORED, Condition, Verdict
from ...scenarios.history import History, Operation, Value
from .conditions import committed, durable, monotonic, no_lost_ack, persistent, strict
from .known import NOT_READ, RECOVERY, Finder, Flaw, Inconsistent, ObjectHistory, Recovered, cut

FINDERS: Mapping[Condition, Finder] = {
    Condition.COMMITTED: committed.find,
    Condition.MONOTONIC: monotonic.find,
    Condition.NO_LOST_ACK: no_lost_ack.find,
    Condition.LINEARIZABLE: durable.find,  # the ids of processes play no part: see durable
    Condition.DURABLE: durable.find,
    Condition.PERSISTENT: persistent.find,
    Condition.STRICT: strict.find,
}
"""By condition: the function that judges one register with unique values."""

CONDITIONS: Mapping[Condition, Finder] = {condition: FINDERS[condition] for condition in EXPLORED}
"""The conditions that can differ where each object is read once after the crash: there ``strict`` is ``durable`` (what
is read once may have taken effect before the crash as well as after it), and ``linearizable`` always is."""

_LINEAR = (
    Condition.LINEARIZABLE, Condition.DURABLE, Condition.COMMITTED, Condition.EXACTLY_ONCE, Condition.SESSION,
    Condition.MONOTONIC, Condition.BOUNDED_LOSS, Condition.NO_LOST_ACK, Condition.BUFFERED_CUT,
)  # fmt: skip
IMPLIES: Mapping[Condition, tuple[Condition, ...]] = {
    Condition.STRICT: (*_LINEAR, Condition.PERSISTENT, Condition.BUFFERED),
    Condition.PERSISTENT: _LINEAR,
    Condition.DURABLE: _LINEAR,
    Condition.LINEARIZABLE: _LINEAR,
    Condition.BUFFERED: (Condition.BUFFERED_CUT,),
    Condition.NO_LOST_ACK: (Condition.BOUNDED_LOSS,),
}
"""What holds on every history on which the key holds."""


@dataclass(frozen=True)
class Finding:
    """The verdict on one condition; if it is violated, the first object at fault, and why, in one sentence.

    ``operations`` are the ones that the sentence names, the offending one first; reads after recovery are not among
    them.
    """

    condition: Condition
    verdict: Verdict
    object: Hashable = None
    operations: tuple[Operation, ...] = ()
    explanation: str = ""


Reads = Value | tuple[Value, ...]
"""The value read of an object after the crash, or the values of several reads in their order."""


def check(
    history: History,
    crash_ps: int,
    reads_after: Mapping[Hashable, Reads],
    conditions: Iterable[Condition] = tuple(FINDERS),
    *,
    loaded: Container[Hashable] | None = None,
    probe: str = "get",
) -> dict[Condition, Finding]:
    """Judge ``history`` up to a system crash at ``crash_ps``, after which fresh processes read ``reads_after``.

    Several reads of one object are given as a tuple in their order. Objects without a read after the crash are judged
    by what came before it. ``loaded`` holds the objects that had a value (stamp 0) before time zero, None says all;
    ``probe`` is the name of the reads after recovery. Raises InputError if the updates of an object do not write
    unique values.
    """
    objects = cut(history, crash_ps, loaded, probe)
    for name in reads_after:
        if name not in objects:
            objects[name] = ObjectHistory(name, history.updates, loaded is None or name in loaded, probe)
            objects[name].crash(crash_ps)
    wanted = tuple(conditions)
    findings = {condition: Finding(condition, Verdict.HOLDS) for condition in wanted}
    for name, known in objects.items():
        found = reads_after.get(name, ())
        values = found if isinstance(found, tuple) else (found,)
        if len(values) > 1:
            known.reads += _one_by_one(known, values, crash_ps, len(history.operations))
        recovered = values[0] if len(values) == 1 else NOT_READ
        verdicts: dict[Condition, Verdict] = {}
        for condition in wanted:
            flaw, verdicts[condition] = verdict_on(condition, known, recovered)
            if flaw is None and verdicts[condition] is Verdict.UNDECIDED:
                if findings[condition].verdict is Verdict.HOLDS:
                    findings[condition] = Finding(condition, Verdict.UNDECIDED, name)
            elif flaw is not None and findings[condition].verdict is not Verdict.VIOLATED:
                named = tuple(operation for operation in flaw.operations if operation.process != RECOVERY)
                findings[condition] = Finding(condition, Verdict.VIOLATED, name, named, flaw.explanation)
        assert_implications(verdicts)
    return findings


def verdict_on(condition: Condition, known: ObjectHistory, recovered: Recovered) -> tuple[Flaw | None, Verdict]:
    """The flaw of one register by a condition, and the verdict: undecided where a search gave up."""
    known.given_up = False
    flaw = FINDERS[condition](known, recovered)
    if flaw is not None:
        return flaw, Verdict.VIOLATED
    return None, Verdict.UNDECIDED if known.given_up else Verdict.HOLDS


def explanation(condition: Condition, known: ObjectHistory, recovered: Recovered) -> str:
    """In one sentence, why a condition of :data:`CONDITIONS` is violated; ValueError if it is not."""
    flaw = CONDITIONS[condition](known, recovered)
    if flaw is None:
        raise ValueError(f"{condition} is not violated")
    return flaw.explanation


def _one_by_one(known: ObjectHistory, values: tuple[Value, ...], crash_ps: int, number: int) -> list[Operation]:
    """Reads of ``values`` by a fresh process, each invoked after the one before had returned."""
    starts_ps = range(crash_ps + 1, crash_ps + 1 + 2 * len(values), 2)
    return [
        Operation(number + turn, RECOVERY, known.probe, known.object, None, at_ps, at_ps + 1, value, "ok")
        for turn, (at_ps, value) in enumerate(zip(starts_ps, values, strict=True), start=1)
    ]


def assert_implications(found: Mapping[Condition, Verdict | Finding]) -> None:
    """Inconsistent if a condition holds and one that it implies is violated: then the oracle itself is wrong."""
    verdicts = {c: v.verdict if isinstance(v, Finding) else v for c, v in found.items()}
    for stronger, weaker in IMPLIES.items():
        for condition in weaker:
            if verdicts.get(stronger) is Verdict.HOLDS and verdicts.get(condition) is Verdict.VIOLATED:
                raise Inconsistent(f"{stronger} holds, and {condition}, which it implies, is violated")
