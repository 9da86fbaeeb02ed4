"""Does the near-linear answer to ``session`` agree with the closure that draws every conclusion?"""

from __future__ import annotations

import random
from collections import Counter

import pytest

from rpsim.protocols.guarantees import Verdict
from rpsim.validation.oracle.conditions import session
from rpsim.validation.oracle.conditions.session import View, find
from rpsim.validation.oracle.eras import Eras, Op
from rpsim.validation.oracle.models.model import Call
from rpsim.validation.oracle.models.simple import MODELS


def random_eras(draw: random.Random, sessions: int, objects: int, length: int) -> Eras:
    """Sessions that go one by one; reads mostly of what some replica, that may lag behind, shows."""
    free, ops, shown = [0] * sessions, [], [[0] * objects for _ in range(sessions)]
    order: list[tuple[int, int]] = []  # writes as they reach the replicas: (object, value)
    seen = [0] * sessions
    sloppy = draw.random() < 0.5
    crashes = (40,) if draw.random() < 0.2 else ()
    for number in range(1, length + 1):
        who = draw.randrange(sessions)
        begin = free[who] + draw.randrange(1, 9)
        end = begin + draw.randrange(0, 7)
        free[who] = end
        name = draw.randrange(objects)
        dies = draw.random() < 0.08
        if draw.random() < 0.5:
            call, tag = Call("write", number, None), (name, name, who)
            ops.append(Op(number, name, call, begin, None if dies else end, tag=tag))
            order.insert(draw.randrange(max(0, len(order) - 3), len(order) + 1), (name, number))
        else:
            seen[who] = draw.randrange(seen[who], len(order) + 1)
            for other, value in order[: seen[who]]:
                shown[who][other] = value
            value = shown[who][name]
            if sloppy and draw.random() < 0.15 and order:
                value = draw.choice([value for other, value in order if other == name] or [0])
            ops.append(Op(number, name, Call("read", None, value or None), begin, end, tag=(name, name, who)))
    return Eras(MODELS["register"], objects, ops, (), crashes)


def compare(histories: int, length: int, seed: int) -> Counter[object]:
    """Ask both ways for every session of random histories; how often which answer came."""
    draw, seen = random.Random(seed), Counter[object]()
    plain = View.fits

    def fits(view: View) -> bool | None:
        answer = plain(view)
        seen[answer] += 1
        if answer is not None:
            assert answer is closed(View(view._writes, view._session, view.reads))
        return answer

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(View, "fits", fits)
        for _ in range(histories):
            find(random_eras(draw, draw.randrange(2, 5), draw.randrange(1, 4), draw.randrange(3, length)))
    return seen


def closed(view: View) -> bool:
    """The answer of the closure."""
    try:
        view.close([(read, ()) for read in view.reads])
    except session._Cycle:
        return False
    return True


@pytest.mark.long
@pytest.mark.parametrize("histories", [3_000, pytest.param(60_000, marks=pytest.mark.slow)])
def test_it_agrees_with_the_closure(histories: int) -> None:
    seen = compare(histories, 24, 5)
    assert min(seen[True], seen[False]) > histories // 20, seen


def test_a_wrong_answer_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session.Passing, "_pull", lambda self, waiting: None)
    with pytest.raises(AssertionError):
        compare(3_000, 24, 5)
    monkeypatch.undo()
    monkeypatch.setattr(session.Passing, "_no_cycles", lambda self: None)
    with pytest.raises(AssertionError):
        compare(3_000, 24, 5)


def test_a_read_that_no_order_explains_is_still_told() -> None:
    rows = [
        Op(1, 0, Call("write", 1, None), 0, 1, tag=(0, "x", 0)),
        Op(2, 0, Call("write", 2, None), 2, 3, tag=(0, "x", 0)),
        Op(3, 0, Call("read", None, 2), 4, 5, tag=(0, "x", 1)),
        Op(4, 0, Call("read", None, 1), 6, 7, tag=(0, "x", 1)),
    ]
    found = find(Eras(MODELS["register"], 1, rows, (), ()))
    assert (found.verdict, found.read, found.seen, found.writer) == (Verdict.VIOLATED, 4, 2, 1)
