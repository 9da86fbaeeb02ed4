"""What the conditions say of small histories that have a name, and in which words."""

from __future__ import annotations

import pytest

from rpsim.protocols.guarantees import Condition, Verdict
from rpsim.scenarios.history import History, Operation, Torn, Value
from rpsim.sim.errors import InputError
from rpsim.validation.oracle import CONDITIONS, FINDERS, RegisterHistory, assert_implications, check

COMMITTED, NO_LOST_ACK, DURABLE = Condition.COMMITTED, Condition.NO_LOST_ACK, Condition.DURABLE
MONOTONIC, STRICT, LINEARIZABLE = Condition.MONOTONIC, Condition.STRICT, Condition.LINEARIZABLE
PERSISTENT = Condition.PERSISTENT
NOTHING: set[Condition] = set()
TORN = Torn("words 3 and 4 of 8 are new")


class Story:
    """One object, ``k17``, loaded unless said otherwise; times in nanoseconds."""

    def __init__(self, loaded: bool = True) -> None:
        self.history = History(frozenset({"put"}))
        self.loaded = loaded

    def put(self, begin: int, end: int | None = None, outcome: str = "ok", process: int = 0) -> int:
        """A put; returns the stamp that it writes."""
        operation = self.history.invoke(process, "put", "k17", len(self.history.operations) + 1, begin * 1000)
        if end is not None:
            self.history.complete(operation, outcome, end * 1000)
        assert isinstance(operation.argument, int)
        return operation.argument

    def get(self, begin: int, end: int, result: Value, outcome: str = "ok") -> Operation:
        operation = self.history.invoke(1, "get", "k17", None, begin * 1000)
        self.history.complete(operation, outcome, end * 1000, result)
        return operation

    def crash(self, at: int, recovered: Value) -> set[Condition]:
        """What is violated if the system crashes at ``at`` and the read after recovery returns ``recovered``."""
        loaded = {"k17"} if self.loaded else set()
        self.findings = check(self.history, at * 1000, {"k17": recovered}, CONDITIONS, loaded=loaded)
        assert_implications(self.findings)
        register = RegisterHistory("k17", frozenset({"put"}), self.loaded)
        for time_ps, kind, operation in self.history.events():
            if time_ps <= at * 1000:
                register.invoke(operation) if kind == "invoke" else register.complete(operation)
        violated = {c for c, finding in self.findings.items() if finding.verdict is Verdict.VIOLATED}
        assert register.judge(recovered) == violated
        assert {c: register.explain(recovered, c) for c in violated} == {c: self.why(c) for c in violated}
        return violated

    def why(self, condition: Condition) -> str:
        return self.findings[condition].explanation

    def numbers(self, condition: Condition) -> list[int]:
        return [operation.number for operation in self.findings[condition].operations]


# acknowledged updates -------------------------------------------------------------------------------------------


def test_an_acknowledged_put_that_survives() -> None:
    story = Story()
    new = story.put(0, 10)
    assert story.crash(20, new) == NOTHING


def test_a_lost_acknowledgement() -> None:
    story = Story()
    old, _ = story.put(0, 1000), story.put(1200, 2010)
    assert story.crash(2011, old) == {NO_LOST_ACK, DURABLE}
    assert story.why(NO_LOST_ACK) == "get k17 -> v1 after recovery, but put k17 = v2 had returned at 2.010 us"
    assert story.why(DURABLE) == (
        "get k17 -> v1 after recovery, but v1 comes before v2: put k17 = v1 had returned at 1.000 us, "
        "before put k17 = v2 was invoked at 1.200 us, and put k17 = v2 had returned at 2.010 us"
    )
    assert story.numbers(NO_LOST_ACK) == [2]
    assert story.numbers(DURABLE) == [2, 1]


def test_the_loaded_value_comes_back_after_an_acknowledged_put() -> None:
    story = Story()
    story.put(0, 10)
    assert story.crash(10, 0) == {NO_LOST_ACK, DURABLE}
    assert story.why(DURABLE) == (
        "get k17 -> v0 after recovery, but v0 comes before v1, being there before time zero, "
        "and put k17 = v1 had returned at 0.010 us"
    )


def test_one_instant_before_the_acknowledgement_the_put_may_be_lost() -> None:
    story = Story()
    story.put(0, 10)
    assert story.crash(9, 0) == NOTHING


def test_a_pending_put_may_survive_or_not() -> None:
    story = Story()
    old, new = story.put(0, 10), story.put(20)
    assert story.crash(30, old) == story.crash(30, new) == NOTHING


def test_a_pending_put_may_surface_only_after_recovery_and_over_a_later_one() -> None:
    story = Story()
    hanging, _ = story.put(0), story.put(10, 20)
    assert story.crash(30, hanging) == NOTHING


def test_a_pending_put_does_not_excuse_the_loss_of_an_acknowledged_one() -> None:
    story = Story()
    old, _, _ = story.put(0, 10), story.put(20, 30), story.put(25)
    assert story.crash(40, old) == {NO_LOST_ACK, DURABLE}


def test_a_pending_put_that_destroyed_the_old_value_has_lost_it() -> None:
    story = Story()
    story.put(0, 10)
    story.put(20)
    assert story.crash(30, TORN) == {COMMITTED, NO_LOST_ACK, DURABLE}
    assert story.why(NO_LOST_ACK).endswith("but put k17 = v1 had returned at 0.010 us")


def test_of_two_concurrent_acknowledged_puts_either_may_survive() -> None:
    story = Story()
    one, other = story.put(0, 20), story.put(10, 30)
    assert story.crash(40, one) == story.crash(40, other) == NOTHING


def test_puts_of_two_processes_that_touch_at_one_instant_are_concurrent() -> None:
    story = Story()
    one, other = story.put(0, 10), story.put(10, 20, process=2)
    assert story.crash(30, one) == story.crash(30, other) == NOTHING


def test_puts_of_one_process_come_one_after_the_other_though_they_touch() -> None:
    story = Story()
    one, other = story.put(0, 10), story.put(10, 20)
    assert story.crash(10, one) == story.crash(20, other) == story.crash(30, other) == NOTHING
    assert story.crash(20, one) == {NO_LOST_ACK, DURABLE}
    story.get(20, 30, other)
    assert story.crash(40, one) == {NO_LOST_ACK, DURABLE, MONOTONIC}


def test_a_put_is_not_behind_what_another_process_did_until_the_same_instant() -> None:
    story = Story()
    one, _, last = story.put(0, 10, process=2), story.put(5, 10), story.put(10, 20)
    assert story.crash(30, one) == story.crash(30, last) == NOTHING


def test_an_unknown_outcome_is_as_good_as_pending_for_ever() -> None:
    story = Story()
    unknown, _ = story.put(0, 5, "info"), story.put(10, 20)
    assert story.crash(30, unknown) == NOTHING


# what nobody wrote ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("garbage", "words"),
    [
        (TORN, "torn (words 3 and 4 of 8 are new) after recovery, but nobody wrote that"),
        (None, "absent after recovery, but the object was loaded and nobody removed it"),
        (77, "v77 after recovery, but nobody wrote that"),
    ],
)
def test_garbage_in_place_of_the_loaded_value_is_a_loss(garbage: Value, words: str) -> None:
    story = Story()
    assert story.crash(0, garbage) == {COMMITTED, NO_LOST_ACK, DURABLE}
    assert story.why(COMMITTED) == f"get k17 -> {words}"


def test_where_nothing_was_loaded_absent_is_the_initial_value() -> None:
    story = Story(loaded=False)
    new = story.put(0, 10)
    assert story.crash(9, None) == story.crash(9, new) == NOTHING
    assert story.crash(10, None) == {NO_LOST_ACK, DURABLE}


def test_garbage_loses_nothing_where_nothing_was_acknowledged() -> None:
    story = Story(loaded=False)
    story.put(0)
    assert story.crash(10, TORN) == {COMMITTED, DURABLE}
    assert story.crash(10, 0) == {COMMITTED, DURABLE}


def test_a_put_that_certainly_failed_must_not_surface() -> None:
    story = Story()
    failed = story.put(0, 10, "fail")
    assert story.crash(9, failed) == NOTHING
    assert story.crash(10, failed) == {COMMITTED, NO_LOST_ACK, DURABLE}
    assert story.why(COMMITTED).endswith("but put k17 = v1 had certainly failed at 0.010 us")


# what reads say -------------------------------------------------------------------------------------------------


def test_a_torn_read_before_the_crash() -> None:
    story = Story()
    new = story.put(0, 30)
    story.get(10, 20, TORN)
    assert story.crash(40, new) == {COMMITTED, DURABLE}
    assert story.why(DURABLE) == story.why(COMMITTED)
    assert story.why(COMMITTED).startswith(
        "get k17 -> torn (words 3 and 4 of 8 are new) (operation 2) returned at 0.020"
    )


def test_a_torn_read_that_did_not_return_ok_says_nothing() -> None:
    story = Story()
    story.get(10, 20, TORN, "info")
    assert story.crash(40, 0) == NOTHING


def test_a_read_of_a_put_to_come() -> None:
    story = Story()
    story.get(0, 10, 2)
    new = story.put(11, 20)
    assert story.crash(30, new) == {COMMITTED, DURABLE}
    assert story.why(COMMITTED).endswith("put k17 = v2 was not invoked before 0.011 us")


def test_a_read_that_returns_as_its_put_is_invoked() -> None:
    story = Story()
    story.get(0, 10, 2)
    new = story.put(10, 20)
    assert story.crash(30, new) == NOTHING


def test_a_stale_read() -> None:
    story = Story()
    old, new = story.put(0, 10), story.put(20, 30)
    story.get(40, 50, old)
    assert story.crash(60, new) == {DURABLE}
    assert story.numbers(DURABLE) == [3, 2, 1]


def test_a_new_old_inversion() -> None:
    story = Story()
    new = story.put(0, 100)
    story.get(10, 20, new)
    story.get(30, 40, 0)
    assert story.crash(110, new) == {DURABLE}
    assert story.why(DURABLE) == (
        "v0 comes before v1, being there before time zero, "
        "yet v1 comes before v0: get k17 -> v1 (operation 2) had returned at 0.020 us, "
        "before get k17 -> v0 (operation 3) was invoked at 0.030 us"
    )
    assert story.numbers(DURABLE) == [3, 2]


def test_a_pending_put_that_somebody_read_and_the_crash_lost() -> None:
    story = Story()
    story.put(0)
    story.get(10, 20, 1)
    assert story.crash(30, 0) == {MONOTONIC, DURABLE}
    assert story.why(MONOTONIC) == (
        "get k17 -> v0 after recovery, but get k17 -> v1 (operation 2) had returned before the crash, at 0.020 us, "
        "and nothing is older than v0, which was there before time zero"
    )
    assert story.crash(30, 1) == NOTHING
    assert story.crash(15, 0) == NOTHING  # the read is pending too


def test_two_readers_who_disagree_about_the_order_of_two_puts() -> None:
    story = Story()
    one, other = story.put(0, 20), story.put(10, 30)
    story.get(40, 50, one)
    story.get(41, 51, other)
    assert story.crash(39, one) == story.crash(39, other) == NOTHING
    assert story.crash(60, one) == story.crash(60, other) == {DURABLE}


def test_a_version_that_was_read_is_not_taken_back() -> None:
    story = Story()
    old, new = story.put(0, 10), story.put(20)
    story.get(30, 40, new)
    assert story.crash(50, old) == {MONOTONIC, DURABLE}
    assert story.why(MONOTONIC) == (
        "get k17 -> v1 after recovery, but get k17 -> v2 (operation 3) had returned before the crash, at 0.040 us, and "
        "v1 is certainly older: put k17 = v1 had returned at 0.010 us, before put k17 = v2 was invoked at 0.020 us"
    )
    assert story.numbers(MONOTONIC) == [3, 2, 1]
    assert story.crash(39, old) == NOTHING  # nobody has seen it yet


def test_a_read_proves_the_age_of_a_pending_version() -> None:
    story = Story()
    hanging = story.put(0)
    story.get(10, 20, hanging)
    new = story.put(30)
    story.get(40, 50, new)
    assert story.crash(60, hanging) == {MONOTONIC, DURABLE}


def test_versions_that_overlap_may_be_read_in_either_order() -> None:
    story = Story()
    one, other = story.put(0, 20), story.put(10, 30)
    story.get(40, 50, other)
    assert story.crash(60, one) == {DURABLE}


def test_an_object_that_was_read_and_is_gone_has_gone_back() -> None:
    story = Story()
    story.get(10, 20, 0)
    assert story.crash(30, None) == {COMMITTED, MONOTONIC, NO_LOST_ACK, DURABLE}
    assert story.why(MONOTONIC).endswith("older than absent, since the object was loaded and nobody removed it")


def test_torn_bytes_are_no_version() -> None:
    story = Story()
    story.get(10, 20, 0)
    assert MONOTONIC not in story.crash(30, TORN)


# several reads after the crash -------------------------------------------------------------------------------------


def reads(story: Story, at: int, *values: Value) -> dict[Condition, str]:
    """The explanations of what is violated if reads after a crash at ``at`` return ``values``."""
    findings = check(story.history, at * 1000, {"k17": values}, loaded={"k17"})
    assert_implications(findings)
    return {c: finding.explanation for c, finding in findings.items() if finding.verdict is Verdict.VIOLATED}


def test_a_pending_put_that_surfaces_after_a_read_of_the_old_value() -> None:
    story = Story()
    old, new = story.put(0, 10), story.put(20)
    assert reads(story, 30, old, new) == {
        STRICT: "v1 comes before v2: put k17 = v1 had returned at 0.010 us, "
        "before get k17 -> v2 after recovery was invoked at 0.030 us, "
        "yet v2 comes before v1: the crash at 0.030 us had killed the process of put k17 = v2, "
        "before get k17 -> v1 after recovery was invoked at 0.030 us"
    }
    assert reads(story, 30, new, new) == reads(story, 30, old, old) == {}
    assert reads(story, 30, new, old).keys() == {LINEARIZABLE, DURABLE, PERSISTENT, STRICT}


def test_a_stale_read_beside_a_fresh_one_is_no_loss() -> None:
    story = Story()
    old, new = story.put(0, 10), story.put(20, 25)
    assert reads(story, 30, old, new).keys() == {LINEARIZABLE, DURABLE, PERSISTENT, STRICT}
    assert reads(story, 30, old, old).keys() == {NO_LOST_ACK, LINEARIZABLE, DURABLE, PERSISTENT, STRICT}


# whole histories ------------------------------------------------------------------------------------------------


def test_the_first_object_at_fault_is_named() -> None:
    history = History(frozenset({"put"}))
    for name in ("a", "b", "c"):
        history.complete(history.invoke(0, "put", name, len(history.operations) + 1, 0), "ok", 10)
    findings = check(history, 10, {"a": 1, "b": 0, "c": 0, "d": 0})
    assert findings[NO_LOST_ACK].object == "b"
    assert findings[COMMITTED].verdict is Verdict.HOLDS
    assert list(check(history, 10, {}, [NO_LOST_ACK])) == [NO_LOST_ACK]


def test_an_object_that_nobody_touched_before_the_crash_is_judged_too() -> None:
    findings = check(History(frozenset({"put"})), 10, {"z": TORN})
    assert findings[COMMITTED].object == "z"


def test_without_a_read_after_the_crash_only_the_past_is_judged() -> None:
    story = Story()
    story.put(0, 10)
    story.get(20, 30, 0)
    findings = check(story.history, 40_000, {})
    assert findings[NO_LOST_ACK].verdict is Verdict.HOLDS
    assert findings[DURABLE].verdict is Verdict.VIOLATED


@pytest.mark.parametrize("stamp", [0, 1, None, TORN])
def test_values_that_are_not_unique_are_refused(stamp: Value) -> None:
    history = History(frozenset({"put"}))
    history.invoke(0, "put", "x", 1, 0)
    history.invoke(0, "put", "x", stamp, 5)
    with pytest.raises(InputError, match="operation 2"):
        check(history, 10, {})


def test_the_register_refuses_events_that_go_back_in_time() -> None:
    register = RegisterHistory("x", frozenset({"put"}))
    register.invoke(Operation(1, 0, "put", "x", 1, 10))
    with pytest.raises(ValueError, match="an event at 9 ps after one at 10 ps"):
        register.invoke(Operation(2, 0, "put", "x", 2, 9))


def test_the_version_moves_with_what_may_change_an_answer_and_with_nothing_else() -> None:
    register = RegisterHistory("x", frozenset({"put"}))
    put, get = Operation(1, 0, "put", "x", 1, 10), Operation(2, 0, "get", "x", None, 20)
    register.invoke(put)
    before = register.version
    register.invoke(get)
    assert register.version == before
    put.outcome, put.return_ps = "ok", 30
    register.complete(put)
    assert register.version > before


def test_what_is_not_violated_has_no_explanation() -> None:
    with pytest.raises(ValueError, match="durable is not violated"):
        RegisterHistory("x", frozenset({"put"})).explain(0, DURABLE)


def test_every_condition_has_its_judge() -> None:
    whole = {Condition.SESSION, Condition.BUFFERED, Condition.BUFFERED_CUT}
    assert set(FINDERS) | whole | {Condition.EXACTLY_ONCE, Condition.BOUNDED_LOSS} == set(Condition)
    assert set(CONDITIONS) == set(FINDERS) - {LINEARIZABLE, PERSISTENT, STRICT}


def test_a_contradiction_among_verdicts_is_an_error_of_the_oracle() -> None:
    with pytest.raises(AssertionError, match="durable holds, and no_lost_ack, which it implies, is violated"):
        assert_implications({DURABLE: Verdict.HOLDS, NO_LOST_ACK: Verdict.VIOLATED})
    assert_implications({DURABLE: Verdict.UNDECIDED, NO_LOST_ACK: Verdict.VIOLATED})
