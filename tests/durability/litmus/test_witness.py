"""What the rules allow shows in the simulator, in some run; and in none of the runs that look for it more than that."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rpsim.models.nic.staging import Staging
from rpsim.validation.litmus.language.format import LIBRARY, read_tests
from rpsim.validation.litmus.language.program import CrashMoment, LitmusCase, OutcomeFinding, Test
from rpsim.validation.litmus.shipped import chosen
from rpsim.validation.litmus.simulator.setting import CannotRun, check
from rpsim.validation.litmus.simulator.simulate import clashes, play
from rpsim.validation.litmus.simulator.witness import SCHEDULES, search

TESTS = read_tests([LIBRARY])
NEVER_RUN = "no region of a peer device admits FLUSH"


def named(name: str) -> Test:
    return next(test for test in TESTS if test.id == name)


@pytest.mark.long
@pytest.mark.parametrize("file", sorted(path.stem for path in LIBRARY.glob("*.yaml")))
def test_every_allowed_outcome_of_the_library_has_a_witness_or_a_reason(file):
    for test in chosen([file]):
        for found in search(test):
            where = test.id, found.case.profile.name, found.case.outcome.text
            if found.witness is None:
                assert found.case.unseen or found.reason.startswith(NEVER_RUN), where
            else:
                assert found.witness.lines[-1][0] == found.witness.at_ps, where


@pytest.mark.slow
@pytest.mark.parametrize("family", ["covers", "sights", "unordered", "sequences", "commits", "tears"])
def test_every_allowed_outcome_of_a_family_has_one(family):
    for test in chosen([family]):
        for found in search(test):
            assert found.witness or found.case.unseen, (test.id, found.case.profile.name)


@pytest.mark.long
def test_no_reason_hides_an_outcome_that_shows():
    """A reason why nothing shows it is wrong once something does; one entry speaks of two kinds of profiles."""
    both = {"pmr-write-read"}
    for test in TESTS:
        cases = [case for case in test.cases if case.unseen and test.id not in both]
        for found in search(test, cases, tries=6):
            assert found.witness is None, (test.id, found.case.profile.name)


def test_a_witness_is_a_run_that_shows_it_again():
    test = named("old-queue-pair-lands-last")
    found = next(one for one in search(test) if one.witness)
    witness = found.witness
    assert witness is not None
    run = play(test, witness.case.profile, witness.seed, schedule=witness.schedule)
    registers = {name: value for name, (_, value) in run.known.items()}
    memory = {f"mem.{name}": run.setting.memory(name) for name in run.setting.address}
    assert witness.case.outcome.holds(registers | memory)
    whats = [what for _, _, what in witness.lines]
    assert whats[0] == "W q1 x 1" and whats[-1] == "mem.x=1, r=2"
    assert whats.index("x=2 becomes visible") < whats.index("x=1 becomes visible")
    assert [at_ps for at_ps, _, _ in witness.lines] == sorted(at_ps for at_ps, _, _ in witness.lines)


def test_a_timeline_says_where_what_is_lost_may_have_been():
    test = named("write-read")
    on = next(case for case in test.cases if case.profile.name == "ADR_ON" and case.crash is CrashMoment.END_A)
    (found,) = search(test, [on])
    assert found.witness is not None
    assert found.witness.lines[-1][2] == "x=1 may still be in the LLC: lost"
    off = next(case for case in named("write-acked").cases if case.profile.name == "ADR_ON")
    (found,) = search(named("write-acked"), [off])
    assert found.witness is not None
    assert found.witness.lines[-1][2] == "x=1 may still be in the NIC: lost"


@pytest.mark.long
def test_what_is_forbidden_has_no_witness():
    for name in ("write-read", "flush-then-atomic-write", "clwb", "receive-publishes"):
        for test in TESTS:
            if test.id == name:
                cases = [case for case in test.cases if case.expected is OutcomeFinding.FORBIDDEN]
                assert all(found.witness is None for found in search(test, cases, tries=8))


def runnable(test: Test) -> Test | None:
    cases: list[LitmusCase] = []
    for case in test.cases:
        try:
            check(test, case.profile)
        except CannotRun:
            continue
        cases.append(case)
    return replace(test, cases=tuple(cases)) if cases else None


@pytest.mark.long
def test_no_schedule_shows_what_is_forbidden():
    for turn, test in enumerate(found for found in map(runnable, TESTS) if found):
        found = clashes(test, [turn % len(SCHEDULES)], schedules=SCHEDULES)
        assert not found, str(found[0])


def test_atomic_writes_of_one_queue_pair_show_in_order():
    """Each may be late, and none more so than the one behind it; nothing else has come before them."""
    (test,) = (found for found in chosen([]) if found.id == "sequences: AW q1 x 1; AW q1 x 4")
    assert not clashes(runnable(test), [4, 6], schedules=SCHEDULES)


@pytest.mark.slow
def test_no_schedule_shows_what_is_forbidden_in_many_runs():
    for test in (found for found in map(runnable, chosen([])) if found):
        found = clashes(test, range(24), schedules=SCHEDULES)
        assert not found, str(found[0])


def test_queue_pairs_do_not_wait_for_each_other_in_staging_that_is_held_up(monkeypatch):
    """Without that the old queue pair's WRITE never lands after the new one's."""
    test = named("old-queue-pair-lands-last")
    assert all(found.witness for found in search(test))
    wait = Staging.wait

    def in_one_queue(self, *packet):
        self._holds = None
        wait(self, *packet)

    monkeypatch.setattr(Staging, "wait", in_one_queue)
    assert not any(found.witness for found in search(test, tries=24))
