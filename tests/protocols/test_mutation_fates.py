"""When a fault counts as found, and when its code or its judge counts as broken."""

from __future__ import annotations

import time
from io import BytesIO

import pytest

from rpsim.protocols.efactory.saw import Saw
from rpsim.protocols.guarantees import Condition
from rpsim.protocols.guarantees import Verdict as Verdict_
from rpsim.validation.mutation import fates
from rpsim.validation.mutation.fates import FateVerdict, FaultOutcome, Try
from rpsim.validation.mutation.shown import Shown
from rpsim.validation.mutation.trials import Trial
from rpsim.validation.oracle import assert_implications

KEPT = frozenset({"durable: torn"})


@pytest.fixture
def use(monkeypatch):
    """Use these trials, by name, in the place of all."""

    def use_(**asked):
        monkeypatch.setattr(fates, "trials", lambda: [Trial(name, ask, KEPT, "here") for name, ask in asked.items()])

    return use_


def test_code_that_fails_is_broken_and_a_judge_that_fails_finds_nothing(use):
    def contradicts(scheme, kept):
        assert_implications({Condition.STRICT: Verdict_.HOLDS, Condition.DURABLE: Verdict_.VIOLATED})

    def fails(scheme, kept):
        BytesIO().read("no number")

    def takes_all(scheme, kept):
        bytearray(fates.MOST_BYTES)

    broken = (fails, FaultOutcome.BROKEN), (takes_all, FaultOutcome.BROKEN)
    for does, outcome in ((contradicts, FaultOutcome.UNDECIDED), *broken):
        use(odd=does)
        found = FateVerdict()
        assert not fates.judged(Saw, [Try("saw", "odd", KEPT)], found)
        found = found.ended()
        assert found.outcome is outcome and found.how.startswith("odd: ") and found.scheme == "saw"
        assert ("MemoryError" in found.how) is (does is takes_all)


def test_code_that_fails_somewhere_may_be_found_elsewhere(use):
    def finds(scheme, kept):
        return Shown(KEPT)

    def fails(scheme, kept):
        BytesIO().read("no number")

    use(odd=fails, even=finds)
    found = FateVerdict()
    tries = [Try("saw", name, KEPT) for name in ("odd", "even")]
    assert fates.judged(Saw, tries, found)
    assert found.how == "even: durable: torn" and found.outcome is FaultOutcome.FOUND


@pytest.mark.parametrize(("name", "outcome"), [("lives", FaultOutcome.BROKEN), ("forever", FaultOutcome.SURVIVES)])
def test_a_trial_that_does_not_come_to_an_end_is_ended(name, outcome, use, monkeypatch):
    def forever(scheme, kept):
        while True:
            pass

    use(**{name: forever})
    monkeypatch.setattr(fates, "SECONDS", 0.05)
    found = FateVerdict()
    assert not fates.judged(Saw, [Try("saw", name, KEPT)], found)
    assert found.ended().outcome is outcome


def test_a_run_that_takes_long_without_a_fault_may_take_as_long_with_one(use, monkeypatch):
    def long(scheme, kept):
        until = time.process_time() + 0.2
        while time.process_time() < until:
            pass
        return Shown(KEPT)

    use(lives=long)
    monkeypatch.setattr(fates, "SECONDS", 0.05)
    for seconds, outcome in ((0.0, FaultOutcome.BROKEN), (1.0, FaultOutcome.FOUND)):
        found = FateVerdict()
        fates.judged(Saw, [Try("saw", "lives", KEPT, seconds)], found)
        assert (found if outcome is FaultOutcome.FOUND else found.ended()).outcome is outcome
