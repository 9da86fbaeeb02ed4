"""The simulator never shows what the litmus explorer forbids; a simulator with a broken rule does."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rpsim.models.durability.ordering
import rpsim.models.host.hostmemory
import rpsim.models.nic.dma
from rpsim.models.durability.rules import Placement, Switches
from rpsim.models.verbs import Opcode
from rpsim.sim.bytespace import ByteSpace
from rpsim.validation.litmus.language.format import LIBRARY, read_tests
from rpsim.validation.litmus.language.program import LitmusProfile
from rpsim.validation.litmus.simulator.setting import OPCODES, CannotRun, check
from rpsim.validation.litmus.simulator.simulate import clashes, play

from .litmus_programs import ALL_OF_A, a_test, programs

TESTS = read_tests([LIBRARY])
SEEDS = range(2)
BASIC = {
    "of_a": ("W", "WW", "R", "SEND", "SENDB", "poll", "st", "Ws"),
    "of_b": ("ld", "st", "clwb", "clflushopt", "fence", "clflush", "ntst", "cpucas", "recv"),
    "placements": (Placement.STRICT,),
    "switches": (Switches(),),
    "fences": False,
}
"""What the adapters have had from the start."""
LANGUAGES = (
    (
        {"of_a": [verb for verb in ALL_OF_A if verb != "WW"]},
        {"of_a": [verb for verb in ALL_OF_A if verb not in ("FAA", "CAS")]},
    )
    if all(name in Opcode.__members__ for name in OPCODES.values())
    else (BASIC,)
)
"""Atomics and WRITEs of two variables of one line each with everything else, but not together: which of two overlapping
writes came first may show in what an atomic returns, and the views then still admit both orders (docs/limits.md)."""


def refusal(test, profile):
    """Why the simulator cannot run a test on a profile; None if it can."""
    try:
        check(test, profile)
    except CannotRun as reason:
        return str(reason).partition(" (in")[0]
    return None


REFUSED = {
    reason for test in TESTS for case in test.cases if (reason := refusal(test, case.profile)) is not None
}  # fmt: skip
TESTS = [
    replace(test, cases=kept)
    for test in TESTS
    if (kept := tuple(case for case in test.cases if refusal(test, case.profile) is None))
]
"""On the profiles that the simulator has."""


def named(name):
    return next(test for test in TESTS if test.id == name)


@pytest.mark.long
@pytest.mark.parametrize("test", TESTS, ids=lambda test: test.id)
def test_the_library_in_the_simulator(test):
    found = clashes(test, SEEDS)
    assert not found, str(found[0])


@pytest.mark.long
def test_more_timings_of_what_atomics_and_barriers_prove():
    for name in ("flush-atomic", "pmr-write-read", "pmr-store-and-flush", "flush-persist-on-the-medium"):
        assert not shown(name), name


RO, OOO = Placement.RELAXED, Placement.OUT_OF_ORDER


@pytest.mark.parametrize(
    ("a", "b", "how"),
    [  # what the result of an atomic cannot exist without, and what it proves
        (["W q1 x+y 1", "FAA q2 x 20 a"], [], {"domain": "adr", "whole_lines": True}),
        (["W q1 x+y 1", "FAA q2 x 20 a"], [], {"domain": "adr", "whole_lines": True, "nic": RO}),
        (["W q1 x+y 1", "FAA q2 x 20 a"], [], {"domain": "eadr", "ddio": True, "whole_lines": True, "nic": OOO}),
        (["AW q1 x 2", "CAS q1 y 0 3 a"], [], {"domain": "eadr", "ddio": True}),
        (["FAA q1 x 10 a", "FAA q1 x 20 b", "FAA q1 x 30 c"], ["ntst x 100"], {"domain": "eadr", "ddio": True}),
        (["W q1 x 1", "FLUSH q1 x persist", "FAA q1 y 1 r"], [], {"domain": "adr", "ddio": True}),
        (["AW q1 y 1", "W q1 y 2", "AW q1 y 3", "poll q1"], [], {"domain": "wsp", "ddio": True, "nic": RO}),
        (["W q1 x 1", "FLUSH q1 x persist", "poll q1"], ["ntst y 5", "fence"], {"domain": "media", "ddio": True}),
    ],
)
def test_programs_that_once_showed_too_much(a, b, how):
    found = clashes(a_test(a, b, LitmusProfile("P", **how)), range(20))
    assert not found, str(found[0])


def test_what_is_not_run_is_known_and_why():
    lacking = {reason for reason in REFUSED if re.search("have no|know no|simulator has no", reason)}
    assert REFUSED - lacking == {"no region of a peer device admits FLUSH"}
    if LANGUAGES != (BASIC,):
        assert not lacking, "the whole library runs where there are all verbs"


@pytest.mark.long
@settings(max_examples=40)
@given(st.one_of(*(programs(**language) for language in LANGUAGES)))
def test_random_programs_in_the_simulator(test):
    found = clashes(test, range(3), budget=60_000)
    assert not found, str(found[0])


@pytest.mark.slow
@settings(max_examples=400)
@given(st.one_of(*(programs(**language) for language in LANGUAGES)))
def test_many_random_programs_in_the_simulator(test):
    found = clashes(test, range(5), budget=60_000)
    assert not found, str(found[0])


def test_a_verb_that_the_adapters_lack_is_an_error_and_no_silent_pass(monkeypatch):
    known = {name: one for name, one in Opcode.__members__.items() if name != "IBV_WR_RDMA_READ"}
    monkeypatch.setattr("rpsim.validation.litmus.simulator.setting.Opcode", type("Few", (), {"__members__": known}))
    test = named("write-read")
    with pytest.raises(CannotRun, match=r"the simulator's adapters have no IBV_WR_RDMA_READ \(in 'R q1 x r'\)"):
        check(test, test.cases[0].profile)


def test_timings_differ_from_seed_to_seed():
    test = named("write-read")
    ends = {play(test, test.cases[0].profile, seed).a_ended_ps for seed in range(5)}
    assert len(ends) == 5


def shown(name, seeds=range(12)):
    return [str(clash) for clash in clashes(named(name), seeds)]


@pytest.mark.long
@pytest.mark.parametrize("name", ["write-read", "stored-before-the-post", "replies-show-what-was-stored"])
def test_memory_that_shows_writes_later_than_its_readers_wait_is_caught(name, monkeypatch):
    write_at = ByteSpace.write_at

    def late(self, at_ps, *what):
        write_at(self, at_ps + 10**7, *what)

    assert not shown(name)
    monkeypatch.setattr(ByteSpace, "write_at", late)
    assert shown(name)


@pytest.mark.long
def test_a_read_that_does_not_wait_for_earlier_writes_is_caught(monkeypatch):
    def at_once(self, *_):
        return self.clock.now_ps

    assert not shown("write-read")
    ask = rpsim.models.nic.dma.DmaReader.request
    for name in ("looked_at_ps", "read_ready_ps"):
        monkeypatch.setattr(rpsim.models.host.hostmemory.HostMemory, name, at_once)
    monkeypatch.setattr(
        rpsim.models.nic.dma.DmaReader, "request", lambda *given, **more: ask(*given, **more | {"not_before_ps": 0})
    )
    assert any("r=0" in text for text in shown("write-read"))


@pytest.mark.long
@pytest.mark.parametrize(
    ("rule", "name"),
    [
        ("receive-publishes", "write-send-flush-reply"),
        ("read-pushes-writes", "write-read-other-address"),
        ("appliance-read", "write-read-other-address"),
        ("fence-completes-flushes", "clwb"),
        ("clflush-completes", "clflush-needs-no-fence"),
        ("fence-drains-wc", "non-temporal-store-and-fence"),
        ("load-returns-visible", "clwb-of-what-was-loaded"),
        ("read-returns-visible", "write-read-that-saw-it-elsewhere"),
    ],
)
def test_a_rule_that_the_components_forget_is_caught(rule, name, monkeypatch):
    assert not shown(name)
    kept = tuple(other for other in rpsim.models.durability.ordering.RULES if other.name != rule)
    monkeypatch.setattr(rpsim.models.durability.ordering, "RULES", kept)
    assert shown(name)
