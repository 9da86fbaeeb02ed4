"""``no_lost_ack``: an update that returned ``ok`` is not lost by the crash, whatever the isolation of reads.

After recovery the object holds, for every acknowledged update ``u``, the value of ``u`` or one certainly not older.
A value is *certainly older* than ``u`` if its own write had returned ``ok`` (or was the load) before ``u`` was
invoked. Order comes from the updates alone: that somebody read a value before another was written proves nothing
here, because reads may be as weakly isolated as they like. So

- of two concurrent acknowledged updates either may survive;
- the value of a pending or ``info`` update is always acceptable: it has not returned, so it is older than nothing;
- what no update may have written (torn, absent, unknown, of a failed update) has no age and stands for every update
  lost: violated if anything had been acknowledged, and the load counts as acknowledged. A pending update that
  destroyed the old value without putting its own in place has lost that old value.

Where an object is read more than once after the crash, an update is lost if some read shows that (as above) and no
read shows that it survived, by a value written before the crash that is not certainly older. A stale read beside a
fresh one is weak isolation, not loss; a value written after the crash tells neither. Reads across the crash do not
count, nor do crashes of clients and replicas.
"""

from __future__ import annotations

from ....scenarios.history import Operation, Value
from ..known import BEFORE_PS, NEVER_PS, NOT_READ, Absent, Flaw, ObjectHistory, Recovered, return_ps
from ..wording import microseconds, read_text, recovered_text, update_text
from .committed import why_not_there


def find(known: ObjectHistory, recovered: Recovered) -> Flaw | None:
    """The most recent acknowledged update that was lost, or None."""
    if recovered is NOT_READ:
        return find_older(known, 0)
    latest = _latest_acknowledged(known)
    got = recovered_text(known, recovered)
    if not known.may_hold(recovered):
        if latest is not None:
            return Flaw((latest,), f"{got}, but {_acknowledgement(known, latest)}")
        if known.loaded:
            return Flaw(
                (), f"{got}, but the value loaded before time zero was durable: {why_not_there(known, recovered)}"
            )
        return None
    older_ps = _age_ps(known, Absent(known, known.acknowledged_ps), recovered)
    if latest is None or older_ps >= latest.invoke_ps:
        return None
    return Flaw((latest,), f"{got}, but {_acknowledgement(known, latest)}")


def find_older(known: ObjectHistory, spared_ps: int) -> Flaw | None:
    """The first crash that lost an update, by the reads invoked after it.

    Of updates that had returned at most ``spared_ps`` before the crash nothing is asked, if that is more than nothing.
    """
    absent = Absent(known, known.acknowledged_ps)
    for crash_ps in known.crashes_ps:
        after = [read for read in known.reads if read.invoke_ps > crash_ps]
        latest = _latest_acknowledged(known, crash_ps - spared_ps - 1 if spared_ps else crash_ps)
        if not after or (latest is None and not known.loaded):
            continue
        needed_ps = BEFORE_PS if latest is None else latest.invoke_ps
        if any(_survived(known, absent, read, crash_ps, needed_ps) for read in after):
            continue
        bad = [read for read in after if _age_ps(known, absent, read.result, return_ps(read)) < needed_ps]
        if bad:
            first = min(bad, key=lambda read: (return_ps(read), read.number))
            if latest is not None:
                return Flaw((first, latest), f"{read_text(first)}, but {_acknowledgement(known, latest)}")
            lost = "the value loaded before time zero was durable"
            return Flaw((first,), f"{read_text(first)}, but {lost}: {why_not_there(known, first.result)}")
    return None


def _age_ps(known: ObjectHistory, absent: Absent, value: Value, by_ps: int = NEVER_PS) -> int:
    """The instant before which an update must have been invoked, or it is certainly younger than ``value``, read by
    then.
    """
    if value is None:
        return absent.youngest_ps(by_ps)
    if value == known.initial:
        return BEFORE_PS
    return known.acknowledged_ps.get(value, NEVER_PS) if value in known.writes else BEFORE_PS - 1


def _survived(known: ObjectHistory, absent: Absent, read: Operation, crash_ps: int, needed_ps: int) -> bool:
    """Whether ``read`` may have returned a version from before the crash that is not certainly older than needed."""
    if read.result is None:
        begun = absent.oldest_ps <= crash_ps
        return begun and absent.youngest_ps(min(crash_ps, return_ps(read))) >= needed_ps
    write = known.writes.get(read.result)
    before = write is None or write.invoke_ps <= crash_ps
    return before and _age_ps(known, absent, read.result) >= needed_ps


def _latest_acknowledged(known: ObjectHistory, by_ps: int = NEVER_PS) -> Operation | None:
    writes = known.writes
    told_ps = {**known.acknowledged_ps, **known.promised_ps}
    acknowledged = [writes[stamp] for stamp, returned_ps in told_ps.items() if returned_ps <= by_ps]
    return max(acknowledged, key=lambda update: (update.invoke_ps, update.number), default=None)


def _acknowledgement(known: ObjectHistory, update: Operation) -> str:
    returned_ps = known.promised_ps.get(update.argument) or known.acknowledged_ps[update.argument]
    return f"{update_text(update)} had returned at {microseconds(returned_ps)}"
