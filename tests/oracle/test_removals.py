"""Objects that are removed now and then: a read that finds nothing does not say which removal it saw.

Judged against what follows from the definition: a flaw is one whichever removal each such read saw.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpsim.protocols.guarantees import Condition, Verdict
from rpsim.scenarios.history import History, Operation, Removed
from rpsim.validation.crash.explorer import Exploration
from rpsim.validation.oracle import CONDITIONS, NOT_READ, ObjectHistory, RegisterHistory, RemovableHistory, followed
from rpsim.validation.oracle.conditions import removals
from rpsim.validation.oracle.search.general import Search

UPDATES = frozenset({"put", "delete"})
COMMITTED, MONOTONIC, LOST, DURABLE = CONDITIONS


@st.composite
def histories(draw):
    """A few operations on one loaded object, then what is read after recovery; times are small, so that they meet."""
    operations = []
    for number in range(1, draw(st.integers(2, 6)) + 1):
        f = draw(st.sampled_from(["put", "delete", "delete", "get", "get"]))
        begin = draw(st.integers(1, 12))
        end = begin + draw(st.integers(1, 6))
        argument = {"put": number, "delete": Removed(number), "get": None}[f]
        returned = f == "get" or draw(st.booleans())
        operation = Operation(number, number, f, "x", argument, begin, end if returned else None)
        operation.outcome = "ok" if returned else None
        operations.append(operation)
    written = [0, None, *(o.number for o in operations if o.f == "put")]
    for operation in operations:
        if operation.f == "get":
            operation.result = draw(st.sampled_from(written))
    return operations, draw(st.sampled_from([*written, NOT_READ]))


def known_of(operations, updates=UPDATES):
    known = ObjectHistory("x", updates)
    events = [(o.invoke_ps, 1, o) for o in operations]
    events += [(o.return_ps, 0, o) for o in operations if o.return_ps is not None]
    for _, begins, operation in sorted(events, key=lambda event: (event[0], event[1], event[2].number)):
        (known.invoke if begins else known.complete)(operation)
    known.crash(100)
    return known


def by_assignment(operations, recovered):
    """For each way to say which removal every read saw, what is violated then: a history of unique values.

    No read saw a removal that began after it, if there is another.
    """
    removals = [o for o in operations if o.f == "delete"]
    plain = [replace(o, argument=int(o.argument)) if o.f == "delete" else o for o in operations]
    blind = [i for i, o in enumerate(plain) if o.f == "get" and o.result is None]
    stamps = [o.number for o in removals] or [None]
    begun = [[o.number for o in removals if o.invoke_ps <= plain[i].return_ps] or stamps for i in blind]
    for *seen, end in product(*begun, stamps if recovered is None else [recovered]):
        chosen = dict(zip(blind, seen, strict=True))
        named = [replace(o, result=chosen[i]) if i in chosen else o for i, o in enumerate(plain)]
        known = known_of(named)
        yield {condition for condition, find in CONDITIONS.items() if find(known, end) is not None}


@pytest.mark.long
@given(histories())
def test_a_flaw_is_one_whichever_removal_each_read_saw(drawn):
    operations, recovered = drawn
    known = known_of(operations)
    ours = {condition for condition, find in CONDITIONS.items() if find(known, recovered) is not None}
    every = list(by_assignment(operations, recovered))
    certain = set.intersection(*every)
    assert ours <= certain
    assert (DURABLE in ours) is (DURABLE in certain)
    assert (COMMITTED in ours) is (COMMITTED in certain)
    assert DURABLE in ours or not ours  # it implies all others


def story(*operations):
    return [
        Operation(n, n, f, "x", {"put": n, "delete": Removed(n)}.get(f), begin, end, result, "ok" if end else None)
        for n, (f, begin, end, result) in enumerate(operations, 1)
    ]


def violated(operations, recovered):
    known = known_of(operations)
    return {condition for condition, find in CONDITIONS.items() if find(known, recovered) is not None}


def test_a_delete_that_returned_and_is_undone_is_lost():
    deleted = story(("put", 1, 2, None), ("delete", 3, 4, None))
    assert violated(deleted, None) == set()
    assert violated(deleted, 1) == {LOST, DURABLE}
    assert "delete x had returned" in CONDITIONS[LOST](known_of(deleted), 1).explanation
    assert "absent" in CONDITIONS[DURABLE](known_of(deleted), 1).explanation
    assert violated(story(("put", 1, 2, None), ("delete", 3, None, None)), 1) == set()


def test_absence_that_was_read_is_not_taken_back():
    seen = story(("put", 1, 2, None), ("delete", 3, None, None), ("get", 5, 6, None))
    assert violated(seen, 1) == {MONOTONIC, DURABLE}
    assert "get x -> absent (operation 3) had returned" in CONDITIONS[MONOTONIC](known_of(seen), 1).explanation


def test_an_object_that_is_put_again_is_not_absent():
    again = story(("delete", 1, 2, None), ("put", 3, 4, None), ("delete", 5, 6, None), ("put", 7, 8, None))
    assert violated(again, None) == {LOST, DURABLE}
    assert violated(again, 4) == set() and violated(again, 2) == {LOST, DURABLE}


def test_absent_before_anybody_removed_it_is_out_of_thin_air():
    assert COMMITTED in violated(story(("get", 1, 2, None), ("delete", 3, 4, None)), None)


def test_objects_that_are_never_removed_are_followed_quickly():
    history = History(UPDATES, story(("put", 1, 2, None)))
    assert isinstance(followed("x", history), RegisterHistory)
    history.operations += story(("delete", 3, 4, None))
    assert isinstance(followed("x", history), RemovableHistory)
    assert [*CONDITIONS] == [Condition.COMMITTED, Condition.MONOTONIC, Condition.NO_LOST_ACK, Condition.DURABLE]


def test_a_search_that_gives_up_is_told(monkeypatch):
    """Nothing is wrong with what is read, but that says nothing of the order of all operations."""
    one = RemovableHistory("x", UPDATES)
    for number, f, argument in ((1, "put", 1), (2, "delete", Removed(2))):
        operation = Operation(number, number, f, "x", argument, 10 * number, 10 * number + 5, None, "ok")
        one.invoke(operation)
        one.complete(operation)
    assert one.judge(None) == frozenset() and one.undecided == set()
    monkeypatch.setattr(removals, "Search", partial(Search, budget=1))
    assert one.judge(1) == {LOST} and one.undecided == {DURABLE}
    walked = Exploration(undecided=one.undecided)
    assert [walked.verdict(condition) for condition in (DURABLE, MONOTONIC)] == [Verdict.UNDECIDED, Verdict.HOLDS]
