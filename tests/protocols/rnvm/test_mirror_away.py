"""A mirror that was away: it is copied to again once it is back; until then its copy is not taken for a whole one."""

from __future__ import annotations

import pytest

from rpsim.protocols.failures import LOST, POWER, PROCESS
from rpsim.protocols.rnvm import mirror
from rpsim.protocols.rnvm.mirror import OwnMemory

from ..strikes import MS, SECOND, Fails, struck
from . import mirror_twins as twins
from .chain import Chain
from .test_mirror import BEFORE
from .test_modes import find, insert, vary

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


def lost_with(mode, instants):
    """Of runs in which the back-end's process fails once all has returned, and the back-end is lost at one of these
    instants behind that: what had returned, and what is found, wherever the two differ.
    """
    work, ended = [insert("k0"), insert("k1"), insert("k0")], 50_000_000
    differ = []
    for behind in instants:
        fails = [Fails(ended, "server", 0, PROCESS), Fails(ended + behind, "server", 0, LOST)]
        after = struck(f"{Chain.name} on {mode}", fails, work, vary=vary())
        operations = after.history.operations
        told = {one.object: one.argument for one in operations if one.f == "insert"}
        assert all(one.outcome == "ok" and one.return_ps < ended for one in operations if one.f == "insert")
        found = {one.object: one.result for one in operations if one.f == "find"}
        if told != found:
            differ.append((told, found))
    return differ


NEW_COPY = range(10_000, 12_000_000, 400_000)


@pytest.mark.long
@pytest.mark.parametrize("mode", [MODES[1], MODES[4]])
def test_the_old_copy_counts_until_the_new_one_is_whole(mode):
    """The back-end is lost at any instant of copying all anew."""
    assert lost_with(mode, NEW_COPY) == []


@pytest.mark.long
def test_a_new_copy_over_the_old_one_is_caught():
    assert lost_with(f"{twins.OverTheOld.name}[{BEFORE}]", NEW_COPY)


@pytest.fixture
def slow_copies(monkeypatch):
    """A back-end's new copy takes 300 us longer, once all is on its way; returns the instants when that begins."""
    copied, began = mirror.copy_structure, []

    def copy_slowly(source, area, put):
        found = yield from copied(source, area, put)
        if isinstance(source, OwnMemory):
            thread = source._thread
            began.append(thread.now_ps)
            yield from thread.sleep_until(thread.deadline("300 us"))
        return found

    monkeypatch.setattr(mirror, "copy_structure", copy_slowly)
    return began


@pytest.mark.long
def test_an_operation_that_comes_while_all_is_copied_returns_once_the_new_copy_counts(slow_copies):
    """The mirror is back when the batch of the first four is copied; the fifth comes, and then the back-end is lost."""
    mode = f"{Chain.name} on {MODES[3].replace('batch=9', 'batch=4')}"
    fails = [Fails(19_000_000, "mirror", 0, down_ps=5_000_000)]
    work = [insert("k0") for _ in range(4)]
    struck(mode, fails, work, vary=vary())
    began_us = slow_copies[0] // 1_000_000
    work.append({**insert("k0"), "at": f"{began_us + 50} us"})
    fails.append(Fails((began_us + 200) * 1_000_000, "server", 0, LOST))
    operations = struck(mode, fails, work, vary=vary()).history.operations
    told = [one.argument for one in operations if one.process == 0 and one.outcome == "ok"]
    read = next(one for one in operations if one.process != 0 and one.object == "k0")
    assert read.result in (told[-1], operations[4].argument)


@pytest.mark.long
@pytest.mark.parametrize("before_ns", [4_500, 5_000])
def test_what_is_read_after_a_failure_of_the_process_is_on_the_mirror(slow_copies, before_ns):
    """A transaction was in the log and not copied yet; the back-end is lost while its successor copies all anew."""
    mode = f"{Chain.name} on rnvm-r[{BEFORE}]"
    work = [insert("k0"), *(find("k0", 1) for _ in range(9))]
    whole = struck(mode, [], work, vary=vary()).history.operations
    failed = next(one.return_ps for one in whole if one.f == "insert") - before_ns * 1_000
    fails = [Fails(failed, "server", 0, PROCESS), Fails(failed + 200_000_000, "server", 0, LOST)]
    operations = struck(mode, fails, work, vary=vary()).history.operations
    (put,) = (one for one in operations if one.f == "insert")
    (read,) = (one for one in operations if one.process > 1 and one.object == "k0")
    seen = [one.result for one in operations if one.process == 1 and one.return_ps < fails[1].at_ps]
    assert put.outcome == "info" and read.outcome == "ok"
    assert put.argument not in seen or read.result == put.argument
