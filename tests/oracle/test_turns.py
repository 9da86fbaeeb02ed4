"""Can a hard object hide an easy violation of another, and is what was not decided called so?"""

from __future__ import annotations

import json
from typing import Any

import pytest

from rpsim.protocols.guarantees import Condition, Verdict
from rpsim.validation.histories.check import Report, check_history
from rpsim.validation.histories.read import parse_history
from rpsim.validation.oracle.models.simple import MODELS, Call
from rpsim.validation.oracle.search import general
from rpsim.validation.oracle.search.general import Budget, Interval, Search, search
from rpsim.validation.speed.oracle import hard_cas_history


def history(hard: int, wrong: bool) -> str:
    """``hard`` operations on key a, all at once and not to be decided soon; two on key b, one of them wrong or not.

    Two of those on key a put the same in, so that they have to be searched.
    """
    rows: list[tuple[int, int, dict[str, Any]]] = []
    for n in range(hard):
        rows.append((n, 0, {"process": n, "type": "invoke", "f": "enqueue", "key": "a", "value": max(n, 1)}))
        rows.append((100 + n, 1, {"process": n, "type": "ok", "f": "enqueue", "key": "a"}))
    for n, (f, value) in enumerate([("enqueue", 1), ("dequeue", 2 if wrong else 1)]):
        begin = {"process": "b", "type": "invoke", "f": f, "key": "b"} | ({"value": value} if f == "enqueue" else {})
        end = {"process": "b", "type": "ok", "f": f, "key": "b"} | ({"value": value} if f == "dequeue" else {})
        rows += [(200 + 10 * n, 0, begin), (205 + 10 * n, 1, end)]
    return "\n".join(json.dumps(row | {"time": at}) for at, _, row in sorted(rows, key=lambda row: row[:2]))


def judged(text: str, **limits: int) -> Report:
    return check_history(parse_history(text, "h"), None, ["linearizable"], **limits)


def test_an_easy_violation_is_found_beside_a_hard_object() -> None:
    one = judged(history(14, wrong=True), budget=50_000).verdicts[Condition.LINEARIZABLE]
    assert one.verdict is Verdict.VIOLATED and one.witness is not None and one.witness.key == "b"
    assert one.steps < 5_000  # the hard one had its first turn, no more


@pytest.mark.long
def test_without_it_the_answer_is_undecided_and_says_how_far_it_came(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(general, "DEEP", 0)  # in depth an order is found
    one = judged(history(14, wrong=False), budget=50_000).verdicts[Condition.LINEARIZABLE]
    assert one.verdict is Verdict.UNDECIDED
    assert (
        one.undecided.startswith("a: given up at enqueue a 1 (line 1) after 50001 steps")
        and "past 0 of 14 responses" in one.undecided
    )
    assert 50_000 <= one.steps < 60_000


def test_memory_is_a_budget_too() -> None:
    one = judged(history(14, wrong=False), budget=10**9, memory_bytes=2_000_000).verdicts[Condition.LINEARIZABLE]
    assert one.verdict is Verdict.UNDECIDED and "for want of memory" in one.undecided
    assert judged(history(6, wrong=False), memory_bytes=2_000_000).verdicts[Condition.LINEARIZABLE].verdict == "holds"


def test_a_search_in_small_steps_says_what_it_says_at_once() -> None:
    for seed in range(20):
        spans = hard_cas_history(seed)
        whole = search(MODELS["cas-register"], spans)
        paused = Search(MODELS["cas-register"], spans)
        turns, answer = 0, None
        while answer is None:
            answer = paused.advance(50)
            turns += 1
        assert answer == whole and turns > 3


def test_one_budget_for_several_searches() -> None:
    spans = [Interval(n, Call("enqueue", n), 0, 10 + n) for n in range(6)]
    budget = Budget(steps=10**6)
    first = Search(MODELS["queue"], spans, budget).run()
    assert budget.spent == first.steps > 100
    small = Budget(steps=first.steps + 100)
    assert Search(MODELS["queue"], spans, small).run().verdict is Verdict.HOLDS
    assert Search(MODELS["queue"], spans, small).run().verdict is Verdict.UNDECIDED


TOUCHING = """\
{"process": 0, "type": "invoke", "f": "enqueue", "value": 1, "time": 0}
{"process": 0, "type": "ok", "f": "enqueue", "time": 10}
{"process": 0, "type": "invoke", "f": "enqueue", "value": 2, "time": 10}
{"process": 0, "type": "ok", "f": "enqueue", "time": 20}
{"process": 1, "type": "invoke", "f": "dequeue", "time": 30}
{"process": 1, "type": "ok", "f": "dequeue", "value": 2, "time": 40}
"""


@pytest.mark.parametrize("other", [False, True])
def test_a_process_does_one_thing_after_the_other_though_they_touch(other: bool) -> None:
    text = TOUCHING
    if other:  # whose operation returns at the same instant
        begin, end = ({"process": 2, "type": kind, "f": "dequeue", "value": None} for kind in ("invoke", "ok"))
        first, second, *rest = TOUCHING.splitlines()
        text = "\n".join([first, json.dumps(begin | {"time": 5}), second, json.dumps(end | {"time": 10}), *rest])
    wanted = Verdict.HOLDS if other else Verdict.VIOLATED
    assert judged(text).verdicts[Condition.LINEARIZABLE].verdict is wanted
