"""All structures on all modes: the same results as the plain model, run by run and crash point by crash point."""

from __future__ import annotations

import pytest

from rpsim.protocols.guarantees import Condition
from rpsim.validation.crash.explorer import Explorer

from ...small import run

COMMITTED, LOST, DURABLE = Condition.COMMITTED, Condition.NO_LOST_ACK, Condition.DURABLE
JUDGED = {COMMITTED, LOST, DURABLE}
MAPS = ("hash-table", "skip-list", "bst", "bpt", "mv-bst", "mv-bpt")
CONTAINERS = {"queue": ("enqueue", "dequeue"), "stack": ("push", "pop")}
MODES = ("naive", "rnvm-r", "rnvm-rcb[batch=3,oplog=awaited]")


def vary(domain="wsp"):
    return {"platform": ["any-server"], "ddio": ["on"], "domain": [domain]}


def steps(f, *objects):
    return [{"process": 0, "f": f, "object": one} for one in objects]


def of(structure):
    """A few operations of a structure."""
    if structure in CONTAINERS:
        put, take = CONTAINERS[structure]
        return [*steps(put, "k0", "k0", "k0"), *steps(take, "k0", "k0"), *steps(put, "k0"), *steps(take, "k0")]
    return [*steps("insert", "k0", "k3", "k1", "k3"), *steps("find", "k3", "k2"), *steps("insert", "k2")]


def names(structures, modes=MODES):
    return [
        f"{structure} on {mode}"
        for structure in structures
        for mode in modes
        if not (structure == "hash-table" and "rcb" in mode)
    ]


@pytest.mark.parametrize("name", names([*MAPS, *CONTAINERS]))
def test_every_crash_point_of_a_small_run_keeps_all_that_had_returned(name):
    structure = name.partition(" ")[0]
    result = run(name, of(structure), vary=vary(), keys=1 if structure in CONTAINERS else 5)
    found = Explorer(result, conditions=JUDGED).walk()
    assert found.exhaustive
    if "naive" not in name:
        assert found.first.keys() & JUDGED == set()
