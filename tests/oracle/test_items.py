"""Queues and stacks with unique items: is what is said of them by items what plain Wing, Gong and Lowe says?"""

from __future__ import annotations

import json
import random
from collections import Counter, deque
from collections.abc import Callable

import pytest

from rpsim.protocols.guarantees import Condition, Verdict
from rpsim.validation.histories import check, pieces
from rpsim.validation.histories.check import Judgement, check_history
from rpsim.validation.histories.read import parse_history
from rpsim.validation.oracle.known import NEVER_PS
from rpsim.validation.oracle.models.simple import MODELS, UNKNOWN, Call
from rpsim.validation.oracle.search import fifo, lifo
from rpsim.validation.oracle.search import items as items_module
from rpsim.validation.oracle.search.general import Interval, search
from rpsim.validation.oracle.search.items import ItemClash, Misfit, NotForItems
from rpsim.validation.oracle.search.plain import TooHard, plain
from rpsim.validation.speed.counting import counts
from rpsim.validation.speed.oracle import container_history

from .spans import Choose, mutant

CALLS = {"queue": ("enqueue", "dequeue"), "stack": ("push", "pop")}
Find = Callable[[list[Interval]], Misfit | None]
FIND: dict[str, Find] = {"queue": fifo.find, "stack": lifo.find}


def unrelated(name: str, choose: Choose) -> list[Interval]:
    """Puts and takes anywhere in a short time: most have no order, and for every reason that there is."""
    put, take = CALLS[name]
    spans: list[Interval] = []
    end = choose(12) + 4

    def add(f: str, item: int | None, begin: int, length: int, by_ps: int = NEVER_PS, *, known: bool = True) -> None:
        argument, result = (item, None) if f == put else (None, item)
        call = Call(f, argument, result if known else UNKNOWN)
        spans.append(Interval(len(spans) + 1, call, begin, begin + length if known else None, by_ps))

    for item in range(1, 2 + choose(6)):
        begin, known = choose(end), choose(8) > 0
        add(put, item, begin, choose(5), NEVER_PS if known or choose(2) else begin + choose(5), known=known)
        if choose(4):
            add(take, item, begin + choose(6), choose(5))
    for _ in range(choose(3)):
        add(take, None, choose(end), choose(4))
    for _ in range(choose(3) * choose(2)):
        add(take, None, choose(end), 0, known=False)
    return spans


def left_behind(name: str, choose: Choose) -> list[Interval]:
    """One operation after the other, and takes of unknown outcome that have much to answer for."""
    put, take = CALLS[name]
    spans: list[Interval] = []
    inside: list[int] = []
    for number in range(1, 3 + choose(10)):
        kind, at = choose(6), 3 * number + choose(2)
        if kind < 3:
            inside.append(number)
            spans.append(Interval(number, Call(put, number), at, at + choose(4)))
        elif kind == 3 and inside:
            item = inside.pop(choose(len(inside)))
            spans.append(Interval(number, Call(take, None, item), at, at + choose(4)))
        elif kind == 4:
            spans.append(Interval(number, Call(take, None, None), at, at + choose(4)))
        else:
            spans.append(Interval(number, Call(take, None, UNKNOWN), at, None))
    return spans


def related(name: str, choose: Choose) -> list[Interval]:
    """What clients of a container may see, and then up to two results exchanged or wrong."""
    put, take = CALLS[name]
    planned, now = [], 0
    for number in range(1, 2 + choose(12)):
        now += choose(3)
        planned.append((now + choose(4), number, put if choose(2) else take, now))
    state: deque[int] = deque()
    spans, item = [], 0
    for act, number, f, begin in sorted(planned):
        known = choose(5) > 0
        happens = known or choose(2)
        argument = result = None
        if f == put:
            item += 1
            argument = item
            state += [item] * bool(happens)
        elif state:
            result = state[0] if name == "queue" else state[-1]
            if happens:
                state.popleft() if name == "queue" else state.pop()
        call = Call(f, argument, result if known else UNKNOWN)
        spans.append(Interval(number, call, begin, act + choose(4) if known else None))
    for _ in range(choose(3)):
        takes = [i for i, span in enumerate(spans) if span.call.f == take and span.return_ps is not None]
        if takes:
            one, other = takes[choose(len(takes))], takes[choose(len(takes))]
            results = spans[one].call.result, spans[other].call.result if choose(4) else choose(item + 2) or None
            for turn, result in zip((one, other), results[::-1], strict=True):
                spans[turn] = spans[turn]._replace(call=Call(take, None, result))
    return sorted(spans, key=lambda span: span.number)


def has_an_order(name: str, spans: list[Interval]) -> bool | None:
    """What a search says; None if that takes too long. The plain one knows no deadlines."""
    if any(span.by_ps < NEVER_PS for span in spans):
        verdict = search(MODELS[name], spans, 20_000).verdict
        return None if verdict is Verdict.UNDECIDED else verdict is Verdict.HOLDS
    try:
        return plain(MODELS[name], spans, 100_000)[0]
    except TooHard:
        return None


def of_unknown_take(span: Interval) -> bool:
    return span.call.result is UNKNOWN and span.call.f in ("dequeue", "pop")


@pytest.mark.long
@pytest.mark.parametrize(
    "histories", [4_000, pytest.param(40_000, marks=pytest.mark.slow)], ids=["some", "forty thousand"]
)
def test_verdicts_are_those_of_the_plain_search(histories: int) -> None:
    rng = random.Random(8)
    seen: Counter[tuple[str, ItemClash | None]] = Counter()
    unknown = 0
    for turn in range(histories):
        name = "stack" if turn % 2 else "queue"
        spans = (unrelated, related, left_behind)[turn // 2 % 3](name, rng.randrange)
        holds = has_an_order(name, spans)
        if holds is None:
            seen["too hard", None] += 1
            continue
        try:
            misfit = FIND[name](spans)
        except NotForItems:
            assert name == "stack" and any(map(of_unknown_take, spans))
            continue
        assert (misfit is None) == holds, spans
        seen[name, misfit.clash if misfit else None] += 1
        unknown += any(map(of_unknown_take, spans))
        if misfit is not None:  # and what it names is proof enough
            piece = [span for span in spans if span.number in misfit.numbers]
            others = [span for span in spans if span not in piece and of_unknown_take(span)]
            assert has_an_order(name, piece) is False, (misfit, spans)
            assert has_an_order(name, piece + others) is False, (misfit, spans)
    clashes = {
        "queue": set(ItemClash) - {ItemClash.CROSSED},
        "stack": set(ItemClash) - {ItemClash.OVERTAKEN, ItemClash.LEFT},
    }
    for name, kinds in clashes.items():
        assert {clash for which, clash in seen if which == name} == {None, *kinds}
        assert min(seen[name, clash] for clash in kinds) >= histories // 1000, seen
        assert seen[name, None] > histories // 10
    assert seen["too hard", None] < histories // 100 and unknown > histories // 20


BROKEN = [
    (fifo, "other.gone_ps < item.asked_ps", "other.gone_ps <= item.asked_ps"),
    (fifo, "bisect_right(self.puts_ps, item.there_ps)", "bisect_left(self.puts_ps, item.there_ps)"),
    (fifo, "bisect_right(asked_ps, by_ps) < count", "bisect_right(asked_ps, by_ps) < 1"),
    (fifo, "bisect_left(there_ps, at_ps) > bisect_right(asked_ps, at_ps)", "bisect_left(there_ps, at_ps) > 0"),
    (fifo, "(take.invoke_ps, *asked_ps[low:high])", "(take.invoke_ps,)"),
    (fifo, "if all(bisect_left(there_ps, at_ps)", "if all(bisect_right(there_ps, at_ps)"),
    (lifo, "one.there_ps < ends_ps <= one.gone_ps", "one.there_ps < ends_ps < one.gone_ps"),
    (lifo, "free = [begin, *self._inside.less(low, high), end]", "self._inside.less(low, high); free = [begin, end]"),
    (lifo, "filled.over_ps(take.invoke_ps) > take.return_ps", "filled.over_ps(take.invoke_ps) >= take.return_ps"),
]


@pytest.mark.parametrize(("module", "old", "new"), BROKEN, ids=[new for _, _, new in BROKEN])
def test_with_one_thing_wrong_it_says_something_else(module, old: str, new: str) -> None:
    name = "queue" if module is fifo else "stack"
    rng, broken = random.Random(5), mutant(module, old, new)
    for turn in range(20_000):
        spans = (unrelated, left_behind)[turn % 2](name, rng.randrange)
        try:
            right = FIND[name](spans) is None
            wrong = broken.find(spans) is None
        except NotForItems:
            continue
        except (AssertionError, IndexError, KeyError):
            return
        if wrong != right:
            return
    pytest.fail("nobody can tell the difference")


def test_the_instants_at_which_something_is_inside() -> None:
    def item(put: tuple[int, int], take: tuple[int, int]) -> items_module.Item:
        return items_module.Item(Interval(0, Call("push", 0), *put), Interval(0, Call("pop", None, 0), *take))

    filled = items_module.Filled([item((0, 2), (5, 6)), item((1, 4), (8, 9)), item((7, 8), (12, 12))])
    assert [filled.over_ps(at_ps) for at_ps in (0, 2, 3, 7, 8, 9, 12, 40)] == [0, 2, 8, 8, 8, 12, 12, 40]


def history(name: str, operations: int, swapped: int = 0) -> str:
    """Clients of one container, as JSON Lines; ``swapped``: two takes so far apart have each other's items."""
    spans = container_history(name, operations)
    if swapped:
        takes = [turn for turn, span in enumerate(spans) if span.call.result is not None]
        one, other = takes[len(takes) // 2], takes[len(takes) // 2 + swapped]
        calls = spans[one].call, spans[other].call
        spans[one], spans[other] = spans[one]._replace(call=calls[1]), spans[other]._replace(call=calls[0])
    events = []
    for span in spans:
        call, put = span.call, CALLS[name][0]
        asked, found = (call.argument, None) if call.f == put else (None, call.result)
        row = {"process": span.number, "f": call.f}
        events.append((span.invoke_ps, row | {"type": "invoke"} | ({"value": asked} if call.f == put else {})))
        events.append((span.return_ps or 0, row | {"type": "ok"} | ({} if call.f == put else {"value": found})))
    return "\n".join(json.dumps(event | {"time": at}) for at, event in sorted(events, key=lambda row: row[0]))


def judged(text: str) -> Judgement:
    return check_history(parse_history(text, "h"), None, ["linearizable"]).verdicts[Condition.LINEARIZABLE]


@pytest.mark.long
@pytest.mark.parametrize("name", CALLS)
def test_five_thousand_operations(name: str) -> None:
    one = judged(history(name, 5_000))
    assert (one.verdict, one.by, one.steps) == (Verdict.HOLDS, ("items",), 5_000)


@pytest.mark.parametrize("name", CALLS)
def test_the_work_grows_no_faster_than_the_operations_and_their_logarithm(name: str) -> None:
    few, many = spans_of(name, 400), spans_of(name, 1_600)
    assert counts(lambda: FIND[name](many)).bytecodes < 6 * counts(lambda: FIND[name](few)).bytecodes


def spans_of(name: str, operations: int) -> list[Interval]:
    """Half of them puts, one after the other; then all is taken."""
    put, take = CALLS[name]
    half = operations // 2
    order = range(half) if name == "queue" else range(half - 1, -1, -1)
    puts = [Interval(n, Call(put, n), 2 * n, 2 * n + 3) for n in range(half)]
    return puts + [
        Interval(half + turn, Call(take, None, n), 2 * (half + turn) + 9, 2 * (half + turn) + 10)
        for turn, n in enumerate(order)
    ]


@pytest.mark.long
@pytest.mark.parametrize("name", CALLS)
def test_a_violation_in_a_long_history_is_told_by_few_operations(name: str, monkeypatch) -> None:
    for module in (check, pieces):  # the search for the longest prefix that is right comes to no end either way
        monkeypatch.setattr(module, "SHRINKING_BUDGET", 30_000)
    one = judged(history(name, 3_000, swapped=30))
    assert one.verdict is Verdict.VIOLATED and one.by == ("items",) and one.witness is not None
    assert len(one.witness.piece) <= 12 and "line" in one.witness.explanation


def said(*rows: tuple[int, str, object, int, int]) -> str:
    """The explanation of what is wrong with (process, f, item or None, from, to)."""
    events = []
    for process, f, item, begin, end in rows:
        puts = f in ("enqueue", "push")
        value = {} if item is None and puts else {"value": item}
        events.append((begin, 0, {"process": process, "type": "invoke", "f": f} | (value if puts else {})))
        events.append((end, 1, {"process": process, "type": "ok", "f": f} | ({} if puts else value)))
    text = "\n".join(json.dumps(row | {"time": at}) for at, _, row in sorted(events, key=lambda event: event[:2]))
    one = judged(text)
    assert one.witness is not None
    return one.witness.explanation


def test_what_is_said() -> None:
    assert said((1, "enqueue", 1, 0, 1), (1, "dequeue", 2, 2, 3)) == "dequeue -> 2 (line 3): nobody put that in"
    assert said((1, "push", 1, 0, 1), (1, "pop", 1, 2, 3), (1, "pop", 1, 4, 5)) == (
        "pop -> 1 (line 5), which pop -> 1 (line 3) had taken: it was put in once"
    )
    assert said((1, "enqueue", 1, 0, 1), (1, "enqueue", 2, 2, 3), (2, "dequeue", 2, 4, 5), (2, "dequeue", 1, 6, 7)) == (
        "dequeue -> 2 (line 5) had returned, yet enqueue 1 (line 1) had returned before enqueue 2 (line 3) was "
        "invoked, and nobody had taken it out"
    )
    assert said((1, "push", 1, 0, 1), (2, "pop", None, 2, 5), (1, "pop", 1, 6, 7)) == (
        "pop -> null (line 3), and all the time something was inside: push 1 (line 1)"
    )
    assert said((1, "push", 1, 0, 1), (1, "push", 2, 2, 3), (1, "pop", 1, 4, 5), (1, "pop", 2, 6, 7)).startswith(
        "something was inside all the time, and nothing can have lain below the rest: push 1 (line 1), "
    )
