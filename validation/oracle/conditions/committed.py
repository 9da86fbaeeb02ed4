"""``committed``: each read returns the initial value or one whose write was invoked before the read returned and did
not certainly fail; nothing torn, nothing out of thin air. The read after recovery is a read like the others; one that
failed has returned nothing (and says to other conditions that what was there is lost).

A write invoked at the very instant at which the read returned counts as invoked before (closed intervals).
"""

from __future__ import annotations

from ....scenarios.history import Operation, Unread, Value
from ..known import NOT_READ, Flaw, ObjectHistory, Recovered, return_ps
from ..wording import microseconds, read_text, recovered_text, update_text


def find(known: ObjectHistory, recovered: Recovered) -> Flaw | None:
    """The first read of a value that was not there to be read, or None."""
    initial, writes = known.initial, known.writes
    bad = None
    for read in known.reads:
        value = read.result
        if value == initial:
            continue
        write = writes.get(value)
        ended_ps = return_ps(read)
        if write is not None and write.invoke_ps <= ended_ps:
            continue
        if value is None and known.wrote(read):
            continue
        if bad is None or (ended_ps, read.number) < (return_ps(bad), bad.number):
            bad = read
    if bad is not None:
        return _flaw(known, f"{read_text(bad)} returned at {microseconds(return_ps(bad))}", bad.result, (bad,))
    return None if isinstance(recovered, Unread) else not_there(known, recovered)


def not_there(known: ObjectHistory, recovered: Recovered) -> Flaw | None:
    """Why the read after recovery may not have returned what it did, or failed; None if it may have."""
    if recovered is NOT_READ or known.may_hold(recovered):
        return None
    return _flaw(known, recovered_text(known, recovered), recovered, ())


def why_not_there(known: ObjectHistory, value: Value) -> str:
    """Why no read may return ``value``, for a value that no read so far may return."""
    failed = known.failed.get(value)
    if failed is not None:
        return f"{update_text(failed)} had certainly failed at {microseconds(return_ps(failed))}"
    later = known.writes.get(value)
    if later is not None:
        return f"{update_text(later)} was not invoked before {microseconds(later.invoke_ps)}"
    return "the object was there and nobody had removed it" if known.removes and value is None else _nobody(value)


def _nobody(value: Value) -> str:
    return "the object was loaded and nobody removed it" if value is None else "nobody wrote that"


def _flaw(known: ObjectHistory, what: str, value: Value, operations: tuple[Operation, ...]) -> Flaw:
    writer = known.failed.get(value) or known.writes.get(value)
    named = operations if writer is None else (*operations, writer)
    return Flaw(named, f"{what}, but {why_not_there(known, value)}")
