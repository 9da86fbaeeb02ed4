"""Does the work grow as n log n? The bounds are many times what is measured: they catch a square, not a slow day."""

from __future__ import annotations

import random
import time

import pytest

from rpsim.protocols.guarantees import Condition, Verdict
from rpsim.validation.oracle import RegisterHistory, check
from rpsim.validation.speed.bench import long_history

UPDATES = frozenset({"put"})


@pytest.mark.long
def test_a_hundred_thousand_operations_on_one_object() -> None:
    history, contents = long_history(100_000)
    end = max(o.return_ps or 0 for o in history.operations)
    began = time.perf_counter()
    findings = check(history, end, contents, [Condition.DURABLE])
    assert time.perf_counter() - began < 5
    assert findings[Condition.DURABLE].verdict is Verdict.HOLDS
    assert check(history, end, {0: 0}, [Condition.DURABLE])[Condition.DURABLE].verdict is Verdict.VIOLATED


@pytest.mark.long
def test_a_hundred_thousand_operations_event_by_event() -> None:
    history, contents = long_history(100_000)
    register = RegisterHistory(0, UPDATES)
    began = time.perf_counter()
    for _, kind, operation in history.events():
        register.invoke(operation) if kind == "invoke" else register.complete(operation)
    assert time.perf_counter() - began < 10
    assert register.judge(contents[0]) == frozenset()
    assert Condition.DURABLE in register.judge(0)


@pytest.mark.long
def test_the_register_and_check_agree_on_longer_histories_with_a_few_wrong_reads() -> None:
    rng = random.Random(3)
    seen = {False: 0, True: 0}
    for seed in range(400):
        history, contents = long_history(80, processes=2 + seed % 6, seed=seed)
        reads = [o for o in history.operations if o.f == "get"]
        stamps = [o.number for o in history.operations if o.f == "put"]
        for read in rng.sample(reads, rng.randrange(3)):
            read.result = max((s for s in stamps if s < read.number), default=0)
        register = RegisterHistory(0, UPDATES)
        for time_ps, kind, operation in history.events():
            register.invoke(operation) if kind == "invoke" else register.complete(operation)
            if rng.randrange(20):
                continue
            for value in (contents[0], *rng.sample(stamps, 3)):
                findings = check(history, time_ps, {0: value}, [Condition.DURABLE])
                violated = findings[Condition.DURABLE].verdict is Verdict.VIOLATED
                assert (Condition.DURABLE in register.judge(value)) == violated
                seen[violated] += 1
    assert min(seen.values()) > 500, seen
