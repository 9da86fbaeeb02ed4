"""Is the history of an object that is removed now and then linearizable? By the general search, as a map's entry.

Every removal leaves the same, nothing, so that values do not tell which update a read saw, and zones do not decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ....protocols.guarantees import Verdict
from ....scenarios.history import Operation, Removed, Value
from ..known import BEFORE_PS, NEVER_PS, NOT_READ, Flaw, ObjectHistory, Recovered
from ..models.simple import MODELS, UNKNOWN, Call
from ..search.general import Interval, Search
from ..wording import read_text, recovered_text, subject_text, update_text

_LOADED, _RECOVERED = 0, -1


def find(known: ObjectHistory, recovered: Recovered, deadlines_ps: Mapping[Value, int]) -> Flaw | None:
    """Why no order of its operations is legal, with the read after recovery at its end; None if one is.

    A search that gives up finds no flaw, and says so (``ObjectHistory.given_up``).
    """
    operations = {o.number: o for o in (*known.writes.values(), *known.reads)}
    answer = Search(MODELS["kv"], _spans(known, recovered, deadlines_ps)).run()
    known.given_up = answer.verdict is Verdict.UNDECIDED
    if answer.verdict is not Verdict.VIOLATED:
        return None
    earlier = None if recovered is NOT_READ else find(known, NOT_READ, deadlines_ps)
    if earlier is not None or answer.stuck is None:
        return earlier
    held = [_text(state) for state in answer.states]
    only = " or ".join(held[:4]) + (" or others" if len(held) > 4 else "")
    stuck = operations.get(answer.stuck)
    got = recovered_text(known, recovered) if stuck is None and recovered is not NOT_READ else _operation(known, stuck)
    named = tuple(operations[n] for n in (answer.stuck, *reversed(answer.order)) if n in operations)
    what = subject_text(stuck or named[0]).partition(" ")[2] or "the object"
    return Flaw(named, f"{got}, but whatever the order of the others, {what} can only have been {only} then")


def _spans(known: ObjectHistory, recovered: Recovered, deadlines_ps: Mapping[Value, int]) -> Iterator[Interval]:
    if known.loaded:
        yield Interval(_LOADED, Call("put", 0, UNKNOWN), BEFORE_PS, BEFORE_PS)
    for stamp, update in known.writes.items():
        call = Call("delete", None, UNKNOWN) if isinstance(stamp, Removed) else Call("put", stamp, UNKNOWN)
        by_ps = deadlines_ps.get(stamp, NEVER_PS)
        yield Interval(update.number, call, update.invoke_ps, known.acknowledged_ps.get(stamp), by_ps)
    for read in known.reads:
        yield Interval(read.number, Call("get", None, _seen(read.result)), read.invoke_ps, read.return_ps)
    if recovered is not NOT_READ:
        yield Interval(_RECOVERED, Call("get", None, _seen(recovered)), NEVER_PS, NEVER_PS)


def _seen(value: Value) -> Value:
    """The operations as a client saw them: no stamp says which removal an absent object comes from."""
    return None if isinstance(value, Removed) else value


def _text(state: object) -> str:
    return "absent" if state is None else f"v{state}"


def _operation(known: ObjectHistory, operation: Operation | None) -> str:
    assert operation is not None
    return update_text(operation) if operation.f in known.updates else read_text(operation)
