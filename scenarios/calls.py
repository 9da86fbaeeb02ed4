"""Operations as bytes: what a client is asked to perform, and what it found, by the model of the scheme's objects.

A history holds stamps where memory holds bytes (:mod:`.values`): arguments are encoded here and results decoded.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterable, Sequence
from typing import Any

from ..protocols.objects import LOOKS, OPERATIONS, TAKES_OUT, TRANSACTIONAL, Takes
from ..protocols.scheme import OperationFailed, Request, RequestStep, Role, Scheme
from .history import Number, Operation, Removed, Torn, Unread, Value
from .values import decode_value, encode_value


def argument_of(kind: type[Scheme], f: str, given: Hashable, stamp: int) -> Value:
    """What an operation takes, as a history has it.

    ``stamp`` is what it writes, if it writes. ``given`` is the rest: an amount, a size or an address; the stamp that a
    compare-and-swap expects (None: absent); the stamp of the element that a set is asked for; of a transaction its
    steps, each (kind, object), behind which ``add`` has a number.
    """
    if f in kind.removals:
        return Removed(stamp)
    takes = _takes(kind.model, f, kind.updates)
    if takes is Takes.TXN:
        assert isinstance(given, tuple)
        return tuple(_plain_step(stamp, what, name) for what, name, *_ in given)
    if takes is Takes.POSTING:
        assert isinstance(given, tuple)
        return tuple(_posting(stamp, *step) for step in given)
    if takes is Takes.PAIR:
        return (given, stamp)
    if takes in (Takes.NUMBER, Takes.SIZE):
        assert given is None or isinstance(given, int)
        amount = 1 if given is None and takes is Takes.NUMBER else given
        return None if amount is None else Number(amount)
    if f in ("contains", "remove"):
        assert isinstance(given, int)
        return given
    return stamp if takes in (Takes.VALUE, Takes.ITEM) else None


def given_by(f: str, argument: Value) -> tuple[Hashable, int | None]:
    """The other way round: what was given, and the stamp, if there was one."""
    if f == "txn" and isinstance(argument, tuple):
        steps = [_given(*step) for step in argument]
        stamps = [stamp for _, stamp in steps if stamp is not None]
        return tuple(step for step, _ in steps), stamps[0] if stamps else None
    if isinstance(argument, tuple):
        return argument[0], argument[1]
    if isinstance(argument, Number) or f in ("contains", "remove"):
        return argument, None
    return None, argument if isinstance(argument, int) else None


def _plain_step(stamp: int, what: str, name: Hashable) -> tuple[str, Hashable, int | None]:
    """A step as a history of the model ``txn`` has it: objects hold values alone."""
    if what in ("r", "delete"):
        return "r" if what == "r" else "w", name, None
    return "append" if what == "append" else "w", name, stamp


def _posting(stamp: int, what: str, name: Hashable, number: int = 0) -> tuple[str, Hashable, Value]:
    """A step as a history of the model ``accounts`` has it: objects hold a value and a number."""
    if what in ("r", "delete"):
        return "look" if what == "r" else "w", name, None
    return (what, name, stamp) if what in ("out", "in") else ("add", name, (stamp, Number(number)))


def _given(what: str, name: Hashable, value: Value) -> tuple[tuple[Hashable, ...], int | None]:
    """The other way round: the step as it was planned, and its stamp."""
    if what in LOOKS:
        return ("r", name), None
    if value is None:
        return ("delete", name), None
    if isinstance(value, tuple):
        return ("add", name, int(value[1])), value[0]
    assert isinstance(value, int)
    return (what, name), value


def step_of(operation: Operation, value_bytes: int) -> tuple[RequestStep, ...]:
    """The steps of an operation: one, or those of a transaction."""
    f, name, argument = operation.f, operation.object, operation.argument
    if f == "txn" and isinstance(argument, tuple):
        return tuple(_requested(what, each, stamp, value_bytes) for what, each, stamp in argument)
    if isinstance(argument, tuple):
        expected, stamp = argument
        before = None if expected is None else encode_value(expected, value_bytes)
        return (RequestStep(f, name, encode_value(stamp, value_bytes), before),)
    if isinstance(argument, Number):
        return (RequestStep(f, name, number=int(argument)),)
    if isinstance(argument, int) and not isinstance(argument, Removed):
        return (RequestStep(f, name, encode_value(argument, value_bytes)),)
    return (RequestStep(f, name),)


def _requested(what: str, name: Hashable, value: Value, value_bytes: int) -> RequestStep:
    """A step of a transaction as a scheme gets it."""
    number = None
    if isinstance(value, tuple):
        value, number = value
    data = encode_value(value, value_bytes) if isinstance(value, int) else None
    return RequestStep({"look": "r", "add": "w"}.get(what, what), name, data, number=number)


def result_of(kind: type[Scheme], operation: Operation, found: Any, value_bytes: int) -> Value:
    """What an operation returned, out of what ``perform`` did."""
    return _result(kind, operation.f, operation.argument, found, value_bytes)


def _result(kind: type[Scheme], f: str, argument: Value, found: Any, value_bytes: int) -> Value:
    match _returns(kind.model, f, kind.updates):
        case Takes.TXN:
            assert isinstance(argument, tuple)
            return tuple(
                (what, name, _value(each, value_bytes) if what == "r" else stamp)
                for (what, name, stamp), each in zip(argument, found, strict=True)
            )
        case Takes.POSTING:
            assert isinstance(argument, tuple)
            return tuple(
                (what, name, _entry(each, value_bytes) if what == "look" else given)
                for (what, name, given), each in zip(argument, found, strict=True)
            )
        case Takes.NUMBER:
            return Number(found)
        case Takes.BLOCK:
            return None if found is None else Number(found)
        case Takes.TRUTH | Takes.SUCCESS:
            return bool(found)
        case Takes.LIST:
            return tuple(_value(each, value_bytes) for each in found)
        case Takes.VALUE:
            return _value(found, value_bytes)
    return None


def _value(found: bytes | None, value_bytes: int) -> Value:
    return None if found is None else decode_value(found, value_bytes)


def _entry(found: tuple[bytes, int] | None, value_bytes: int) -> Value:
    return None if found is None else (decode_value(found[0], value_bytes), Number(found[1]))


def _takes(model: str, f: str, updates: frozenset[str]) -> Takes:
    signature = OPERATIONS[model].get(f)
    return (Takes.VALUE if f in updates else Takes.NOTHING) if signature is None else signature.argument


def _returns(model: str, f: str, updates: frozenset[str]) -> Takes:
    signature = OPERATIONS[model].get(f)
    return (Takes.SAME if f in updates else Takes.VALUE) if signature is None else signature.result


# after a crash ----------------------------------------------------------------------------------------------


def probing(scheme: Scheme, client: Role, session: Any, name: Hashable) -> Generator[Any, Any, Value]:
    """A fresh client finds out what became of an object; returns what it reads, or a tuple of what it takes out.

    A read that the store refuses is :class:`Unread`; errors of verbs are raised.
    """
    request = scheme.probe(name)
    if request.steps[0].f in TAKES_OUT:
        return (yield from _emptied(scheme, client, session, request))
    try:
        found = yield from client.perform(session, request)
    except OperationFailed as error:
        return Unread(str(error))
    return result_of(type(scheme), probe_of(scheme, name), found, scheme.sizes.value_bytes)


def _emptied(scheme: Scheme, client: Role, session: Any, request: Request) -> Generator[Any, Any, Value]:
    """Take something out until nothing comes, or until it is clear that there is no end to it."""
    items: list[Value] = []
    step, most = request.steps[0], scheme.sizes.updates + len(scheme.sizes.objects)
    while True:
        try:
            found = yield from client.perform(session, request)
        except OperationFailed as error:
            return (*items, Unread(str(error)))
        item = _result(type(scheme), step.f, None, found, scheme.sizes.value_bytes)
        if item is None:
            return tuple(items)
        if len(items) >= most and item in items:
            return (*items, Torn(f"it never gets empty: after {len(items)} items it begins again"))
        items.append(item)


def probe_of(scheme: Scheme, name: Hashable, number: int = 0, process: int = -1) -> Operation:
    """The operation by which a fresh client asks for an object, for a history."""
    steps = scheme.probe(name).steps
    if scheme.model in TRANSACTIONAL:
        look = "r" if scheme.model == "txn" else "look"
        argument: Value = tuple((look, step.object, None) for step in steps)
        return Operation(number, process, "txn", tuple(step.object for step in steps), argument, 0)
    (step,) = steps
    argument = None if step.number is None else Number(step.number)
    return Operation(number, process, step.f, step.object, argument, 0)


def probes(probe: Operation, value: Value) -> Iterable[tuple[str, Value, Value]]:
    """The operations of a fresh client by which ``value`` was found: (operation, argument, result) each."""
    if probe.f not in TAKES_OUT:
        return [(probe.f, probe.argument, value)]
    items: Sequence[Value] = value if isinstance(value, tuple) else (value,)
    return [(probe.f, probe.argument, item) for item in (*items, None)]
