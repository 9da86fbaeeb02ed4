"""The modes: every result is that of a dictionary, and every crash point of a small run keeps what it should."""

from __future__ import annotations

from functools import partial

import pytest

from rpsim.protocols.guarantees import Condition
from rpsim.protocols.registry import scheme
from rpsim.protocols.rnvm.area import word_of
from rpsim.protocols.rnvm.frontend import FrontEnd
from rpsim.protocols.rnvm.records import record
from rpsim.protocols.rnvm.slabs import BlockSource
from rpsim.protocols.rnvm.spaces import LoggedSpace
from rpsim.protocols.structures.space import NoRoom
from rpsim.sim.errors import InputError
from rpsim.validation.crash.explore import explore
from rpsim.validation.crash.explorer import Explorer

from ...small import only_variant, run, scenario
from .chain import Chain

COMMITTED, LOST, DURABLE = Condition.COMMITTED, Condition.NO_LOST_ACK, Condition.DURABLE
CHAIN = Chain.name
JUDGED = {COMMITTED, LOST, DURABLE}
MODES = (
    "naive",
    "rnvm-r",
    "rnvm-r[log=512 B]",
    "rnvm-rc",
    "rnvm-rc[cache=1%,policy=lru]",
    "rnvm-rc[cache=0%]",
    "rnvm-rcb",
    "rnvm-rcb[batch=3]",
    "rnvm-rcb[batch=4,log=512 B]",
)


def insert(key, process=0):
    return {"process": process, "f": "insert", "object": key}


def find(key, process=0):
    return {"process": process, "f": "find", "object": key}


def vary(domain="wsp", ddio="on"):
    return {"platform": ["any-server"], "ddio": [ddio], "domain": [domain]}


SMALL = [insert("k0"), insert("k1"), insert("k0"), find("k1")]
small = partial(run, vary=vary())


def results(name, work, **more):
    return [o.result for o in small(name, work, **more).history.operations if o.f == "find"]


def expected(work):
    held, found = {}, []
    for turn, one in enumerate(work):
        if one["f"] == "insert":
            held[one["object"]] = turn + 1
        else:
            found.append(held.get(one["object"], 0))
    return found


LATE = [{"core": f"server[0] core {core}", "at": "0 ns", "for": "30 us"} for core in range(8)]
"""The back-end's cores are away while the first operations return."""


def refuted(name, work, domain="wsp", ddio="on", **more):
    walked = Explorer(run(name, work, vary=vary(domain, ddio), **more), conditions=JUDGED).walk()
    assert walked.exhaustive
    return walked.first.keys() & JUDGED


@pytest.mark.parametrize("mode", MODES)
def test_every_find_is_that_of_a_dictionary(mode):
    work = [insert(f"k{turn % 3}") if turn % 2 else find(f"k{turn % 5}") for turn in range(40)]
    assert results(f"{CHAIN} on {mode}", work, keys=5) == expected(work)


@pytest.mark.parametrize("domain, lost", [("wsp", set()), ("adr", {LOST, DURABLE}), ("eadr", {LOST, DURABLE})])
def test_rnvm_r_keeps_what_its_premise_says(domain, lost):
    assert refuted(f"{CHAIN} on rnvm-r", SMALL, domain, keys=2, outages=LATE) == lost


ALL = "all power"


def executed(name, work, fault, domain="wsp", **more):
    made = scenario(name, work, vary=vary(domain), crash={"fault": fault}, **more)
    report = explore(run(name, work, vary=vary(domain), crash={"fault": fault}, **more), made, only_variant(made))
    assert report.exhaustive
    return {condition for condition, verdict in report.verdicts.items() if verdict == "violated"} & JUDGED


@pytest.mark.parametrize("fault", ["server[0] power", "all power"])
@pytest.mark.parametrize("mode", ["rnvm-rcb[batch=2,oplog=awaited]", "rnvm-rcb[batch=9,oplog=awaited]"])
def test_what_is_in_the_operation_log_is_executed_again(mode, fault):
    assert refuted(f"{CHAIN} on {mode}", SMALL, keys=2, crash={"fault": fault}) == set()


def test_an_operation_that_is_only_posted_may_be_lost():
    assert refuted(f"{CHAIN} on rnvm-rcb[batch=2]", SMALL, keys=2) == {LOST, DURABLE}


@pytest.mark.long
@pytest.mark.parametrize("fault", ["client[0] process", "client[0] power", "server[0] process"])
@pytest.mark.parametrize("mode", ["rnvm-r", "rnvm-rcb[batch=2,oplog=awaited]"])
def test_whoever_dies_what_has_returned_stays(mode, fault):
    assert executed(f"{CHAIN} on {mode}", SMALL, fault, keys=2) == set()


@pytest.mark.long
def test_posted_operations_go_with_their_front_end():
    """A living one sends them again as soon as it finds out: behind its last operation it never does."""
    assert executed(f"{CHAIN} on rnvm-rcb[batch=3]", SMALL, "client[0] process", keys=2) == {LOST}
    assert executed(f"{CHAIN} on rnvm-rcb[batch=2]", SMALL, "server[0] process", keys=2) == {DURABLE}


@pytest.mark.parametrize("work", ["aaaattttatat", "aattaattaatt"])
@pytest.mark.parametrize("structure, adds, takes", [("stack", "push", "pop"), ("queue", "enqueue", "dequeue")])
def test_what_a_batch_adds_and_takes_out_again_does_not_touch_memory(structure, adds, takes, work, monkeypatch):
    """Section 6.1: its transaction is the operation log's LPN alone."""
    lines, commit = [], LoggedSpace.commit

    def committed(self, **more):
        lines.append(len(self.writes))
        return (yield from commit(self, **more))

    monkeypatch.setattr(LoggedSpace, "commit", committed)
    steps = [{"process": 0, "f": adds if step == "a" else takes, "object": "k0"} for step in work]
    result = run(f"{structure} on rnvm-rcb[batch={len(work)}]", steps, keys=1, vary=vary())
    found = [one.result for one in result.history.operations if one.f == takes]
    assert lines == [0] and all(found)


@pytest.mark.long
@pytest.mark.parametrize("mode", ["rnvm-r", "rnvm-rcb[batch=2,oplog=awaited]"])
@pytest.mark.parametrize("domain, ddio", [("adr", "on"), ("adr", "off"), ("eadr", "on")])
def test_logs_may_go_by_a_primitive(mode, domain, ddio):
    name = f"{CHAIN} on {mode} over ibta-flush-persistent"
    assert refuted(name, SMALL, domain, ddio, keys=2, outages=LATE) == set()


def test_a_back_end_takes_no_messages():
    with pytest.raises(InputError, match="the back-end is passive"):
        scheme(f"{CHAIN} on rnvm-r over write-send-cpu-flush")
    with pytest.raises(InputError, match="naive has no logs"):
        scheme(f"{CHAIN} on naive over read-after-write")


def test_a_log_smaller_than_a_transaction_is_refused():
    with pytest.raises(InputError, match=r"a transaction of 1.* B in a log of 256 B"):
        small(f"{CHAIN} on rnvm-r[log=256 B]", [insert("k0")], value="1 KiB")


def test_a_log_smaller_than_an_operation_is_refused():
    with pytest.raises(InputError, match=r"an operation of 2.* B in a log of 256 B"):
        small(f"{CHAIN} on rnvm-rcb[batch=8,log=256 B]", [insert("k0")], value="2 KiB")


class NoBlocks(BlockSource):
    """A heap that is full."""

    def allocate(self, length):
        yield from ()
        raise NoRoom(f"{length} bytes")

    def free(self, address, length):
        yield from ()


@pytest.mark.parametrize("mode, outcomes", [("rnvm-r", ["fail"] * 3), ("rnvm-rcb[batch=3]", ["ok", "ok", "info"])])
def test_what_is_logged_and_finds_no_room_is_executed_again_so_nobody_can_say(mode, outcomes, monkeypatch):
    monkeypatch.setattr(FrontEnd, "allocator", lambda *_: NoBlocks())
    work = {"kind": "schedule", "loaded": 0, "operations": [insert(f"k{turn}") for turn in range(3)]}
    history = run(f"{CHAIN} on {mode}", work, keys=3, vary=vary()).history
    assert [one.outcome for one in history.operations] == outcomes


def test_a_torn_transaction_that_has_the_checksum_of_the_whole_ends_the_log():
    """Of 36 torn words some images have: recovery ended with an error at the commit mark that is missing."""
    made = small(f"{CHAIN} on rnvm-r", SMALL, keys=2)
    server, clock = made.scheme.roles["server"][0], made.system.clock
    area, pm = server.areas[0], server.node.memory["pm"]
    position = server.positions[0]
    for body in (bytes(287), b"\1" + bytes(5)):
        pm.space.poke(area.memory_log.at(position) - pm.base, record(position.sequence, body))
        clock.run_through(clock.start(server.recover_unit(server.node.thread(0, "recovery"), 0)))
        assert word_of(server.positions[0]) == word_of(area.memory_log.renumbered(position))
        position = server.positions[0]
