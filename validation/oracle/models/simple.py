"""The sequential models by name: registers, logs, sets, queues and stacks here, the rest in ``structures``."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence

from ....protocols.objects import OPERATIONS
from .model import FENCES, ILLEGAL, PUTS, READS, REMOVES, SYNCS, UNKNOWN, WRITES, Call, Model, State, Takes
from .structures import STRUCTURES

__all__ = [
    "FENCES", "ILLEGAL", "MODELS", "PUTS", "READS", "REMOVES", "SYNCS", "UNKNOWN", "WRITES",
    "Call", "Model", "State", "Takes",
]  # fmt: skip


def _register_step(state: State, call: Call) -> State:
    if call.f in WRITES:
        return call.argument
    if call.f in REMOVES:
        return None
    if call.f == "cas":
        expected, new = _pair(call.argument)
        if call.result is UNKNOWN:
            return new if state == expected else state
        if (state == expected) is not (call.result is True):
            return ILLEGAL
        return new if call.result is True else state
    if call.f == "put_if_absent":
        if call.result is not UNKNOWN and call.result is not (state is None):
            return ILLEGAL
        return call.argument if state is None else state
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
    if call.f == "put_if_absent":
        return call.result is False
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


def _text_step(state: State, call: Call) -> State:
    """What is absent reads as the empty text."""
    assert isinstance(state, str)
    if call.f == "append":
        return state + str(call.argument)
    if call.f in REMOVES:
        return ""
    if call.f in WRITES:
        return "" if call.argument is None else call.argument
    return state if call.result is UNKNOWN or ("" if call.result is None else call.result) == state else ILLEGAL


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


def _finds_nothing(call: Call) -> bool:
    return call.f in ("dequeue", "pop") and call.result is None


def _by_item(call: Call) -> Hashable:
    """The putting in and the taking out of one item belong together."""
    item = call.argument if call.f in PUTS else call.result
    return None if item is UNKNOWN or item is None else ("item", item)


_MODELS: Sequence[Model] = (
    Model("register", OPERATIONS["register"], None, _register_step, _register_inert, _register_related, register=True),
    Model("kv", OPERATIONS["kv"], None, _register_step, _register_inert, _register_related, register=True),
    Model("cas-register", OPERATIONS["cas-register"], None, _register_step, _register_inert, register=True),
    Model("append", OPERATIONS["append"], (), _append_step, _is("read")),
    Model("log", OPERATIONS["log"], (), _append_step, _is("read_all")),
    Model("set", OPERATIONS["set"], frozenset(), _set_step, _is("read", "contains")),
    Model("queue", OPERATIONS["queue"], (), _queue_step, _finds_nothing, _by_item),
    Model("stack", OPERATIONS["stack"], (), _stack_step, _finds_nothing, _by_item),
    Model("words", OPERATIONS["words"], None, _register_step, _register_inert, _register_related, register=True),
    *STRUCTURES,
    Model("counter", OPERATIONS["counter"], 0, _register_step, _register_inert),
    Model("kv-text", OPERATIONS["kv-text"], "", _text_step, lambda call: call.f in READS),
)
MODELS: Mapping[str, Model] = {model.name: model for model in _MODELS}
"""By name; where a history's operations fit several, the first is meant."""
