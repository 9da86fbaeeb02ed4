"""Does the search say what plain Wing, Gong and Lowe says, and in how many fewer steps?"""

from __future__ import annotations

import random
import statistics
import time
from collections import Counter

import pytest

from rpsim.protocols.guarantees import Verdict
from rpsim.validation.oracle.models import MODELS
from rpsim.validation.oracle.search import search

from .plain import TooHard, plain
from .spans import ARGUMENTS, hard_cas_history, random_spans


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


def compare(seeds: range, most: int) -> tuple[list[float], int]:
    """On hard histories: how many times the steps the plain search takes, and how often it takes more than ``most``.

    Where it gives up it counts with those.
    """
    ratios, beyond = [], 0
    for seed in seeds:
        spans = hard_cas_history(seed, late_lie=True)
        answer = search(MODELS["cas-register"], spans)
        assert answer.verdict is Verdict.VIOLATED
        try:
            holds, steps = plain(MODELS["cas-register"], spans, most)
            assert not holds
        except TooHard:
            steps, beyond = most, beyond + 1
        ratios.append(steps / answer.steps)
    return ratios, beyond


def test_steps_on_hard_histories() -> None:
    ratios, beyond = compare(range(8), 60_000)
    print(f"plain over ours: median {statistics.median(ratios):.0f}; {beyond} of {len(ratios)} given up")
    assert statistics.median(ratios) > 20


@pytest.mark.slow
def test_a_hundred_times_fewer_steps_than_the_plain_search() -> None:
    ratios, beyond = compare(range(40), 1_000_000)
    seconds = []
    for seed in range(200):
        spans = hard_cas_history(seed, late_lie=seed % 3 == 0)
        began = time.process_time()
        search(MODELS["cas-register"], spans)
        seconds.append(time.process_time() - began)
    print(
        f"plain over ours: median {statistics.median(ratios):.0f}, mean {statistics.mean(ratios):.0f}, "
        f"{beyond} of {len(ratios)} given up; slowest of 200: {max(seconds) * 1e3:.1f} ms"
    )
    assert statistics.median(ratios) > 100
