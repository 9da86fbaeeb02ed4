"""Does the search say what plain Wing, Gong and Lowe says, and in how many fewer steps?"""

from __future__ import annotations

import random
import statistics
from collections import Counter

import pytest

from rpsim.protocols.guarantees import Verdict
from rpsim.validation.oracle.models.simple import MODELS
from rpsim.validation.oracle.search.general import search
from rpsim.validation.oracle.search.plain import plain
from rpsim.validation.speed.oracle import compare, measure

from .spans import ARGUMENTS, random_spans


@pytest.mark.parametrize(
    "histories", [1_500, pytest.param(20_000, marks=pytest.mark.slow)], ids=["some", "twenty thousand"]
)
def test_verdicts_are_those_of_the_plain_search(histories: int) -> None:
    rng = random.Random(21)
    seen: Counter[tuple[str, bool]] = Counter()
    unknown = 0
    for turn in range(histories):
        name = list(ARGUMENTS)[turn % len(ARGUMENTS)]
        spans = random_spans(MODELS[name], rng.randrange, 12)
        holds, _ = plain(MODELS[name], spans)
        assert (search(MODELS[name], spans).verdict is Verdict.HOLDS) == holds
        seen[name, holds] += 1
        unknown += any(span.return_ps is None for span in spans)
    assert min(seen[name, holds] for name in ARGUMENTS for holds in (True, False)) > histories // 200, seen
    assert unknown > histories // 2


@pytest.mark.long
def test_steps_on_hard_histories() -> None:
    cases = [compare(seed, 60_000) for seed in range(8)]
    assert statistics.median(case.plain_steps / case.steps for case in cases) > 20


@pytest.mark.slow
def test_a_hundred_times_fewer_steps_than_the_plain_search() -> None:
    figures = measure(1.0, lambda what: None)
    print(f"plain over ours: {figures.ratio:.0f}; slowest of 200: {figures.slowest_seconds * 1e3:.1f} ms")
    assert figures.ratio > 100
