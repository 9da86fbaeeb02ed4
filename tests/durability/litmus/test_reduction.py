"""What the explorer leaves out loses nothing: the same outcomes with and without it, from far fewer states."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest
from hypothesis import given, settings

from rpsim.validation.litmus.language.format import LIBRARY, read_tests
from rpsim.validation.litmus.language.program import CrashMoment, LitmusProfile, Test
from rpsim.validation.litmus.machine import reduction
from rpsim.validation.litmus.machine.explorer import Reached, Reduce, all_looks, explore
from rpsim.validation.litmus.machine.plan import LitmusPlan, Table

from .litmus_programs import a_test, programs

TESTS = read_tests([LIBRARY])
Looks = set[frozenset[tuple[str, int]]]


def shown(test: Test, profile: LitmusProfile, crash: CrashMoment, names: Sequence[str], reduce: Reduce) -> Looks:
    return {frozenset(look.items()) for look in all_looks(test, profile, crash, names, reduce=reduce)}


def lost(test: Test, profile: LitmusProfile, crash: CrashMoment, names: Sequence[str]) -> list[tuple[Reduce, object]]:
    """What a reduction loses, or adds. An outcome needs its registers: to know more of them is to know as much."""
    full = shown(test, profile, crash, names, Reduce.NOTHING)
    wrong: list[tuple[Reduce, object]] = []
    for how in (Reduce.BY_ITSELF, Reduce.ALL):
        reduced = shown(test, profile, crash, names, how)
        wrong += [(how, look) for look in full if not any(look <= other for other in reduced)]
        wrong += [(how, look) for look in reduced - full]
    return wrong


@pytest.mark.long
def test_the_reductions_lose_nothing_of_the_library():
    for test in TESTS:
        names = sorted({name for case in test.cases for name in case.outcome.of("pm")})
        for profile, crash in dict.fromkeys((case.profile, case.crash) for case in test.cases):
            assert not lost(test, profile, crash, names), (test.id, profile.name)


@pytest.mark.long
def test_answers_are_the_same_and_states_are_saved():
    counts = {}
    for how in Reduce:
        answers = [answer for test in TESTS for answer in explore(test, reduce=how)]
        assert all(answer.agrees for answer in answers)
        counts[how] = sum(answer.states for answer in answers)
    print({str(how.value): count for how, count in counts.items()})
    assert counts[Reduce.ALL] < counts[Reduce.BY_ITSELF] < counts[Reduce.NOTHING] / 2


def check_all(test: Test) -> None:
    names = sorted({name for operation in (*test.a, *test.b) for name in operation.names})
    for case in test.cases:
        for asked in [[], names[:1], names] if case.crash is not CrashMoment.NONE else [[]]:
            assert not lost(test, case.profile, case.crash, asked)


MANY = {"domains": ("media", "adr", "eadr", "wsp", "pmr")}


@pytest.mark.long
@settings(max_examples=40)
@given(programs(most=3, **MANY))
def test_the_reductions_lose_nothing_of_random_programs(test):
    check_all(test)


@pytest.mark.slow
@settings(max_examples=600)
@given(programs(most=4, **MANY))
def test_the_reductions_lose_nothing_of_many_random_programs(test):
    check_all(test)


def test_queue_pairs_that_have_nothing_to_do_with_each_other_are_not_mixed():
    """Without a crash one order of them will do, so states grow with their number and not with its powers."""
    for reads in (2, 3, 4):
        a = [f"W q{i} x{i} 1" for i in range(reads)] + [f"R q{i} x{i} r{i}" for i in range(reads)]
        test = a_test(a, [], LitmusProfile("P"), "64")
        case = next(case for case in test.cases if case.crash is CrashMoment.NONE)
        states = [explore_states(test, case.profile, how) for how in (Reduce.ALL, Reduce.BY_ITSELF)]
        assert states[0] <= 2 * reads + 1 < states[1]
        assert states[1] >= 3**reads


def explore_states(test: Test, profile: LitmusProfile, how: Reduce) -> int:
    reached = Reached(LitmusPlan(test, profile, CrashMoment.NONE, [], Table()), how)
    while reached.todo:
        reached.grow(reached.todo.popleft())
    return len(reached.origin)


@pytest.mark.parametrize("part", ["_clashes", "_helpers", "_takes_away"])
def test_a_reduction_that_forgets_something_is_caught(part, monkeypatch):
    made = reduction.Reduction.__init__

    def forgetful(self, machine):
        made(self, machine)
        known = getattr(self, part)
        setattr(self, part, 0 if isinstance(known, int) else [0] * len(known))

    monkeypatch.setattr(reduction.Reduction, "__init__", forgetful)
    tests = random.Random(0).sample(TESTS, len(TESTS))
    found = False
    for test in tests:
        names = sorted({name for case in test.cases for name in case.outcome.of("pm")})
        for case in test.cases:
            found = found or bool(lost(test, case.profile, case.crash, names))
        if found:
            return
    raise AssertionError(part)
