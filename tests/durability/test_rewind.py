"""Is a system that was taken back to its beginning as good as a new one?"""

from __future__ import annotations

import enum
import itertools
import types
from collections import deque

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpsim.sim.streams import Streams
from rpsim.validation.restart import FirstOrders, Restart
from rpsim.validation.rewind import CannotRewind, Rewind

from ..small import PLATFORMS, put, run, ycsb

CODE = (types.FunctionType, types.BuiltinFunctionType, types.MethodType)
ATOMS = (type(None), bool, int, float, str, bytes, range, type, enum.Enum)


def picture(root):
    """Everything that can be reached, as plain data; equal pictures mean equal objects, shared in the same way."""
    numbers, kept = {}, []

    def show(one):
        if isinstance(one, ATOMS):
            return repr(one)
        if isinstance(one, CODE):
            return one.__qualname__, show(getattr(one, "__self__", None)), [
                show(cell.cell_contents) for cell in getattr(one, "__closure__", None) or ()
            ]  # fmt: skip
        if isinstance(one, itertools.count):
            return repr(one)
        if isinstance(one, np.random.Generator):
            return repr(one.bit_generator.state)
        if id(one) in numbers:
            return numbers[id(one)]
        numbers[id(one)] = len(numbers)
        kept.append(one)
        if isinstance(one, dict):
            content = [(show(key), show(value)) for key, value in one.items()]
        elif isinstance(one, (list, tuple, deque)):
            content = [show(each) for each in one]
        elif isinstance(one, (set, frozenset)):
            content = sorted(map(repr, one))
        elif isinstance(one, bytearray):
            content = bytes(one)
        else:
            slots = [name for base in type(one).__mro__ for name in getattr(base, "__slots__", ())]
            there = {name: getattr(one, name) for name in slots if hasattr(one, name)}
            content = [(name, show(value)) for name, value in {**getattr(one, "__dict__", {}), **there}.items()]
        return type(one).__qualname__, content

    return show(root)


def fresh(result):
    """What a restart builds."""
    return Restart(result)._build()[1]


@pytest.mark.parametrize(("platform", "ddio"), PLATFORMS)
@pytest.mark.parametrize("scheme", ["client-active", "saw", "efactory"])
def test_after_restarts_the_machines_and_the_store_are_like_new(scheme, platform, ddio):
    result = run(scheme, ycsb(12, "update-only"), platform, ddio, processes=3, keys=2, value="24 B")
    restart = Restart(result)
    views, last_ps = restart.views(), result.system.clock.now_ps
    for at_ps in range(0, last_ps, last_ps // 10):
        for name in ("k0", "k1"):
            restart.read(name, lambda key, at_ps=at_ps: views.newest(key, at_ps))
    assert restart._rewind is not None, "these stores need not be built anew each time"
    restart._rewind()
    new = fresh(result)
    # Where the byte spaces get their lines from is set by each restart.
    for store in (new, restart._built[1]):
        for _, device in store.system.devices().values():
            device.space.restore(bytes)
    assert picture(restart._built[1]) == picture(new)


def test_a_picture_shows_what_a_run_leaves_behind():
    """The comparison would be empty if pictures were always equal."""
    result = run("saw", [put(0, "k0")])
    assert picture(fresh(result)) == picture(fresh(result))
    assert picture(result.scheme) != picture(fresh(result))


def test_rewound_or_new_recovery_finds_the_same(monkeypatch):
    result = run("efactory", ycsb(30), processes=3, keys=3, value="24 B")
    views, last_ps = Restart(result).views(), result.system.clock.now_ps

    def found():
        restart = Restart(result)
        return [
            restart.read(name, lambda key, at_ps=at_ps: next(views.contents(key, at_ps, {})).data)
            for at_ps in range(0, last_ps, last_ps // 20)
            for name in result.initial
        ]

    rewound = found()

    def refused(self, *roots):
        raise CannotRewind("a test")

    monkeypatch.setattr(Rewind, "__init__", refused)
    assert found() == rewound
    assert len(set(rewound)) > 3


class Thing:
    __slots__ = ("absent", "items", "number")

    def __init__(self):
        self.number = 1
        self.items = deque([1])


def test_everything_mutable_comes_back():
    class Plain:
        pass

    cell = 5

    def nested():
        return cell

    def later():
        nonlocal cell
        cell = 6

    one, thing, draws = Plain(), Thing(), np.random.default_rng(1)
    one.parts = {"thing": thing, "list": [[1], bytearray(b"ab")], "set": {1, 2}, "draws": draws, "code": nested}
    one.numbers = itertools.count(3)
    one.array = np.arange(3)
    inner = one.parts["list"][0]
    back = Rewind(one)
    first = draws.random()
    assert next(one.numbers) == 3
    thing.number, thing.absent = 2, 1
    thing.items.append(2)
    inner.append(2)
    one.parts["list"][1][0] = 0
    one.parts["set"].add(3)
    one.array[0] = 9
    one.more = one.parts.pop("set")
    later()
    back()
    assert (thing.number, list(thing.items), hasattr(thing, "absent")) == (1, [1], False)
    assert one.parts["list"] == [[1], bytearray(b"ab")] and one.parts["list"][0] is inner
    assert one.parts["set"] == {1, 2} and not hasattr(one, "more")
    assert (draws.random(), nested(), next(one.numbers), one.array[0]) == (first, 5, 3, 0)


@pytest.mark.parametrize("one", [(n for n in range(3)), iter([1]), itertools.count(0, 2), open])
def test_what_cannot_be_put_back_is_refused(one):
    class Plain:
        pass

    holder = Plain()
    holder.it = one
    if one is open:
        Rewind(holder)  # a function without state
        return
    with pytest.raises(CannotRewind):
        Rewind(holder)


@given(st.integers(0, 3), st.lists(st.lists(st.integers(2, 40), max_size=12), min_size=1, max_size=4))
def test_after_each_restart_an_arbiter_draws_what_its_stream_draws_from_the_beginning(seed, restarts):
    orders = FirstOrders(seed, "arbiter")
    back = Rewind(orders)
    for counts in restarts:  # whatever was drawn by the restarts before, and however far
        back()
        stream = Streams(seed).stream("arbiter")
        assert [orders.permutation(count) for count in counts] == [tuple(stream.permutation(count)) for count in counts]
