"""Do the fast forms and the literal definitions agree, on thousands of small histories?"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpsim.protocols.guarantees import Condition, Verdict
from rpsim.scenarios.history import Torn, Unread
from rpsim.validation.oracle import CONDITIONS, FINDERS, RegisterHistory, assert_implications, check

from .histories import UPDATES, Case, feed, random_case, violated

MANY = pytest.param(4000, marks=pytest.mark.slow)
thoroughly = pytest.mark.parametrize("examples", [1000, MANY], ids=["some", "many"])


def found(case: Case) -> frozenset[Condition]:
    findings = check(case.history, case.crash_ps, {"x": case.reads_after}, loaded=case.loaded_objects())
    assert_implications(findings)
    return frozenset(c for c, finding in findings.items() if finding.verdict is Verdict.VIOLATED)


@pytest.mark.long
@thoroughly
def test_check_and_the_definitions_agree(examples: int) -> None:
    seen: Counter[tuple[Condition, bool]] = Counter()

    @settings(max_examples=examples)
    @given(st.data())
    def agree(data: st.DataObject) -> None:
        case = random_case(lambda n: data.draw(st.integers(0, n - 1)))
        answer = found(case)
        assert answer == violated(case)
        assert (Condition.STRICT in answer) == (Condition.DURABLE in answer)  # one read cannot tell them apart
        seen.update((condition, condition in answer) for condition in FINDERS)

    agree()
    assert min(seen[condition, broken] for condition in FINDERS for broken in (True, False)) > 10, seen


@pytest.mark.long
@thoroughly
def test_several_reads_after_the_crash(examples: int) -> None:
    seen: Counter[tuple[Condition, bool]] = Counter()
    only_strict = 0

    @settings(max_examples=examples)
    @given(st.data())
    def agree(data: st.DataObject) -> None:
        nonlocal only_strict
        case = random_case(lambda n: data.draw(st.integers(0, n - 1)), most=4, reads_after=3)
        answer = found(case)
        assert answer == violated(case)
        seen.update((condition, condition in answer) for condition in FINDERS)
        only_strict += answer == {Condition.STRICT}

    agree()
    assert min(seen[condition, broken] for condition in FINDERS for broken in (True, False)) > 2, seen
    assert only_strict > 0


@pytest.mark.long
@pytest.mark.parametrize("examples", [500, MANY], ids=["some", "many"])
def test_the_register_and_check_agree_at_every_size_and_in_every_order_of_ties(examples: int) -> None:
    seen: Counter[tuple[Condition, bool]] = Counter()

    @settings(max_examples=examples)
    @given(st.data())
    def agree(data: st.DataObject) -> None:
        def choose(n: int) -> int:
            return data.draw(st.integers(0, n - 1))

        case = random_case(choose, most=10)
        register = RegisterHistory("x", UPDATES, case.loaded)
        feed(case, register, choose)
        answer = register.judge(case.recovered)
        findings = check(case.history, case.crash_ps, {"x": case.recovered}, CONDITIONS, loaded=case.loaded_objects())
        assert answer == {c for c, finding in findings.items() if finding.verdict is Verdict.VIOLATED}
        for condition in answer:
            assert register.explain(case.recovered, condition)
        gone = register.judge(Unread("the store says so"))
        before = Condition.COMMITTED in register.judge(0 if case.loaded else None)  # by an earlier read
        assert gone == register.judge(Torn("of nobody")) - (set() if before else {Condition.COMMITTED})
        for condition in gone:
            assert register.explain(Unread("the store says so"), condition)
        seen.update((condition, condition in answer) for condition in CONDITIONS)

    agree()
    assert min(seen[condition, broken] for condition in CONDITIONS for broken in (True, False)) > 4, seen
