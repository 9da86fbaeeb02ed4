"""``buffered``: buffered durable linearizability in its prefix form (after Izraelevitz, Mendes, Scott, DISC 2016).

Each era is linearizable from the state that it starts from, and that is the state after some prefix of the era before,
as linearized, at or after its last completed sync. A sync with a scope asks that no update in its scope which came
before it is behind the prefix. An operation that a crash of the system killed takes effect before that crash or never;
one that is open across a crash of the server takes effect on either side of it, once, and may be lost like any other.

It is judged by the general search over all objects at once. Two more operations are put into each era: the *cut*, at
any instant after the last sync of everything, keeps the state as it is then; the *crash* goes back to what was kept.
"""

from __future__ import annotations

from collections.abc import Hashable

from ..eras import Eras, Tag
from ..known import NEVER_PS
from ..models.model import ILLEGAL, Call, Model, State
from ..search.general import Interval

_OPERATION, _SYNC, _CUT, _CRASH = "operation", "sync", "cut", "crash"
_FINE = 4
"""Instants are spread, so that there is room between the last event of an instant and a crash at it."""

_Whole = tuple[tuple[State, ...], tuple[State, ...] | None, frozenset[Tag]]
"""The objects' states now, their states at the cut (None before it), and the objects updated behind it."""


def spans_of(eras: Eras) -> tuple[Model, list[Interval]]:
    """The model of all objects together, and the operations, cuts and crashes for the search.

    Cuts and crashes have negative numbers.
    """
    scoped = [b for b in eras.barriers if b.tags is not None]
    spans = []
    for op in eras.ops:
        call = Call(_OPERATION, (op.object, op.tag if scoped else None, op.call))
        if op.return_ps is not None:
            spans.append(Interval(op.number, call, _FINE * op.invoke_ps, _FINE * op.return_ps))
        else:
            by_ps = NEVER_PS if op.dead_ps is None else _FINE * op.dead_ps + 1
            spans.append(Interval(op.number, call, _FINE * op.invoke_ps, None, by_ps))
    for turn, barrier in enumerate(scoped):
        era = eras.completed(barrier)
        if era is not None and era < len(eras.crashes_ps):
            number = -2 * len(eras.crashes_ps) - 1 - turn
            call = Call(_SYNC, barrier.tags)
            spans.append(Interval(number, call, _FINE * barrier.invoke_ps, _FINE * barrier.return_ps))
    for era, crash_ps in enumerate(eras.crashes_ps):
        begin = max(_FINE * eras.began_ps(era) + 3, _FINE * eras.last_sync_ps(era))
        spans.append(Interval(-2 * era - 1, Call(_CUT), begin, _FINE * crash_ps + 1))
        spans.append(Interval(-2 * era - 2, Call(_CRASH), _FINE * crash_ps + 2, _FINE * crash_ps + 2))
    return _together(eras.model, eras.objects, bool(scoped)), spans


def _together(model: Model, objects: int, scoped: bool) -> Model:
    nothing: frozenset[Tag] = frozenset()

    def step(state: State, call: Call) -> State:
        live, kept, behind = _parts(state)
        if call.f == _OPERATION:
            index, tag, inner = _operation(call)
            after = model.step(live[index], inner)
            if after is ILLEGAL:
                return ILLEGAL
            if kept is not None and scoped and not model.inert(inner):
                behind |= {tag}
            if after is live[index] or after == live[index]:
                return live, kept, behind
            return (*live[:index], after, *live[index + 1 :]), kept, behind
        if call.f == _SYNC:
            assert isinstance(call.argument, frozenset)
            return ILLEGAL if behind & call.argument else state
        if call.f == _CUT:
            return ILLEGAL if kept is not None else (live, live, nothing)
        return ILLEGAL if kept is None else (kept, None, nothing)

    def inert(call: Call) -> bool:
        return call.f == _SYNC or (call.f == _OPERATION and model.inert(_operation(call)[2]))

    initial: State = ((model.initial,) * objects, None, nothing)
    return Model(f"{model.name}, buffered", {}, initial, step, inert)


def _operation(call: Call) -> tuple[int, Tag, Call]:
    argument: tuple[int, Tag, Call] = call.argument  # type: ignore[assignment]
    return argument


def _parts(state: State) -> _Whole:
    whole: _Whole = state  # type: ignore[assignment]
    return whole


def now(state: State, object: int) -> Hashable:
    """The state of one object, out of a state of the model of all objects."""
    return _parts(state)[0][object]
