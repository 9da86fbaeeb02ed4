"""How hard the oracle's questions are: unique values by zones and items, and CAS registers beside the plain search.

A step of a search is one transition of the model tried: unlike seconds it is the same on every machine.
"""

from __future__ import annotations

import random
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from ...protocols.guarantees import Condition, Verdict
from ..histories.check import uncollected
from ..oracle import check
from ..oracle.models.simple import MODELS, UNKNOWN, Call, State
from ..oracle.search import fifo, lifo
from ..oracle.search.general import Interval, SearchAnswer, search
from ..oracle.search.items import Misfit
from ..oracle.search.plain import TooHard, plain
from .bench import long_history

SIZES = (25_000, 50_000, 100_000)
HARD = 40
"""The number of histories that both searches are given."""
GIVEN_UP = 1_000_000
"""After this many steps the plain search gives up; it is counted with them."""


@dataclass(frozen=True)
class HardCase:
    """One hard history, and the steps and times of the searches on it."""

    steps: int
    seconds: float
    plain_steps: int
    given_up: bool


@dataclass(frozen=True)
class OracleFigures:
    """All figures of the oracle's benchmark."""

    seconds: dict[str, dict[int, float]]
    """Of a register, a queue and a stack with unique values, by operations on it: processor time of a check."""
    hard: Sequence[HardCase]
    slowest_seconds: float
    """Of the hard histories that only our search was given as well."""

    def growth(self, object: str) -> float:
        """How many times longer twice as many operations take, at the end: 2.1 is n log n, 4 a square."""
        return self.seconds[object][SIZES[-1]] / self.seconds[object][SIZES[-2]]

    @property
    def ratio(self) -> float:
        """How many times more steps the plain search takes, in the middle."""
        return median(case.plain_steps / case.steps for case in self.hard)


def measure(effort: float, on_step: Callable[[str], None]) -> OracleFigures:
    """All figures; ``effort`` 1.0 takes about a minute and a half, nearly all of it the plain search's."""
    seconds: dict[str, dict[int, float]] = {}
    for name, took in (("register", _register), ("queue", _queue), ("stack", _stack)):
        on_step(f"a {name} with unique values")
        seconds[name] = {size: min(took(size) for _ in range(3)) for size in SIZES}
    hard = []
    for seed in range(max(4, int(HARD * effort))):
        on_step("hard histories, both searches")
        hard.append(compare(seed, max(10_000, int(GIVEN_UP * effort))))
    on_step("hard histories, ours alone")
    slowest = max(_timed(hard_cas_history(seed, late_lie=seed % 3 == 0))[1] for seed in range(int(200 * effort) + 1))
    return OracleFigures(seconds, hard, slowest)


def _register(operations: int) -> float:
    """Processor time of durable linearizability on one register's history of so many operations."""
    history, contents = long_history(operations)
    end_ps = max(operation.return_ps or 0 for operation in history.operations)
    began = time.process_time()
    check(history, end_ps, contents, [Condition.DURABLE])
    return time.process_time() - began


def _queue(operations: int) -> float:
    return _of_container(fifo.find, container_history("queue", operations))


def _stack(operations: int) -> float:
    return _of_container(lifo.find, container_history("stack", operations))


def _of_container(find: Callable[[list[Interval]], Misfit | None], spans: list[Interval]) -> float:
    with uncollected():
        began = time.process_time()
        assert find(spans) is None
        return time.process_time() - began


def container_history(model: str, operations: int, clients: int = 5) -> list[Interval]:
    """Clients in closed loops on one queue or stack; slightly more is put in, all of it unique, than is taken out."""
    rng = random.Random(operations)
    put, take = ("enqueue", "dequeue") if model == "queue" else ("push", "pop")
    loops = _closed_loops(rng, operations, clients)
    planned = [(act, number, put if rng.random() < 0.52 else take, begin, end) for number, begin, act, end in loops]
    inside: deque[int] = deque()
    spans = []
    for _, number, f, begin, end in sorted(planned):
        if f == put:
            inside.append(number)
            call = Call(put, number)
        else:
            item = (inside.popleft() if model == "queue" else inside.pop()) if inside else None
            call = Call(take, None, item)
        spans.append(Interval(number, call, begin, end))
    return spans


def _closed_loops(rng: random.Random, operations: int, clients: int) -> Iterator[tuple[int, int, int, int]]:
    """Clients with one operation after the other: for each the client's number, and its begin, effect and end."""
    free = [0] * clients
    for number in range(1, operations + 1):
        client = min(range(clients), key=free.__getitem__)
        begin = free[client] + rng.randrange(1, 20)
        act = begin + rng.randrange(1, 100)
        free[client] = act + rng.randrange(1, 100)
        yield number, begin, act, free[client]


def compare(seed: int, most: int) -> HardCase:
    """Both searches on one hard history; AssertionError if they disagree."""
    spans = hard_cas_history(seed, late_lie=True)
    answer, seconds = _timed(spans)
    assert answer.verdict is Verdict.VIOLATED
    try:
        holds, steps = plain(MODELS["cas-register"], spans, most)
    except TooHard:
        return HardCase(answer.steps, seconds, most, given_up=True)
    assert not holds
    return HardCase(answer.steps, seconds, steps, given_up=False)


def _timed(spans: Sequence[Interval]) -> tuple[SearchAnswer, float]:
    """An answer and its processor time; the least of three, for a machine that does other things as well."""
    took = []
    for _ in range(3):
        began = time.process_time()
        answer = search(MODELS["cas-register"], spans)
        took.append(time.process_time() - began)
    return answer, min(took)


def hard_cas_history(
    seed: int, operations: int = 90, clients: int = 5, values: int = 5, late_lie: bool = False
) -> list[Interval]:
    """Clients in closed loops on a cas-register, a tenth of the outcomes unknown; every second one has a lie in it.

    ``late_lie``: each has one, near its end, so that a search has to go through all that may have happened.
    """
    rng = random.Random(seed)
    model = MODELS["cas-register"]
    planned = []
    for number, begin, act, end in _closed_loops(rng, operations, clients):
        kind = rng.random()
        if kind < 0.5:
            asked: tuple[str, Any] = ("cas", (rng.randrange(values), rng.randrange(values)))
        else:
            asked = ("write", rng.randrange(values)) if kind < 0.75 else ("read", None)
        planned.append((act, number, *asked, begin, end))
    state: State = None
    spans = []
    for _, number, f, argument, begin, end in sorted(planned):
        result = state == argument[0] if f == "cas" else state if f == "read" else None
        after = model.step(state, Call(f, argument, result))
        unknown = rng.random() < 0.1
        state = state if unknown and rng.random() < 0.5 else after
        call = Call(f, argument, UNKNOWN if unknown else result)
        spans.append(Interval(number, call, begin, None if unknown else end))
    if seed % 2 or late_lie:
        reads = [i for i, span in enumerate(spans) if span.call.f == "read" and span.return_ps is not None]
        i = reads[-1] if late_lie else rng.choice(reads[len(reads) // 2 :])
        lie = values + 1 if late_lie else rng.randrange(values)
        spans[i] = spans[i]._replace(call=Call("read", None, lie))
    return sorted(spans, key=lambda span: span.number)
