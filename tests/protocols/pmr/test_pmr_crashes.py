"""What a power failure leaves of the PMR paper's stacks, and that broken twins of the repaired one are caught."""

from __future__ import annotations

import pytest

from rpsim.protocols.guarantees import Condition
from rpsim.validation.crash.explorer import Explorer

from ...small import get, put, run, ycsb
from .twins import ClearedEarly, NoBarrier, NoChecksum, NoFence, NoNumber, NoSequence, SeenEarly

COMMITTED, LOST, DURABLE = Condition.COMMITTED, Condition.NO_LOST_ACK, Condition.DURABLE
REPAIRED = "pmraccess-repaired"
SMALL = "[chunk=128 B, chunks=3, slots=2]"
ORDER = [put(1, "k0"), put(0, "k0", 6_000)]
"""The client with the second chunk first."""


def refuted(
    name, work, *, pmrwbm=2, whole=True, processes=1, keys=1, platform="pmr-testbed", ddio="off", value="16 B",
    perturb=(), schedules=1, mapping="wc",
):  # fmt: skip
    """What every crash point of a run refutes, or of several that differ by what is perturbed."""
    vary = {
        "platform": [platform], "ddio": [ddio], "line_atomicity": ["whole" if whole else "word"], "pmrwbm": [pmrwbm],
        "pmr_mapping": [mapping],
    }  # fmt: skip
    broken = set()
    for schedule in range(schedules):
        crash = {"perturb": list(perturb), "schedules": schedules} if perturb else {}
        result = run(name, work, vary=vary, keys=keys, value=value, processes=processes, crash=crash, schedule=schedule)
        found = Explorer(result).walk()
        assert found.exhaustive
        broken |= found.first.keys() & {COMMITTED, LOST, DURABLE}
    return broken


@pytest.mark.parametrize("mapping", ["uc", "wc"])
@pytest.mark.parametrize("pmrwbm", [1, 2])
def test_the_repaired_stack_keeps_what_it_acknowledged_in_order(pmrwbm, mapping):
    assert refuted(REPAIRED, ORDER, pmrwbm=pmrwbm, processes=2, mapping=mapping) == set()


@pytest.mark.parametrize(
    ("pmrwbm", "mapping", "caught"), [(1, "wc", True), (3, "wc", True), (1, "uc", False), (2, "wc", False)]
)
def test_a_twin_without_a_fence_is_caught_where_a_load_leaves_write_combining_buffers_as_they_are(
    pmrwbm, mapping, caught
):
    assert (LOST in refuted(NoFence.name, ORDER, pmrwbm=pmrwbm, processes=2, mapping=mapping)) is caught


def test_a_twin_without_a_barrier_loses_acknowledged_updates():
    assert LOST in refuted(NoBarrier.name, ORDER, processes=2)


def test_a_twin_that_executes_before_the_barrier_shows_what_is_lost():
    """A reader comes between the two, while the core is away: else its reply takes longer than the barrier."""
    work = [put(0, "k0"), *(get(1, "k0", 500 + 500 * turn) for turn in range(6))]
    paused = {"processes": 2, "perturb": ["pauses"], "schedules": 8}
    assert refuted(REPAIRED, work, **paused) == set()
    assert DURABLE in refuted(SeenEarly.name, work, **paused)


def test_a_twin_without_a_sequence_brings_an_older_value_back():
    assert LOST in refuted(NoSequence.name, ORDER, processes=2)


@pytest.mark.parametrize("pmrwbm", [1, 2])
def test_a_flag_in_dram_may_come_before_its_request_in_the_region(pmrwbm):
    """The paper's stack executes what lies there; the repaired one waits, but without numbers it repeats a GET."""
    late = {"perturb": ["hardware"], "schedules": 6, "pmrwbm": pmrwbm, "keys": 2}
    found = [refuted(name, ycsb(8, "a"), **late) for name in ("pmraccess", REPAIRED, NoNumber.name)]
    assert {COMMITTED, LOST} <= found[0] and found[1] == set() and {COMMITTED, LOST} <= found[2]


def test_a_twin_without_checksums_takes_torn_entries():
    work = [put(0, "k0"), put(0, "k0")]
    assert COMMITTED in refuted(NoChecksum.name, work, value="48 B")
    assert refuted(REPAIRED, work, value="48 B") == set()
    assert refuted(REPAIRED, work[:1], whole=False, value="48 B") == set()


@pytest.mark.long
def test_a_twin_that_clears_the_bit_early_loses_a_chunk():
    work = ycsb(4, "update-only")
    assert LOST in refuted(ClearedEarly.name + SMALL, work)
    assert refuted(REPAIRED + SMALL, work) == set()
