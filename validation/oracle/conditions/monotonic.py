"""``monotonic``: for two reads of one object around a crash, the later does not return a version certainly older than
the earlier. A value that was read once is not taken back.

A version took effect at some instant after its write was invoked, and no later than its write returned ``ok`` or any
read of it returned. Version a is *certainly older* than version b if, by these bounds alone, it took effect first:
a's write, or a read of a, had returned strictly before b's write was invoked. The initial value is older than all;
that an object which was loaded is absent (nobody removes it) is older still. Hence

- two writes that overlap, or whose order only other reads suggest, may be read in either order;
- a pending update that nobody had read is older than nothing;
- torn bytes, values that nobody wrote and those of failed updates are no versions and have no age: that they are read
  breaks ``committed``, and an earlier read of them asks nothing of the later.

A read is before a crash if it returned by then, after it if it was invoked later; one across it is neither. Crashes
of clients and replicas do not count.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right

from ....scenarios.history import Operation, Value
from ..known import BEFORE_PS, NEVER_PS, NOT_READ, Absent, Flaw, ObjectHistory, Recovered, return_ps
from ..wording import microseconds, read_text, recovered_text, update_text, value_text


def find(known: ObjectHistory, recovered: Recovered) -> Flaw | None:
    """The first read after a crash that takes back a value shown by a read before the crash, or None."""
    crashes_ps = known.crashes_ps or [NEVER_PS - 1]  # where none is known, it comes between all reads and recovery
    versions = sorted((read for read in known.reads if known.wrote(read)), key=return_ps)
    ended_ps = [return_ps(read) for read in versions]
    existed_ps = {known.initial: BEFORE_PS, **known.acknowledged_ps}
    for read in versions:
        if read.result is not None:
            existed_ps[read.result] = min(existed_ps.get(read.result, NEVER_PS), return_ps(read))
    absent = Absent(known, existed_ps)
    written_ps = [_written_ps(known, absent, read.result) for read in versions]
    youngest: list[int] = []  # of the first n reads, the one of the version that was written last
    for turn, at_ps in enumerate(written_ps):
        youngest.append(youngest[-1] if turn and written_ps[youngest[-1]] >= at_ps else turn)

    def taken_back(value: Value, invoke_ps: int, by_ps: int) -> Operation | None:
        """The earlier read of a younger version than ``value``, read by then."""
        crashes = bisect_left(crashes_ps, invoke_ps)
        before = bisect_right(ended_ps, crashes_ps[crashes - 1]) if crashes else 0
        if before == 0:
            return None
        earlier = youngest[before - 1]
        age_ps = absent.youngest_ps(by_ps) if value is None else existed_ps.get(value, NEVER_PS)
        return versions[earlier] if age_ps < written_ps[earlier] else None

    for read in sorted(known.reads, key=lambda read: (return_ps(read), read.number)):
        earlier = taken_back(read.result, read.invoke_ps, return_ps(read))
        if earlier is not None:
            stamps = known.stamps(read.result, return_ps(read)) or known.stamps(read.result)
            return _flaw(known, existed_ps, (read,), read_text(read), read.result, stamps, earlier)
    if recovered is not NOT_READ:
        earlier = taken_back(recovered, NEVER_PS, NEVER_PS)
        if earlier is not None:
            got = recovered_text(known, recovered)
            return _flaw(known, existed_ps, (), got, recovered, known.stamps(recovered), earlier)
    return None


def _written_ps(known: ObjectHistory, absent: Absent, value: Value) -> int:
    """Not before this did ``value`` take effect."""
    if value is None:
        return absent.oldest_ps
    write = known.writes.get(value)
    return BEFORE_PS if write is None else write.invoke_ps


def _flaw(
    known: ObjectHistory,
    existed_ps: dict[Value, int],
    later: tuple[Operation, ...],
    got: str,
    value: Value,
    stamps: list[Value],
    earlier: Operation,
) -> Flaw:
    before = f"{read_text(earlier)} had returned before the crash, at {microseconds(return_ps(earlier))}"
    write = known.writes.get(earlier.result)
    if earlier.result is None and known.removes:  # whichever removal it saw
        seen = [known.writes[stamp] for stamp in known.stamps(None) if stamp is not None]
        write = min(seen, key=lambda update: update.invoke_ps)
    if value is None and known.removes:
        value = max(stamps, key=lambda stamp: existed_ps[stamp])
    if write is None or value == known.initial or value is None:
        named = (*later, earlier) if write is None else (*later, earlier, write)
        return Flaw(named, f"{got}, but {before}, and nothing is older than {_age(known, value)}")
    older_ps = existed_ps[value]
    proof = known.writes[value] if known.acknowledged_ps.get(value) == older_ps else None
    if proof is None:
        proof = next(read for read in known.reads if read.result == value and read.return_ps == older_ps)
    text = update_text(proof) if proof.f in known.updates else read_text(proof)
    order = f"{text} had returned at {microseconds(older_ps)}, before {update_text(write)} was invoked"
    named = (*later, earlier, write, proof)
    why = f"{value_text(value)} is certainly older: {order} at {microseconds(write.invoke_ps)}"
    return Flaw(named, f"{got}, but {before}, and {why}")


def _age(known: ObjectHistory, value: Value) -> str:
    if value == known.initial:
        return f"{value_text(value)}, which was there before time zero"
    return "absent, since the object was loaded and nobody removed it"
