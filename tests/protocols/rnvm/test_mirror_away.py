"""A mirror that was away: it is copied to again once it is back; until then its copy is not taken for a whole one."""

from __future__ import annotations

import pytest

from rpsim.protocols.failures import LOST, POWER, PROCESS

from ..strikes import MS, SECOND, Fails, struck
from .chain import Chain
from .test_mirror import BEFORE
from .test_modes import vary

MODES = (
    "rnvm-r[mirror=front-end]",
    f"rnvm-r[{BEFORE}]",
    "rnvm-rcb[batch=9,oplog=awaited,mirror=front-end]",
    f"rnvm-rcb[batch=9,oplog=awaited,{BEFORE}]",
    f"rnvm-rcb[batch=2,oplog=awaited,{BEFORE}]",
)
WORK = [
    {"process": 0, "f": "insert", "object": f"k{turn % 2}", "at": f"{at} ms"}
    for turn, at in enumerate((0, 0, 0, 2_000, 2_100, 2_200))
]


def last_of(mode, *fails, work=WORK, over=""):
    """For each key: the last insert that returned, and what a fresh client finds in the end (None: nothing)."""
    operations = struck(f"{Chain.name} on {mode}{over}", fails, work).history.operations
    reader = max(one.process for one in operations)
    told = {one.object: one.argument for one in operations if one.f == "insert" and one.outcome == "ok"}
    return told, {one.object: one.result for one in operations if one.process == reader}


@pytest.mark.long
@pytest.mark.parametrize("away_ms", [1, 1_000])
@pytest.mark.parametrize("mode", MODES)
def test_a_mirror_that_is_back_has_all_that_returns_from_then_on(mode, away_ms):
    """It is away for less, and for longer, than a requester tries; the back-end is lost much later."""
    away = Fails(4_000_000, "mirror", 0, down_ps=away_ms * MS)
    told, found = last_of(mode, away, Fails(5_000 * MS, "server", 0, LOST))
    assert told == found and len(told) == 2


@pytest.mark.long
@pytest.mark.parametrize("mode", MODES)
def test_a_copy_that_is_old_is_not_taken(mode):
    """The mirror is back, and the back-end is lost before anybody copies again."""
    away = Fails(4_000_000, "mirror", 0, down_ps=1_500 * MS)
    _, found = last_of(mode, away, Fails(1_900 * MS, "server", 0, LOST), work=WORK[:3])
    assert set(found.values()) == {None}


@pytest.mark.long
@pytest.mark.parametrize("mode", MODES[:2])
def test_the_spare_waits_for_a_mirror_without_power(mode):
    away = Fails(100_000_000, "mirror", 0, down_ps=10 * MS)
    lost = Fails(1 * MS, "server", 0, LOST)
    told, found = last_of(mode, away, lost, work=WORK[:3], over=" over ibta-flush-persistent")
    assert told == found and len(told) == 2


@pytest.mark.long
@pytest.mark.parametrize("away_us", [5, 100])
def test_an_operation_that_is_being_copied_while_the_other_thread_connects_again_returns(away_us):
    """The back-end's successor finds the mirror gone; it is back when both threads have something to copy."""
    work = [{"process": 0, "f": "insert", "object": "k0"} for _ in range(14)]
    away = Fails(17_430_721, "mirror", 0, down_ps=away_us * 1_000_000)
    fails = [away, Fails(18_430_721, "server", 0, PROCESS)]
    after = struck(f"{Chain.name} on rnvm-rcb[batch=4,oplog=awaited,{BEFORE}]", fails, work, vary=vary())
    assert after.finished and not after.unread
    assert all(one.outcome is not None for one in after.history.operations)
    assert after.settled_ps < 2 * SECOND


@pytest.mark.long
@pytest.mark.parametrize("begins_again", [("client", PROCESS), ("server", PROCESS), ("server", POWER)])
@pytest.mark.parametrize("mode", MODES)
def test_who_begins_again_behind_the_loss_of_the_mirror_goes_on_without_it(mode, begins_again):
    """Nobody copies any more: an operation that is awaited does not wait for a copy."""
    role, kind = begins_again
    fails = [Fails(4_000_000, "mirror", 0, LOST), Fails(1_000 * MS, role, 0, kind, down_ps=MS)]
    after = struck(f"{Chain.name} on {mode}", fails, WORK)
    found = {one.object: one.outcome for one in after.history.operations[-2:]}
    assert found == {"k0": "ok", "k1": "ok"} and not after.unread
    assert role == "client" or all(one.outcome in ("ok", "info") for one in after.history.operations)
