"""Is a system that was taken back to its beginning as good as a new one?"""

from __future__ import annotations

import enum
import itertools
import re
import types
from collections import deque
from itertools import islice

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpsim.models.profiles.platform import load_platform
from rpsim.models.system import NodeSpec, System
from rpsim.protocols.efactory.saw import Saw
from rpsim.protocols.parts.kv import Allocate
from rpsim.protocols.scheme import OperationFailed
from rpsim.scenarios.history import Unread
from rpsim.sim.stations import Fifo
from rpsim.sim.streams import Streams
from rpsim.validation.crash.outcomes import Outcomes
from rpsim.validation.crash.restart import BUILT_ANEW, FirstOrders, Restart
from rpsim.validation.crash.rewind import CannotRewind, Rewind

from ..small import PLATFORMS, put, run, ycsb

CODE = (types.FunctionType, types.BuiltinFunctionType, types.MethodType)
ATOMS = (type(None), bool, int, float, str, bytes, range, type, enum.Enum)


def picture(root):
    """Everything that can be reached, as plain data; equal pictures mean equal objects, shared in the same way."""
    numbers, kept = {}, []

    def show(one):
        if isinstance(one, ATOMS):
            return repr(one)
        if isinstance(one, types.FunctionType) and one.__closure__:  # closures may know one another
            if id(one) in numbers:
                return numbers[id(one)]
            numbers[id(one)] = len(numbers)
            kept.append(one)
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
    return Restart(result)._build().scheme


@pytest.mark.long
@pytest.mark.parametrize(("platform", "ddio"), PLATFORMS)
@pytest.mark.parametrize("scheme", ["client-active", "saw", "efactory"])
def test_after_restarts_the_machines_and_the_store_are_like_new(scheme, platform, ddio):
    result = run(scheme, ycsb(12, "update-only"), platform, ddio, processes=3, keys=2, value="24 B")
    restart = Restart(result)
    views, last_ps = restart.views(), result.system.clock.now_ps
    for at_ps in range(0, last_ps, last_ps // 10):
        for name in ("k0", "k1"):
            restart.read(name, lambda key, at_ps=at_ps: views.newest(key, at_ps))
    restart.read("k0", restart.initial, whole=True)
    needy = scheme == "efactory"
    assert (restart._off if needy else restart._up) is not None, "these stores need not be built anew each time"
    for kept, made in ((restart._off, Restart._build), (restart._up, Restart._brought_up)):
        if kept is not None:
            kept.rewind()
            new = made(Restart(result))
            # Where the byte spaces get their lines from is set by each restart.
            for machines in (new, kept):
                for _, device in machines.system.devices().values():
                    device.space.restore(bytes)
            assert picture((kept.scheme, kept.session)) == picture((new.scheme, new.session))


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


def read_all_over(restart, result, views):
    """What is read of each object from many images, and by how many restarts."""
    last_ps = result.system.clock.now_ps
    trees = [Outcomes(name, restart, views.contents, views.pieces.__contains__) for name in result.initial]
    found = [
        (outcome.value, outcome.image)
        for at_ps in range(0, last_ps, last_ps // 40)
        for tree in trees
        for outcome in islice(tree.at(at_ps), 100)
    ]
    return found, restart.runs


@pytest.mark.long
@pytest.mark.parametrize(("platform", "ddio"), PLATFORMS)
@pytest.mark.parametrize("scheme", ["client-active", "saw", "line over read-after-write"])
def test_servers_that_have_started_before_memory_is_there_answer_as_those_that_start_after(scheme, platform, ddio):
    result = run(scheme, ycsb(20, "update-only"), platform, ddio, processes=3, keys=3, value="64 B", whole_lines=True)
    quick, plain = Restart(result), Restart(result)
    plain._needs = None
    views = plain.views()
    assert read_all_over(quick, result, views) == read_all_over(plain, result, views)
    assert quick._up is not None and plain._up is None
    assert quick.runs > 2 * BUILT_ANEW


class LooksFirst(Saw):
    """Its server looks at memory as it starts."""

    class Server(Saw.Server):
        def start(self):
            self.first = self.pm.space.peek(self.log - self.pm.base, 64)
            super().start()


class Asks(Saw):
    """A get has the server do something first."""

    class Client(Saw.Client):
        def get(self, session, key):
            yield from session.connection.call(Allocate, key=key, length=64)
            return (yield from super().get(session, key))


class Refuses(Saw):
    """Nobody can connect."""

    class Client(Saw.Client):
        def connect(self, thread):
            raise OperationFailed("full")


def test_what_fails_in_the_middle_of_a_restart_fails_alike_beforehand():
    result = run("saw", [put(0, "k0")])
    result.scheme.__class__ = Refuses
    restart = Restart(result)
    found = {restart.read("k0", restart.initial) for _ in range(2 * BUILT_ANEW)}
    assert found == {Unread("the read fails: full")}


@pytest.mark.parametrize("kind", [LooksFirst, Asks])
def test_servers_that_look_at_memory_or_are_asked_start_anew_each_time(kind):
    result = run("saw", ycsb(20, "update-only"), processes=3, keys=3)
    views = Restart(result).views()
    plain = read_all_over(Restart(result), result, views)
    result.scheme.__class__ = kind
    restart = Restart(result)
    found, runs = read_all_over(restart, result, views)
    assert restart._up is None and restart._off is not None and runs > 2 * BUILT_ANEW
    values = [value for value, _ in found]
    if kind is Asks:
        assert (found, runs) == plain
    else:
        assert set(values) == {value for value, _ in plain[0]}


def test_code_that_has_begun_to_run_cannot_be_put_back():
    def code(numbers):
        numbers.append(1)
        yield
        yield

    class Plain:
        pass

    one = Plain()
    one.numbers = [0]
    one.code = code(one.numbers)
    back = Rewind(one)
    one.numbers.append(5)
    back()
    assert one.numbers == [0]
    next(one.code)
    with pytest.raises(CannotRewind):
        back()
    with pytest.raises(CannotRewind):
        Rewind(one)


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


def test_objects_of_the_models_are_put_back_from_the_first_time_that_they_are_changed():
    buffer, other = Fifo(), Fifo()
    buffer.free_ps = other.free_ps = 3
    back = Rewind([buffer, other])
    for turn in range(1, 3):
        buffer.free_ps = turn
        back()
        assert (buffer.free_ps, other.free_ps) == (3, 3)
    assert isinstance(other, Fifo) and other.__class__ is Fifo
    assert type(other) is not type(buffer) is Fifo, "the other one is still watched"
    del other.free_ps
    back()
    assert other.free_ps == 3


def test_the_models_set_attributes_in_no_way_that_watching_would_miss(root):
    ways = re.compile(r"\b__dict__\b|\bvars\(|object\.__setattr__|\b__setattr__\b")
    files = [path for floor in ("models", "sim") for path in (root / floor).rglob("*.py")]
    found = [path.name for path in files if ways.search(text := path.read_text()) and "frozen=True" not in text]
    assert files and found == []


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


@pytest.mark.long
@given(st.integers(0, 3), st.lists(st.lists(st.integers(2, 40), max_size=12), min_size=1, max_size=4))
def test_after_each_restart_an_arbiter_draws_what_its_stream_draws_from_the_beginning(seed, restarts):
    orders = FirstOrders(seed, "arbiter")
    back = Rewind(orders)
    for counts in restarts:  # whatever was drawn by the restarts before, and however far
        back()
        stream = Streams(seed).stream("arbiter")
        assert [orders.permutation(count) for count in counts] == [tuple(stream.permutation(count)) for count in counts]


def test_code_that_nobody_resumes_is_closed_and_what_has_not_begun_is_left():
    system = System(load_platform("optane-adr"), {"server": [NodeSpec(1, ("dram",))]}, seed=1)
    (node,) = system.nodes["server"]
    closed = []

    def code(name):
        try:
            yield system.clock.timeout(10)
        finally:
            closed.append(name)

    node.process("one").start(code("begun"))
    system.clock.run_until(5)
    node.process("one").start(code("not begun"))
    node.abandon()
    assert closed == ["begun"]
    system.clock.run_until(20)
    assert closed == ["begun", "not begun"]
