"""Sequential models: what an object does if its operations come one after the other.

A model is a record of pure functions over immutable states; a model of one's own is another such record. The result of
an operation whose response nobody saw is UNKNOWN: then the operation may have returned anything. Every model speaks of
one object; a history's objects are judged one by one (linearizability is local: Herlihy, Wing, TOPLAS 12(3), 1990).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

State = Hashable


class _Sign(Enum):
    UNKNOWN = "unknown"
    ILLEGAL = "illegal"


UNKNOWN: Final = _Sign.UNKNOWN
"""In place of a result: nobody saw the response."""
ILLEGAL: Final = _Sign.ILLEGAL
"""In place of a state: from this state the operation could not have returned that."""


@dataclass(frozen=True, slots=True)
class Call:
    """One operation: what was asked for and what came back (or UNKNOWN)."""

    f: str
    argument: Hashable = None
    result: Hashable = None


class Takes(Enum):
    """What the ``value`` of an invocation, or of its ``ok``, must be."""

    NOTHING = "no value"
    VALUE = "a value"
    NUMBER = "a whole number"
    PAIR = "a list of two: [expected, new]"
    LIST = "a list of values"
    ITEM = "a value, not null"
    TRUTH = "true or false"
    SUCCESS = "true, false, or the invocation's value again (it succeeded)"
    SAME = "nothing, or the invocation's value again"


@dataclass(frozen=True)
class Model:
    """``step`` gives the state after a call, or ILLEGAL.

    ``inert`` says that a call leaves every state as it is from which it is legal: so it can be placed as soon as it
    fits, a call of unknown result can be left out, and every one can be taken away without making others illegal.
    ``related`` names calls that can be taken away together: without all calls of that name a legal sequence stays
    legal. None where there is no such name. (Both serve to show a small failing piece.)
    """

    name: str
    operations: Mapping[str, tuple[Takes, Takes]]
    initial: State
    step: Callable[[State, Call], State]
    inert: Callable[[Call], bool]
    related: Callable[[Call], Hashable]


WRITES = ("write", "put", "create", "insert")
READS = ("read", "get", "find")


def _register_step(state: State, call: Call) -> State:
    if call.f in WRITES:
        return call.argument
    if call.f == "delete":
        return None
    if call.f == "cas":
        expected, new = _pair(call.argument)
        if call.result is UNKNOWN:
            return new if state == expected else state
        if (state == expected) is not (call.result is True):
            return ILLEGAL
        return new if call.result is True else state
    if call.f == "fetch_add":
        if not isinstance(state, int) or not isinstance(call.argument, int) or call.result not in (state, UNKNOWN):
            return ILLEGAL
        return state + call.argument
    return state if call.result in (state, UNKNOWN) else ILLEGAL


def _register_inert(call: Call) -> bool:
    """Reads; comparisons that failed, or that exchange a value for itself; adding nothing. Not a write of what is there
    (it orders itself among the reads), not a comparison of unknown outcome."""
    if call.f == "cas":
        expected, new = _pair(call.argument)
        return call.result is False or expected == new
    return call.f in READS or (call.f == "fetch_add" and call.argument == 0)


def _register_related(call: Call) -> Hashable:
    """A value's writes and reads: the reads of another value still have their own write before them."""
    if call.f in READS:
        return None if call.result is UNKNOWN else ("value", call.result)
    return ("value", call.argument if call.f in WRITES else None)


def _pair(argument: Hashable) -> tuple[Hashable, Hashable]:
    assert isinstance(argument, tuple)
    return argument[0], argument[1]


def _items(state: State) -> tuple[Hashable, ...]:
    assert isinstance(state, tuple)
    return state


def _append_step(state: State, call: Call) -> State:
    if call.f == "append":
        return (*_items(state), call.argument)
    return state if call.result in (state, UNKNOWN) else ILLEGAL


def _queue_step(state: State, call: Call) -> State:
    items = _items(state)
    if call.f == "enqueue":
        return (*items, call.argument)
    head = items[0] if items else None
    return items[1:] if call.result in (head, UNKNOWN) else ILLEGAL


def _stack_step(state: State, call: Call) -> State:
    items = _items(state)
    if call.f == "push":
        return (*items, call.argument)
    top = items[-1] if items else None
    return items[:-1] if call.result in (top, UNKNOWN) else ILLEGAL


def _set_step(state: State, call: Call) -> State:
    assert isinstance(state, frozenset)
    if call.f == "add":
        return state | {call.argument}
    if call.f == "remove":
        return state - {call.argument}
    if call.f == "contains":
        return state if call.result in (call.argument in state, UNKNOWN) else ILLEGAL
    if call.result is UNKNOWN:
        return state
    result = _items(call.result)
    return state if len(result) == len(state) and state == frozenset(result) else ILLEGAL


def _is(*names: str) -> Callable[[Call], bool]:
    return lambda call: call.f in names


def _nothing(call: Call) -> Hashable:
    return None


def _finds_nothing(call: Call) -> bool:
    return call.f in ("dequeue", "pop") and call.result is None


def _by_item(call: Call) -> Hashable:
    """What is put in and what comes out again go together."""
    item = call.argument if call.f in ("enqueue", "push") else call.result
    return None if item is UNKNOWN or item is None else ("item", item)


_READ = (Takes.NOTHING, Takes.VALUE)
_WRITE = (Takes.VALUE, Takes.SAME)
_PUT_IN = (Takes.ITEM, Takes.SAME)
_READ_LIST = (Takes.NOTHING, Takes.LIST)
_REGISTER = {f: _READ for f in READS} | {f: _WRITE for f in WRITES if f != "insert"}
_KV = _REGISTER | {"insert": _WRITE, "delete": (Takes.NOTHING, Takes.SAME)}
_CAS = _REGISTER | {"cas": (Takes.PAIR, Takes.SUCCESS), "fetch_add": (Takes.NUMBER, Takes.NUMBER)}
_SET = {"add": _WRITE, "remove": _WRITE, "contains": (Takes.VALUE, Takes.TRUTH), "read": _READ_LIST}

_MODELS: Sequence[Model] = (
    Model("register", _REGISTER, None, _register_step, _register_inert, _register_related),
    Model("kv", _KV, None, _register_step, _register_inert, _register_related),
    Model("cas-register", _CAS, None, _register_step, _register_inert, _nothing),
    Model("append", {"append": _WRITE, "read": _READ_LIST}, (), _append_step, _is("read"), _nothing),
    Model("log", {"append": _WRITE, "read_all": _READ_LIST}, (), _append_step, _is("read_all"), _nothing),
    Model("set", _SET, frozenset(), _set_step, _is("read", "contains"), _nothing),
    Model("queue", {"enqueue": _PUT_IN, "dequeue": _READ}, (), _queue_step, _finds_nothing, _by_item),
    Model("stack", {"push": _PUT_IN, "pop": _READ}, (), _stack_step, _finds_nothing, _by_item),
)
MODELS: Mapping[str, Model] = {model.name: model for model in _MODELS}
"""By name; where a history's operations fit several, the first is meant."""
