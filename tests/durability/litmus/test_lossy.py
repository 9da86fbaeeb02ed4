"""No outcome that the litmus explorer forbids appears where packets are lost, late, overtaken or repeated."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpsim.models.fabric.disturbance import Disturbance
from rpsim.models.nic.lossy.transport import GoBackN
from rpsim.validation.litmus.simulator.simulate import clashes, play

from .litmus_programs import programs
from .test_simulator import LANGUAGES, TESTS, named

STORM = Disturbance(loss=0.15, delay_ps=3_000_000, reorder=0.15, repeat=0.1)


@pytest.mark.parametrize("test", TESTS, ids=lambda test: test.id)
def test_the_library_on_a_bad_network(test):
    found = clashes(test, range(2), disturbance=STORM)
    assert not found, str(found[0])


@pytest.mark.long
@settings(max_examples=25)
@given(st.one_of(*(programs(**language) for language in LANGUAGES)))
def test_random_programs_on_a_bad_network(test):
    found = clashes(test, range(2), 60_000, STORM)
    assert not found, str(found[0])


@pytest.mark.slow
@settings(max_examples=400)
@given(st.one_of(*(programs(**language) for language in LANGUAGES)))
def test_many_random_programs_on_a_bad_network(test):
    found = clashes(test, range(4), 60_000, STORM)
    assert not found, str(found[0])


def test_packets_are_lost_indeed():
    test = named("write-send-flush-reply")
    runs = [play(test, test.cases[0].profile, seed, STORM) for seed in range(6)]
    counters = [run.setting.system.network_counters() for run in runs]
    assert all(counters)
    assert any(found["lost"] and found["retransmitted"] for found in counters if found)


def test_a_responder_that_executes_duplicates_is_caught(monkeypatch):
    """A WRITE that is executed again after others have seen it overwritten."""

    def again(back, end, kept, packet):
        back._nic.responder.take_in_now(packet)

    def shown():
        names = [test.id for test in TESTS if any(case.profile.domain != "pmr" for case in test.cases)]
        found = 0
        for name in names:
            try:
                found += len(clashes(named(name), range(3), disturbance=STORM))
            except Exception:  # its own assertions may come first
                found += 1
            if found:
                return True
        return False

    monkeypatch.setattr(GoBackN, "_duplicate", again)
    assert shown()
