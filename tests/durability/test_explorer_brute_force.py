"""Does the explorer find what brute force finds: every instant, every image, every recovery, judged from scratch?

Verdicts and the earliest instant of each, on hundreds of random little runs, some with power failing again in recovery.
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from rpsim.protocols.guarantees import Condition
from rpsim.scenarios.run.results import RunResult
from rpsim.validation.crash.brute_force import BruteForce, TooMuch, compare
from rpsim.validation.oracle import CONDITIONS

from ..protocols import fault_mutants
from ..protocols.mutants import MUTANTS, registered
from ..small import PLATFORMS, get, put, run

SCHEMES = ("saw", "client-active", *MUTANTS)
RECOVERING = ("efactory", "efactory-metadata-first", "efactory-mutant-unlinks", "saw-mutant-counts-recoveries")
"""Those whose recovery writes something."""


def agree(result: RunResult) -> dict[Condition, int]:
    """Both explorers' answer."""
    found = compare(result, CONDITIONS)
    assert found.pruned == found.brute
    return found.pruned


@pytest.fixture(autouse=True)
def _mutants_are_known() -> Iterator[None]:
    with registered(), fault_mutants.registered():
        yield


@pytest.mark.long
@pytest.mark.parametrize("ten", [*range(8), *(pytest.param(ten, marks=pytest.mark.slow) for ten in range(8, 40))])
def test_on_random_little_workloads_of_whole_lines(ten):
    for number in range(10 * ten, 10 * ten + 10):
        on_a_random_workload(number)


def on_a_random_workload(number):
    """Up to four operations on up to three keys, lines that do not tear, sometimes with pausing cores."""
    draw = random.Random(number)
    platform, ddio = PLATFORMS[number % 4]
    keys, processes = draw.randint(1, 3), draw.randint(1, 3)
    operations = [
        draw.choice([put, put, get])(draw.randrange(processes), f"k{draw.randrange(keys)}", draw.randrange(12_000))
        for _ in range(draw.randint(1, 4))
    ]
    value = draw.choice(["8 B", "24 B", "32 B"] if len(operations) > 2 else ["8 B", "24 B", "64 B"])
    more = {"processes": processes, "keys": keys, "value": value, "seed": number, "whole_lines": True}
    agree(run(draw.choice(SCHEMES), operations, platform, ddio, schedule=number % 3, **more))


@pytest.mark.parametrize(("platform", "ddio"), PLATFORMS)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_on_one_put_whose_line_may_be_torn_into_words(scheme, platform, ddio):
    agree(run(scheme, [put(0, "k0"), get(1, "k0", at_ns=4000)], platform, ddio, processes=2))


@pytest.mark.parametrize("number", range(32))
def test_on_a_random_little_workload_with_power_failing_again(number):
    """In the recovery, and in the recovery from that; one or two puts of which the last may be cut short."""
    draw = random.Random(number)
    platform, ddio = PLATFORMS[number % 4]
    operations = [put(0, "k0", draw.randrange(12_000)) for _ in range(draw.randint(1, 2))]
    more = {"seed": number, "whole_lines": True, "crash": {"nested": 1 + number // 4 % 2}}
    agree(run(RECOVERING[number % len(RECOVERING)], operations, platform, ddio, **more))


@pytest.mark.long
@pytest.mark.parametrize(("platform", "ddio"), PLATFORMS)
@pytest.mark.parametrize("times", [1, 2])
def test_where_a_later_recovery_looks_at_what_an_earlier_one_only_compared(platform, ddio, times):
    """Of a value that did not match its checksum each torn image counts again."""
    once, again = (
        agree(run("efactory-mutant-impatient", [put(0, "k0")], platform, ddio, value="24 B", crash=crash))
        for crash in ({}, {"nested": times})
    )
    assert Condition.COMMITTED not in once
    assert Condition.COMMITTED in again


@pytest.mark.long
def test_where_a_drain_writes_over_what_the_recovery_before_only_compared():
    """The drain of a queue logs its dequeues where a transaction had come in part: the bytes of that count again."""
    work = [{"process": 0, "f": "enqueue", "object": "k0", "at": "0 ns"} for _ in range(3)]
    vary = {"platform": ["rnvm-testbed"], "domain": ["adr"], "line_atomicity": ["whole"]}
    made = run("queue on rnvm-r over ibta-flush-persistent", work, vary=vary, crash={"nested": 1})
    assert agree(made) == {}


def test_they_agree_on_something():
    """The comparison would be empty if nothing were ever violated, or everything always at once."""
    saw = agree(run("saw", [put(0, "k0"), put(1, "k0")], processes=2))
    other = agree(run("client-active", [put(0, "k0"), put(1, "k0")], processes=2, whole_lines=True))
    assert saw == {} and set(other) >= {Condition.COMMITTED, Condition.NO_LOST_ACK, Condition.DURABLE}
    assert len(set(other.values())) > 1


def test_brute_force_knows_its_limits():
    result = run("client-active", [put(0, "k0")])
    with pytest.raises(TooMuch, match="more than 5 images"):
        compare(result, CONDITIONS, at_most=5)
    assert BruteForce(result).instants()[0] == 0
