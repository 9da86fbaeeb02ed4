"""States whose runs are known before they are executed, since nobody looks at what memory holds otherwise."""

from __future__ import annotations

import gc
import weakref

import pytest

from rpsim.models.durability.views import Content
from rpsim.sim.bytespace import LINE_BYTES, ByteSpace
from rpsim.sim.collector import collect_young, seldom_collecting
from rpsim.sim.onlooker import Fetched
from rpsim.validation.crash.executed import asked, execute
from rpsim.validation.crash.repeats import KnownRuns, Looks, Touched
from rpsim.validation.crash.strikes import Walk

from ..protocols.pdpm.nodes import small
from ..small import get, only_variant, put

WORK = [put(0, "k0"), get(0, "k0")]
LINE = bytes(range(LINE_BYTES))


def failing(scheme, **crash):
    return small(scheme, WORK, value="16 B", keys=1, machines=1, domain="adr", ddio="off",
                 crash={"fault": "data[0] power", "down": "1 ms", **crash})  # fmt: skip


def walked(made, some, *, repeats):
    """Of each state, in order, of some of the instants: what clients saw and when, and how it ended."""
    walk, found, by_number = Walk(made, only_variant(made)), [], {}
    repeated = (lambda number: found.append(by_number[number])) if repeats else None
    for state in walk.states(walk.instants[some], repeated):
        after = state.aftermath
        seen = [(o.f, o.object, o.invoke_ps, o.return_ps, o.outcome, str(o.result)) for o in after.history.operations]
        by_number[state.number] = seen, after.finished, after.settled_ps, after.result.system.clock.now_ps
        found.append(by_number[state.number])
    assert walk.runs == len(found)
    return found, len(by_number)


@pytest.mark.long
@pytest.mark.parametrize("scheme, some", [("clover", slice(4, 7)), ("clover[replicas=2]", slice(5, 8))])
def test_a_known_state_is_as_if_it_had_been_executed(scheme, some):
    """Some instants behind which memory may hold many things."""
    made = failing(scheme)
    known, runs = walked(made, some, repeats=True)
    every, all_runs = walked(made, some, repeats=False)
    assert known == every
    assert all_runs == len(every) > runs


@pytest.mark.long
def test_states_would_be_confused_if_nobody_noted_what_is_looked_at(monkeypatch):
    """Broken twin of what fetched bytes are given out by."""
    made = failing("clover")
    every, _ = walked(made, slice(6, 7), repeats=False)
    monkeypatch.setattr(Fetched, "__getitem__", lambda fetched, part: fetched._data[part])
    assert walked(made, slice(6, 7), repeats=True)[0] != every


@pytest.mark.long
def test_known_states_count_as_executed_ones(monkeypatch):
    made = failing("clover", instants=6)
    variant = only_variant(made)

    def found():
        one = execute(made, variant, asked(made, variant), lambda _: None)
        first = {c: (breach.instant_ps, breach.object, breach.explanation) for c, breach in one.first.items()}
        return one.runs, one.recoveries, one.verdicts, one.unfinished, one.violating, one.exhaustive, first

    known = found()
    monkeypatch.setattr(KnownRuns, "same", lambda self, prescribed: None)
    assert known == found()
    assert known[4] and known[-1]


def restored():
    """A space whose lines a failure has left, and the notes of who looks at them."""
    looks, space = Looks(), ByteSpace(4 * LINE_BYTES)
    chosen = {}
    looks.chosen = chosen

    def line(number):
        chosen[7, number] = Content(LINE, {}, ())
        looks.touched((7, number), 0)
        return LINE

    space.restore(line, looks.of(7))
    return looks, space


def test_bytes_that_are_read_are_looked_at_and_lines_before_that_chosen():
    looks, space = restored()
    assert space.read(1, LINE_BYTES - 4, 8) == LINE[-4:] + LINE[:4]
    first, second, look = looks.events
    assert [first, second] == [Touched((7, 0), 0), Touched((7, 1), 0)]
    assert look.spans == (((7, 0), 60, 64), ((7, 1), 0, 4))


def test_of_fetched_bytes_those_are_looked_at_that_are_given_out():
    looks, space = restored()
    fetched = Fetched(space.read(1, 8, 24), space.onlooker.claim(8, 24))
    look = looks.events[-1]
    assert look.spans == ()
    assert fetched[:8] == LINE[8:16] and fetched[16:] == LINE[24:32]
    assert look.spans == (((7, 0), 8, 16), ((7, 0), 24, 32))
    with pytest.raises(ValueError, match="every 2th byte"):
        fetched[::2]
    assert space.onlooker.claim(8, 24) is None  # it is claimed once


def test_what_is_written_whole_is_not_looked_at():
    looks, space = restored()
    space.poke(0, bytes(LINE_BYTES))
    space.read(1, 0, 8)
    assert [look.spans for look in looks.events] == [()]


def test_of_lines_that_are_copied_nobody_can_say_which_is_looked_at():
    looks, space = restored()
    assert looks.complete
    space.copy(1, 0, 2 * LINE_BYTES, LINE_BYTES)
    assert not looks.complete


class Knot:
    """Garbage as soon as nobody knows it, and then only for the collector."""

    def __init__(self):
        self.itself = self


def test_garbage_does_not_outlive_the_block_in_which_it_was_made():
    gc.disable()
    try:
        with seldom_collecting():
            made = weakref.ref(Knot())
        assert made() is None
    finally:
        gc.enable()


def test_what_is_young_is_collected_and_what_has_survived_is_not():
    gc.collect()
    gc.disable()
    try:
        kept = Knot()
        collect_young()
        dropped, old = weakref.ref(Knot()), weakref.ref(kept)
        del kept
        collect_young()
        assert dropped() is None and old() is not None
        collect_young(1)
        assert old() is None
    finally:
        gc.enable()
