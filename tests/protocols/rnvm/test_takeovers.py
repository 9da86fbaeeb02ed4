"""Taking a structure over: one front-end does it at a time, and readers wait until it is done."""

from __future__ import annotations

import zlib
from types import SimpleNamespace

import pytest

from rpsim.protocols.failures import PROCESS
from rpsim.protocols.rnvm import frontend
from rpsim.protocols.rnvm.area import FIRST, Ring
from rpsim.protocols.rnvm.backend import BackEnd
from rpsim.protocols.rnvm.records import record
from rpsim.scenarios.run.inject import run_with_fault

from ...small import only_variant, scenario
from .. import strikes
from ..strikes import Fails
from .chain import Chain
from .test_modes import find, insert, vary
from .twins import EarlyReaders

CHAIN = Chain.name
MIRRORED = "oplog=awaited,mirror=front-end"


def struck(name, work, at_ns, fault="server[0] process", **more):
    """The run of two processes on two machines, with a fault at an instant."""
    two = {"client": {"machines": 2}}
    made = scenario(name, work, vary=vary(), crash={"fault": fault}, roles=two, **more)
    return run_with_fault(made, only_variant(made), at_ns * 1000)


def missing(after):
    """Objects that were inserted, as somebody was told, and that a fresh client does not find in the end."""
    operations = after.history.operations
    last = max(one.process for one in operations)
    told = {one.object for one in operations if one.f == "insert" and one.outcome == "ok"}
    return {one.object for one in operations if one.process == last and one.object in told and one.result in {None, 0}}


@pytest.mark.long
@pytest.mark.parametrize("at_ns", [21_200, 23_900])
def test_of_two_that_connect_again_one_takes_the_structure_over(at_ns, monkeypatch):
    """The back-end's process dies: both want the structure, and each waits for the log to come to rest."""
    own = frontend.FrontEnd.taken_over
    under_way, together = set(), []

    def counted(self, session, server, area):
        under_way.add(session.process)
        together.append(len(under_way))
        held = yield from own(self, session, server, area)
        under_way.discard(session.process)
        return held

    monkeypatch.setattr(frontend.FrontEnd, "taken_over", counted)
    work = [insert(f"k{turn}") for turn in range(24)] + [find(f"k{turn}", 1) for turn in range(24)]
    loaded = {"kind": "schedule", "loaded": 0, "operations": work}
    after = struck(f"bst on rnvm-rcb[batch=4,{MIRRORED}]", loaded, at_ns, keys=24)
    assert together and set(together) == {1}
    assert missing(after) == set()


def stale(mode):
    """Finds that began after the fault and went back behind what had returned before it."""
    work = [insert(f"k{turn % 3}") for turn in range(5)] + [find(f"k{turn % 3}", 1) for turn in range(5)]
    found = set()
    for at_ns in range(5_000, 20_000, 1_500):
        operations = struck(f"{CHAIN} on {mode}[batch=9,{MIRRORED}]", work, at_ns, keys=3).history.operations
        for one in operations:
            if one.f == "find" and one.process == 1 and one.invoke_ps > at_ns * 1000:
                before = [
                    each.argument for each in operations
                    if each.f == "insert" and each.object == one.object and each.outcome == "ok"
                    and each.return_ps < at_ns * 1000
                ]  # fmt: skip
                found |= {(at_ns, one.object)} if before and one.result < max(before) else set()
    return found


@pytest.mark.long
def test_readers_wait_until_the_operation_log_is_executed_again():
    assert stale(EarlyReaders.name) and not stale("rnvm-rcb")


@pytest.mark.long
@pytest.mark.parametrize("later_ns", [3_400, 20_000, 40_000])
def test_who_dies_while_it_takes_over_is_followed_by_another(later_ns):
    """The other process waits for it, and begins again: nothing that had returned is lost, and nobody waits on."""
    work = [insert(f"k{turn % 2}") for turn in range(40)] + [find(f"k{turn % 2}", 1) for turn in range(9)]
    dies = [Fails(9_000_000, "server", 0, PROCESS), Fails(9_000_000 + later_ns * 1000, "client", 0, PROCESS)]
    after = strikes.struck(f"{CHAIN} on rnvm-rcb[batch=9,{MIRRORED}]", dies, work)
    operations = after.history.operations
    reader = max(one.process for one in operations)
    told = {one.object: one.argument for one in operations if one.f == "insert" and one.outcome == "ok"}
    assert after.finished and told == {one.object: one.result for one in operations if one.process == reader}


class Log:
    """A log's memory, the thread that looks at it, and the signal that a transaction has been replayed."""

    def __init__(self, ring, bodies):
        self.bytes, self.position, self.behind = bytearray(ring.length), ring.place(FIRST, 0), []
        position = self.position
        for body in bodies:
            made = record(position.sequence, body)
            self.bytes[ring.at(position) : ring.at(position) + len(made)] = made
            self.behind.append(position := ring.behind(position, len(body)))

    def load(self, address, length):
        yield "looks"
        return bytes(self.bytes[address : address + length])

    def crc32_matches(self, address, length, expected):
        yield "looks"
        return zlib.crc32(self.bytes[address : address + length]) == expected

    def changed(self):
        return "waits"

    def forget(self, changed):
        pass


@pytest.mark.parametrize("turn", range(2))
def test_a_log_is_at_rest_only_if_its_place_has_not_moved_during_the_look(turn):
    """Between two loads of ``retire`` the log's thread replays the first of two transactions."""
    ring = Ring(0, 8)
    log, area = Log(ring, [b"first", b"the second"]), SimpleNamespace(number=0, memory_log=ring)
    back_end = BackEnd.__new__(BackEnd)
    back_end.node = SimpleNamespace(name="server", off=False, watched_by=[], thread=lambda core, name: log)
    back_end.takeovers, back_end.writers, back_end.moved = {0: object()}, {}, [log]
    back_end.positions = {0: log.position}
    code = back_end.retire(area)
    for _ in range(turn + 1):
        assert next(code) == "looks"
    back_end.positions[0] = log.behind[0]
    steps = []
    while not steps or steps[-1] == "looks":
        steps.append(next(code, "returns"))
    assert steps[-1] == "waits"
    back_end.positions[0] = log.behind[1]
    assert [*code] == ["looks"]
