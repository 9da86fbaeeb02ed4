"""Models of larger objects: ordered maps, transactions, allocators, files."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

from ....protocols.objects import LOOKS, OPERATIONS
from .model import ILLEGAL, UNKNOWN, Call, Model, State


def _tuple(value: Hashable) -> tuple[Hashable, ...]:
    assert isinstance(value, tuple)
    return value


def _dict(state: State) -> dict[Hashable, Hashable]:
    """A state that is a set of (key, value)."""
    assert isinstance(state, frozenset)
    return dict(state)


def _agrees(call: Call, result: Hashable) -> bool:
    return call.result is UNKNOWN or call.result == result


# ordered map: texts come after numbers --------------------------------------------------------------------------


def _rank(key: Hashable) -> tuple[bool, Any]:
    return isinstance(key, str), key


def _map_step(state: State, call: Call) -> State:
    entries = _dict(state)
    if call.f == "insert":
        key, value = _tuple(call.argument)
        return frozenset((entries | {key: value}).items())
    if call.f == "delete":
        return frozenset((k, v) for k, v in entries.items() if k != call.argument)
    if call.f == "find":
        return state if _agrees(call, entries.get(call.argument)) else ILLEGAL
    low, high = _tuple(call.argument)
    found = [
        (key, value)
        for key, value in entries.items()
        if (low is None or _rank(low) <= _rank(key)) and (high is None or _rank(key) <= _rank(high))
    ]
    return state if _agrees(call, tuple(sorted(found, key=lambda entry: _rank(entry[0])))) else ILLEGAL


def _map_inert(call: Call) -> bool:
    return call.f in ("find", "scan")


def _map_parts(call: Call) -> tuple[Hashable, ...] | None:
    if call.f == "scan":
        return None
    return (_tuple(call.argument)[0] if call.f == "insert" else call.argument,)


# transactions: a list of micro-operations takes effect at once --------------------------------------------------


def _txn_step(state: State, call: Call) -> State:
    held = _dict(state)
    told = _tuple(call.argument) if call.result is UNKNOWN else _tuple(call.result)
    for asked, answered in zip(_tuple(call.argument), told, strict=True):
        kind, key, value = _tuple(asked)
        if kind == "w":
            held[key] = value
        elif kind == "append":
            held[key] = (*_tuple(held.get(key, ())), value)
        elif call.result is not UNKNOWN and _tuple(answered)[2] != held.get(key):
            empty = _tuple(answered)[2] in (None, ()) and held.get(key) in (None, ())
            if not empty:  # an empty list may be told as null
                return ILLEGAL
    return frozenset(held.items())


def _txn_inert(call: Call) -> bool:
    return all(_tuple(micro)[0] in LOOKS for micro in _tuple(call.argument))


def _txn_parts(call: Call) -> tuple[Hashable, ...]:
    return tuple(_tuple(micro)[1] for micro in _tuple(call.argument))


# accounts: the same where an object holds a number beside its value ------------------------------------------------


def _accounts_step(state: State, call: Call) -> State:
    """``add`` changes an object's number by so much, ``out`` takes all of it, ``in`` puts in what was taken out."""
    held, taken = _dict(state), 0
    told = call.argument if call.result is UNKNOWN else call.result
    for asked, answered in zip(_tuple(call.argument), _tuple(told), strict=True):
        kind, key, value = _tuple(asked)
        if kind == "look":
            if call.result is not UNKNOWN and _tuple(answered)[2] != held.get(key):
                return ILLEGAL
            continue
        if value is None:
            held.pop(key, None)
            continue
        before = number_of(held.get(key))
        if kind == "add":
            writer, change = _tuple(value)
            assert isinstance(change, int)
            held[key] = (writer, before + change)
        elif kind == "out":
            taken += before
            held[key] = (value, 0)
        else:
            held[key] = (value, before + taken)
    return frozenset(held.items())


def number_of(entry: Hashable) -> int:
    """The number that an object holds beside its value; 0 where it is absent, or what was found is no number."""
    number = entry[1] if isinstance(entry, tuple) and len(entry) == 2 else 0
    return number if isinstance(number, int) else 0


# allocator: live blocks are disjoint ------------------------------------------------------------------------------


def _block(call: Call) -> tuple[int, int]:
    """Address and size of what an ``alloc`` returned; a block of unknown size counts as one byte."""
    size = call.argument if isinstance(call.argument, int) else 1
    result = call.result
    if isinstance(result, tuple):
        assert isinstance(result[0], int) and isinstance(result[1], int)
        return result[0], result[1]
    assert isinstance(result, int)
    return result, size


def _allocator_step(state: State, call: Call) -> State:
    live = _dict(state)
    if call.f == "free":
        if call.argument not in live:
            return ILLEGAL
        return frozenset((address, size) for address, size in live.items() if address != call.argument)
    if call.result is UNKNOWN or call.result is None:
        return state
    address, size = _block(call)
    for other, other_size in live.items():
        assert isinstance(other, int) and isinstance(other_size, int)
        if address < other + other_size and other < address + size:
            return ILLEGAL
    return frozenset((live | {address: size}).items())


def _allocator_inert(call: Call) -> bool:
    """An ``alloc`` that got nothing, or one whose answer was never seen (its block leaked, wherever it is)."""
    return call.f == "alloc" and (call.result is None or call.result is UNKNOWN)


# file: bytes are characters ---------------------------------------------------------------------------------------


def _file_step(state: State, call: Call) -> State:
    assert isinstance(state, str)
    if call.f == "append":
        return state + str(call.argument)
    if call.f == "truncate":
        assert isinstance(call.argument, int)
        return state[: call.argument].ljust(call.argument, "\0")
    if call.f == "size":
        return state if _agrees(call, len(state)) else ILLEGAL
    offset, what = _tuple(call.argument)
    assert isinstance(offset, int)
    if call.f == "write":
        text = str(what)
        return state[:offset].ljust(offset, "\0") + text + state[offset + len(text) :]
    assert isinstance(what, int)
    return state if _agrees(call, state[offset : offset + what]) else ILLEGAL


def _file_inert(call: Call) -> bool:
    return call.f in ("read", "size")


STRUCTURES: Sequence[Model] = (
    Model("ordered-map", OPERATIONS["ordered-map"], frozenset(), _map_step, _map_inert, parts=_map_parts),
    Model("txn", OPERATIONS["txn"], frozenset(), _txn_step, _txn_inert, parts=_txn_parts),
    Model("accounts", OPERATIONS["accounts"], frozenset(), _accounts_step, _txn_inert, parts=_txn_parts),
    Model("allocator", OPERATIONS["allocator"], frozenset(), _allocator_step, _allocator_inert),
    Model("file", OPERATIONS["file"], "", _file_step, _file_inert),
)
