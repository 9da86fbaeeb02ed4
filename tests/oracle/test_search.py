"""Does the general search agree with plain Wing and Gong, for every model, and is what it shows true?"""

from __future__ import annotations

import random
import time
import types
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpsim.protocols.guarantees import Verdict
from rpsim.validation.oracle.known import NEVER_PS
from rpsim.validation.oracle.models import simple as models_module
from rpsim.validation.oracle.models.simple import MODELS, UNKNOWN, Call
from rpsim.validation.oracle.search import general as search_module
from rpsim.validation.oracle.search.general import Interval, search
from rpsim.validation.speed.oracle import hard_cas_history

from .spans import ARGUMENTS, has_an_order, is_legal, mutant, random_spans

CAS = MODELS["cas-register"]
SEARCH, STEPS = search_module, models_module


@pytest.mark.long
@pytest.mark.parametrize("name", ARGUMENTS)
def test_the_search_and_brute_force_agree(name: str) -> None:
    seen: Counter[bool] = Counter()
    model = MODELS[name]

    @settings(max_examples=200)
    @given(st.data())
    def agree(data: st.DataObject) -> None:
        def choose(n: int) -> int:
            return data.draw(st.integers(0, n - 1))

        spans = random_spans(model, choose, 6, deadlines=choose(2) == 1)
        answer = search(model, spans)
        expected = has_an_order(model, spans)
        assert answer.verdict is (Verdict.HOLDS if expected else Verdict.VIOLATED)
        if expected:
            assert is_legal(model, spans, answer.order)
        seen[expected] += 1

    agree()
    assert seen[True] > 20


@pytest.mark.long
@pytest.mark.parametrize("name", ARGUMENTS)
def test_an_order_that_is_found_in_depth_is_legal_and_none_is_found_where_there_is_none(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same with no steps before the search in depth, which on its own says nothing of violations."""
    monkeypatch.setattr(search_module, "HARD", -1)
    rng = random.Random(51)
    seen: Counter[bool] = Counter()
    for turn in range(300):
        spans = random_spans(MODELS[name], rng.randrange, 6, deadlines=turn % 2 == 1)
        answer = search(MODELS[name], spans)
        expected = has_an_order(MODELS[name], spans)
        assert answer.verdict is (Verdict.HOLDS if expected else Verdict.VIOLATED)
        assert not expected or is_legal(MODELS[name], spans, answer.order)
        seen[expected] += 1
    assert seen[True] > 100 and seen[False] > 5


@pytest.mark.long
def test_many_writers_of_a_text_are_decided_in_depth(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty appends, many of them at once, then a read that says their order."""
    calls = [Call("append", f"{n} ", None) for n in range(40)]
    spans = [Interval(n, call, 2 * n, 2 * n + 23) for n, call in enumerate(calls)]
    read = Interval(99, Call("get", None, "".join(str(call.argument) for call in calls)), 20_000, 20_001)
    answer = search(MODELS["kv-text"], [*spans, read], 300_000)
    assert answer.verdict is Verdict.HOLDS and answer.order == (*range(40), 99)
    monkeypatch.setattr(search_module, "DEEP", 0)
    assert search(MODELS["kv-text"], [*spans, read], 100_000).verdict is Verdict.UNDECIDED


@pytest.mark.long
def test_thousands_more_and_the_first_operation_at_fault() -> None:
    rng = random.Random(5)
    seen: Counter[tuple[str, bool]] = Counter()
    for turn in range(700):
        for name, model in ((name, MODELS[name]) for name in ARGUMENTS):
            spans = random_spans(model, rng.randrange, 6, deadlines=turn % 2 == 0)
            answer = search(model, spans)
            expected = has_an_order(model, spans)
            assert (answer.verdict is Verdict.HOLDS) == expected
            seen[name, expected] += 1
            if not expected and turn % 2:
                ends = sorted({s.return_ps for s in spans if s.return_ps is not None})
                first = next(end for end in ends if not has_an_order(model, prefix(spans, end)))
                stuck = next(s for s in spans if s.number == answer.stuck)
                assert stuck.return_ps <= first
    assert min(seen[name, False] for name in ARGUMENTS) > 20, seen


def prefix(spans: list[Interval], until_ps: int) -> list[Interval]:
    """What was known at an instant."""
    return [
        s
        if s.return_ps is not None and s.return_ps <= until_ps
        else s._replace(return_ps=None, by_ps=NEVER_PS, call=Call(s.call.f, s.call.argument, UNKNOWN))
        for s in spans
        if s.invoke_ps <= until_ps
    ]


@pytest.mark.long
def test_taking_related_operations_away_leaves_an_order() -> None:
    """What pieces rest on (validation/histories/pieces.py)."""
    rng = random.Random(6)
    taken = 0
    for _ in range(500):
        for model in (MODELS[name] for name in ARGUMENTS):
            spans = random_spans(model, rng.randrange, 6, lies=0)
            assert search(model, spans).verdict is Verdict.HOLDS
            names = {model.related(s.call) for s in spans} - {None}
            pieces = [[s for s in spans if model.related(s.call) != name] for name in names]
            pieces += [[s for s in spans if s is not one] for one in spans if model.inert(one.call)]
            for piece in pieces:
                assert search(model, piece).verdict is Verdict.HOLDS
            taken += len(pieces)
    assert taken > 3000


@pytest.mark.long
def test_hard_cas_histories() -> None:
    """90 operations of five clients, a tenth of unknown outcome: the steps are bounded, whatever the machine."""
    steps, seconds, seen = [], [], Counter()
    for seed in range(200):
        spans = hard_cas_history(seed)
        began = time.process_time()
        answer = search(CAS, spans)
        seconds.append(time.process_time() - began)
        steps.append(answer.steps)
        seen[answer.verdict] += 1
        assert answer.verdict is not Verdict.HOLDS or is_legal(CAS, spans, answer.order)
    print(f"steps: median {sorted(steps)[100]}, most {max(steps)}; seconds: most {max(seconds):.4f}")
    assert max(steps) < 25_000
    assert seen[Verdict.HOLDS] > 100 and seen[Verdict.VIOLATED] > 20


def test_unknown_operations_that_are_alike_and_killed_together_may_both_have_taken_effect() -> None:
    spans = [Interval(n, Call("enqueue", 7, UNKNOWN), n, None, by_ps=5) for n in (1, 2)]
    spans += [Interval(n, Call("dequeue", None, 7), 10 * n, 10 * n + 5) for n in (3, 4)]
    assert search(MODELS["queue"], spans).verdict is Verdict.HOLDS
    late = [spans[0]._replace(invoke_ps=21, by_ps=NEVER_PS), *spans[1:]]
    assert search(MODELS["queue"], late).verdict is Verdict.HOLDS
    assert search(MODELS["queue"], spans[1:]).stuck == 4


@pytest.mark.parametrize(("later", "holds"), [([1], True), ([6], True), ([6, 1], False), ([1, 2], True)])
def test_two_ways_to_a_state_that_used_different_unknown_operations(later: list[int], holds: bool) -> None:
    spans = [Interval(1, Call("write", 0), 0, 1)]
    spans += [Interval(2, Call("write", 1, UNKNOWN), 2, None), Interval(3, Call("fetch_add", 1, UNKNOWN), 3, None)]
    spans += [Interval(4, Call("read", None, 1), 10, 11)]  # by the one, or by the other
    if later != [1, 2]:
        spans += [Interval(5, Call("write", 5), 20, 21)]  # now 1 takes the write, 6 the addition
        spans += [Interval(6 + i, Call("read", None, value), 30 + 2 * i, 31 + 2 * i) for i, value in enumerate(later)]
    else:
        spans += [Interval(6, Call("read", None, 2), 30, 31)]
    assert (search(CAS, spans).verdict is Verdict.HOLDS) == holds == has_an_order(CAS, spans)


def test_an_honest_undecided() -> None:
    spans = hard_cas_history(35)
    answer = search(CAS, spans, budget=500)
    assert answer.verdict is Verdict.UNDECIDED
    assert 0 < answer.returns < answer.of and answer.stuck is not None
    assert 500 < answer.steps < 1000
    whole = search(CAS, spans, budget=100_000)
    assert whole.verdict is Verdict.HOLDS


@pytest.mark.long
def test_a_long_history_on_a_register_written_the_same_again_and_again() -> None:
    spans = [Interval(n, Call("write", n % 3), 10 * n, 10 * n + 15) for n in range(1, 20_001)]
    spans += [Interval(20_000 + n, Call("read", None, n % 3), 10 * n + 8, 10 * n + 9) for n in range(1, 20_001)]
    answer = search(MODELS["register"], spans)
    assert answer.verdict is Verdict.HOLDS and answer.steps < 400_000


@pytest.mark.parametrize(
    ("module", "old", "new"),
    [
        pytest.param(*row[1:], id=row[0])
        for row in [
            (
                "returns before invocations",
                SEARCH,
                "_INVOKE, _RETURN, _EXPIRE = 0, 1, 2",
                "_INVOKE, _RETURN, _EXPIRE = 1, 0, 2",
            ),
            ("deadlines are ignored", SEARCH, "elif span.by_ps < NEVER_PS:", "elif False:"),
            (
                "deadlines are duties",
                SEARCH,
                "if optional:\n                reached",
                "if False:\n                reached",
            ),
            ("unknown operations stay out", SEARCH, "if after is not ILLEGAL and after != state:", "if False:"),
            ("what fits is not noted", SEARCH, "                    done |= bit\n", "                    pass\n"),
            ("an unknown cas succeeds", STEPS, "return new if state == expected else state", "return new"),
            (
                "an unknown cas is quiet",
                STEPS,
                "call.result is False or expected",
                "call.result is not True or expected",
            ),
            ("a cas may fail for nothing", STEPS, "if (state == expected) is not (", "if state != expected and ("),
        ]
    ],
)
def test_a_broken_search_is_found_out(module: types.ModuleType, old: str, new: str) -> None:
    broken = mutant(module, old, new)
    searching = broken if module is search_module else search_module
    rng = random.Random(8)
    for turn in range(3000):
        name = ("cas-register", "queue", "register")[turn % 3]
        model = MODELS[name]
        spans = random_spans(model, rng.randrange, 6, deadlines=turn % 2 == 0)
        try:
            used = broken.MODELS[name] if module is models_module else model
            spans_used = [as_known_by(broken, s) for s in spans] if module is models_module else spans
            found = searching.Search(used, spans_used, 100_000).run()
        except (AssertionError, IndexError, KeyError):
            return
        holds = found.verdict is Verdict.HOLDS
        if holds != has_an_order(model, spans) or (holds and not is_legal(model, spans, found.order)):
            return
    pytest.fail("nobody noticed")


def as_known_by(module: types.ModuleType, span: Interval) -> Interval:
    """``span`` with the UNKNOWN of another copy of the models."""
    result = module.UNKNOWN if span.call.result is UNKNOWN else span.call.result
    return span._replace(call=module.Call(span.call.f, span.call.argument, result))
