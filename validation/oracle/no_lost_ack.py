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

from ...scenarios.history import Operation, Value
from .committed import why_not_there
from .known import BEFORE_PS, NEVER_PS, NOT_READ, Flaw, ObjectHistory, Recovered, return_ps
from .wording import microseconds, read_text, recovered_text, update_text


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
    older_ps = _value_age_ps(known, recovered)
    if latest is None or older_ps >= latest.invoke_ps:
        return None
    return Flaw((latest,), f"{got}, but {_acknowledgement(known, latest)}")


def find_older(known: ObjectHistory, spared_ps: int) -> Flaw | None:
    """The first crash that lost an update, by the reads invoked after it.

    Of updates that had returned at most ``spared_ps`` before the crash nothing is asked, if that is more than nothing.
    """
    for crash_ps in known.crashes_ps:
        after = [read for read in known.reads if read.invoke_ps > crash_ps]
        latest = _latest_acknowledged(known, crash_ps - spared_ps - 1 if spared_ps else crash_ps)
        if not after or (latest is None and not known.loaded):
            continue
        needed_ps = BEFORE_PS if latest is None else latest.invoke_ps
        ages = [(_age_ps(known, read), read) for read in after]
        if any(age_ps >= needed_ps and _written_by(known, read, crash_ps) for age_ps, read in ages):
            continue
        bad = [read for age_ps, read in ages if age_ps < needed_ps]
        if bad:
            first = min(bad, key=lambda read: (return_ps(read), read.number))
            if latest is not None:
                return Flaw((first, latest), f"{read_text(first)}, but {_acknowledgement(known, latest)}")
            lost = "the value loaded before time zero was durable"
            return Flaw((first,), f"{read_text(first)}, but {lost}: {why_not_there(known, first.result)}")
    return None


def _age_ps(known: ObjectHistory, read: Operation) -> int:
    """Before what an update must have been invoked not to be certainly younger than what was read."""
    return _value_age_ps(known, read.result) if known.may_hold(read.result) else BEFORE_PS - 1


def _value_age_ps(known: ObjectHistory, value: Value) -> int:
    """The same of a value; of absent, that of the removal that makes it the youngest."""
    stamps = known.stamps(value)
    return max(BEFORE_PS if s == known.initial else known.acknowledged_ps.get(s, NEVER_PS) for s in stamps)


def _written_by(known: ObjectHistory, read: Operation, crash_ps: int) -> bool:
    write = known.writes.get(read.result)
    if read.result is None and known.removes:  # not known of which
        return any(stamp is None or known.writes[stamp].invoke_ps <= crash_ps for stamp in known.stamps(None))
    return write is None or write.invoke_ps <= crash_ps


def _latest_acknowledged(known: ObjectHistory, by_ps: int = NEVER_PS) -> Operation | None:
    writes = known.writes
    told_ps = {**known.acknowledged_ps, **known.promised_ps}
    acknowledged = [writes[stamp] for stamp, returned_ps in told_ps.items() if returned_ps <= by_ps]
    return max(acknowledged, key=lambda update: (update.invoke_ps, update.number), default=None)


def _acknowledgement(known: ObjectHistory, update: Operation) -> str:
    returned_ps = known.promised_ps.get(update.argument) or known.acknowledged_ps[update.argument]
    return f"{update_text(update)} had returned at {microseconds(returned_ps)}"
