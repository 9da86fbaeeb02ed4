"""Random histories for the general search, and plain Wing and Gong beside it: every order, nothing clever."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Hashable
from itertools import product

from rpsim.validation.oracle.known import NEVER_PS
from rpsim.validation.oracle.models.simple import ILLEGAL, UNKNOWN, Call, Model, State, Takes
from rpsim.validation.oracle.search.general import Interval

Choose = Callable[[int], int]

ARGUMENTS: dict[str, list[tuple[str, Callable[[Choose], Hashable]]]] = {
    "register": [("write", lambda choose: choose(3)), ("read", lambda choose: None)],
    "kv": [("put", lambda choose: choose(2)), ("delete", lambda choose: None), ("get", lambda choose: None)],
    "cas-register": [
        ("cas", lambda choose: (choose(3), choose(3))),
        ("cas", lambda choose: (choose(2), choose(2))),
        ("write", lambda choose: choose(3)),
        ("read", lambda choose: None),
        ("fetch_add", lambda choose: choose(2)),
    ],
    "append": [("append", lambda choose: choose(3)), ("read", lambda choose: None)],
    "set": [
        ("add", lambda choose: choose(3)),
        ("remove", lambda choose: choose(3)),
        ("contains", lambda choose: choose(3)),
        ("read", lambda choose: None),
    ],
    "queue": [("enqueue", lambda choose: choose(3)), ("dequeue", lambda choose: None)],
    "stack": [("push", lambda choose: choose(3)), ("pop", lambda choose: None)],
}
"""Of each model: operations and their arguments, from few values so that they often meet again."""


def returned(model: Model, state: State, f: str, argument: Hashable) -> tuple[State, Hashable]:
    """What ``f`` returns from ``state``, and the state after it."""
    if f == "cas":
        result: Hashable = state == argument[0]  # type: ignore[index]
    elif f in ("read", "get", "fetch_add"):
        result = tuple(sorted(state)) if isinstance(state, frozenset) else state
        if f == "fetch_add" and not isinstance(state, int):
            return ILLEGAL, None
    elif f == "contains":
        result = argument in state  # type: ignore[operator]
    elif f in ("dequeue", "pop"):
        result = (state[0 if f == "dequeue" else -1]) if state else None  # type: ignore[index]
    else:
        result = None
    return model.step(state, Call(f, argument, result)), result


def random_spans(model: Model, choose: Choose, most: int, deadlines: bool = False, lies: int = 3) -> list[Interval]:
    """Operations that took effect in some order, some of unknown outcome, and then up to ``lies`` wrong results.

    Few instants, so that ties and overlaps are common.
    """
    planned = []
    now = 0
    for number in range(1, 1 + choose(most + 1)):
        now += choose(3)
        kinds = ARGUMENTS[model.name]
        f, argue = kinds[choose(len(kinds))]
        planned.append((now + choose(3), number, f, argue(choose), now))
    state, spans = model.initial, []
    crash = choose(now + 6) if deadlines else NEVER_PS
    for act, number, f, argument, begin in sorted(planned):
        after, result = returned(model, state, f, argument)
        if after is ILLEGAL:
            continue
        unknown = choose(4) == 0
        if unknown and choose(2):
            after = state  # it never took effect
        state = after
        if unknown:
            by = crash if crash >= begin else NEVER_PS
            spans.append(Interval(number, Call(f, argument, UNKNOWN), begin, None, by))
        else:
            spans.append(Interval(number, Call(f, argument, result), begin, act + choose(2)))
    for _ in range(choose(lies + 1)):
        known = [i for i, span in enumerate(spans) if span.return_ps is not None]
        if known:
            i = known[choose(len(known))]
            call = spans[i].call
            spans[i] = spans[i]._replace(call=Call(call.f, call.argument, lie(model, call, choose)))
    return sorted(spans, key=lambda span: span.number)


def lie(model: Model, call: Call, choose: Choose) -> Hashable:
    """A result that the operation may return from some state."""
    if model.operations[call.f][1] in (Takes.SUCCESS, Takes.TRUTH):
        return call.result is not True
    if model.operations[call.f][1] is Takes.LIST:
        return tuple(range(choose(4))) if choose(2) else (choose(3),)
    return None if choose(5) == 0 or call.result is None else choose(3)


def has_an_order(model: Model, spans: list[Interval]) -> bool:
    """Wing and Gong without anything: all choices of unknown operations, all orders that the intervals allow."""
    known = [(s.invoke_ps, s.return_ps or 0, s.call) for s in spans if s.return_ps is not None]
    unknown = [(s.invoke_ps, s.by_ps, s.call) for s in spans if s.return_ps is None]
    for taken in product((False, True), repeat=len(unknown)):
        rows = known + [row for row, take in zip(unknown, taken, strict=True) if take]
        if _orders(model, rows, model.initial):
            return True
    return False


def _orders(model: Model, rows: list[tuple[int, int, Call]], state: State) -> bool:
    if not rows:
        return True
    for i, (begin, _, call) in enumerate(rows):
        if any(other[1] < begin for other in rows):
            continue
        after = model.step(state, call)
        if after is not ILLEGAL and _orders(model, rows[:i] + rows[i + 1 :], after):
            return True
    return False


def is_legal(model: Model, spans: list[Interval], order: tuple[int, ...]) -> bool:
    """Whether ``order`` is what it says: all known operations, once each, not against time, and legal."""
    by_number = {span.number: span for span in spans}
    if len(set(order)) != len(order) or not {s.number for s in spans if s.return_ps is not None} <= set(order):
        return False
    state: State = model.initial
    latest = -1
    for number in order:
        span = by_number[number]
        latest = max(latest, span.invoke_ps)
        if (span.by_ps if span.return_ps is None else span.return_ps) < latest:
            return False
        state = model.step(state, span.call)
        if state is ILLEGAL:
            return False
    return True


def mutant(module: types.ModuleType, old: str, new: str) -> types.ModuleType:
    """``module`` with one piece of its text replaced."""
    source = inspect.getsource(module)
    assert source.count(old) == 1, f"{old!r} must stand once in {module.__name__}"
    broken = types.ModuleType(module.__name__)
    broken.__package__ = module.__package__
    exec(compile(source.replace(old, new), f"mutant of {module.__name__}", "exec"), broken.__dict__)
    return broken
