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
"""

from __future__ import annotations

from ...scenarios.history import Operation
from .committed import why_not_there
from .known import BEFORE_PS, NEVER_PS, NOT_READ, Flaw, ObjectHistory, Recovered
from .wording import microseconds, recovered_text, update_text


def find(known: ObjectHistory, recovered: Recovered) -> Flaw | None:
    """The most recent acknowledged update that was lost, or None."""
    if recovered is NOT_READ:
        return None
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
    older_ps = BEFORE_PS if recovered == known.initial else known.acknowledged_ps.get(recovered, NEVER_PS)
    if latest is None or older_ps >= latest.invoke_ps:
        return None
    return Flaw((latest,), f"{got}, but {_acknowledgement(known, latest)}")


def _latest_acknowledged(known: ObjectHistory) -> Operation | None:
    writes = known.writes
    acknowledged = [writes[stamp] for stamp in known.acknowledged_ps]
    return max(acknowledged, key=lambda update: (update.invoke_ps, update.number), default=None)


def _acknowledgement(known: ObjectHistory, update: Operation) -> str:
    return f"{update_text(update)} had returned at {microseconds(known.acknowledged_ps[update.argument])}"
