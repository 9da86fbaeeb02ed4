"""The abstract machine of the litmus tests: what it must show, what its reduction must not lose, what it answers."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rpsim.models.durability.rules import Placement
from rpsim.validation.litmus.language.expression import NoOutcome, parse_outcome
from rpsim.validation.litmus.language.operations import parse_operation
from rpsim.validation.litmus.language.program import CrashMoment, LitmusCase, LitmusProfile, OutcomeFinding, Test
from rpsim.validation.litmus.machine.explorer import all_looks, explore

ADR = LitmusProfile("ADR")


def program(
    a: str,
    b: str = "",
    outcome: str = "1==1",
    crash: CrashMoment = CrashMoment.NONE,
    profile: LitmusProfile = ADR,
    **how,
) -> Test:
    def read(text: str, of_a: bool):
        return tuple(parse_operation(one.strip(), of_a) for one in text.split(";") if one.strip())

    case = LitmusCase(profile, crash, parse_outcome(outcome), OutcomeFinding.ALLOWED, "")
    return Test("t", read(a, True), read(b, False), (case,), **how)


def answer(*arguments, budget: int = 10_000, **how):
    (only,) = explore(program(*arguments, **how), budget)
    return only


def looks(test: Test, *names: str, **how) -> set[tuple[int, ...]]:
    """All values that the named things may have together."""
    case = test.cases[0]
    persistent = [name.removeprefix("pm.") for name in names if name.startswith("pm.")]
    found = all_looks(test, case.profile, case.crash, persistent, **how)
    return {tuple(look[name] for name in names) for look in found if all(name in look for name in names)}


def test_a_store_buffer_shows_all_of_its_outcomes_and_no_more():
    test = program("W q1 y 1; R q1 x ra; poll q1", "st x 1; ld y rb")
    assert looks(test, "ra", "rb") == {(0, 0), (0, 1), (1, 0), (1, 1)}
    test = program("W q1 y 1; R q1 x ra; poll q1", "st x 1; fence; ld y rb")
    assert looks(test, "ra", "rb") == {(0, 1), (1, 0), (1, 1)}


def test_two_words_of_a_write_arrive_in_any_order_unless_lines_are_whole():
    words = program("W q1 x0+x1 1", outcome="pm.x0==0 or pm.x1==0", crash=CrashMoment.ANY)
    assert looks(words, "pm.x0", "pm.x1") == {(0, 0), (0, 1), (1, 0), (1, 1)}
    (case,) = words.cases
    whole = replace(words, cases=(replace(case, profile=replace(ADR, whole_lines=True)),))
    assert looks(whole, "pm.x0", "pm.x1") == {(0, 0), (1, 1)}


def test_a_line_holds_any_version_since_its_last_completed_flush():
    test = program("R q1 z r", "st x 1; st x 2; clwb x; st x 3; st y 1", crash=CrashMoment.ANY)
    found = looks(test, "pm.x", "pm.y")
    assert {x for x, _ in found} == {0, 1, 2, 3}
    assert {x for x, y in found if y} == {2, 3}, "y was stored behind the flush"


def test_atomics_add_up_whatever_the_order():
    test = program("FAA q1 x 1 r1; FAA q1 x 2 r2; FAA q2 x 4 r3", outcome="1==1")
    assert looks(test, "mem.x") == {(7,)}
    assert {(0, 1, 3), (2, 0, 3), (4, 5, 0)} <= looks(test, "r1", "r2", "r3")


def test_registers_have_no_value_before_their_request_has_completed():
    assert answer("R q1 x r", "", "r==0 or r!=0", CrashMoment.ANY).found is OutcomeFinding.ALLOWED
    held = answer("R q1 x r; W q1 y 1 F", "", "not (r==0) and pm.y==1", CrashMoment.ANY)
    assert held.found is OutcomeFinding.FORBIDDEN


def test_a_schedule_reads_as_a_story():
    found = answer("W q1 x 1; poll q1", "ld x r", "r==1")
    assert found.schedule == (
        "A: W q1 x 1",
        "B's adapter accepts W q1 x 1",
        "A: poll q1",
        "x=1 becomes visible",
        "B: ld x r -> 1",
        "the end: r=1",
    )


def test_what_is_not_decided_is_said_to_be():
    long = ("W q1 x 1; W q2 x 2; W q3 x 3; R q1 x r", "st x 4; ld x r2", "r==9")
    assert answer(*long).found is OutcomeFinding.FORBIDDEN
    few = answer(*long, budget=5)
    assert few.found is OutcomeFinding.UNDECIDED and not few.agrees


def test_a_test_that_never_ends_says_nothing():
    found = answer("W q1 x 1", "spin x 2", "mem.x==1")
    assert found.found is OutcomeFinding.FORBIDDEN and found.vacuous
    assert not found.agrees and not replace(found, case=replace(found.case, expected=found.found)).agrees
    assert not answer("W q1 x 1", "spin x 1", "mem.x==2").vacuous


def test_whole_system_persistence_keeps_what_was_accepted_in_the_order_of_the_path():
    wsp = replace(ADR, domain="wsp")
    test = program("W q1 x 1; W q1 y 1", crash=CrashMoment.ANY, profile=wsp)
    assert looks(test, "pm.x", "pm.y") == {(0, 0), (1, 0), (1, 1)}
    relaxed = program(
        "W q1 x 1; W q1 x 2; poll q1", crash=CrashMoment.END_A, profile=replace(wsp, nic=Placement.RELAXED)
    )
    assert looks(relaxed, "pm.x") == {(1,), (2,)}


@pytest.mark.parametrize(
    ("text", "truth"),
    [("r==1 and pm.x!=0", True), ("not r==1 or pm.x<1", False), ("0<=r<2", True), ("(r>=2 or pm.x==3)", True)],
)
def test_outcomes_are_read(text, truth):
    outcome = parse_outcome(text)
    assert outcome.holds({"r": 1, "pm.x": 3}) is truth
    assert not outcome.holds({"pm.x": 3}), "a register without a value"


@pytest.mark.parametrize(
    "text", ["r=1", "f(r)==1", "r", "r==1 and", "r is 1", "r+1==2", "pm.x.y==1", "'a'==1", "True==1", "", "(" * 300]
)
def test_what_is_no_outcome_is_refused(text):
    with pytest.raises(NoOutcome):
        parse_outcome(text)
