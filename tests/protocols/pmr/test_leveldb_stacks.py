"""The PMR paper's stacks over LevelDB: what they answer, what a power failure leaves, and broken ones beside them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from rpsim.models.profiles.platform import load_platform
from rpsim.models.storage.files import Open
from rpsim.protocols.guarantees import Condition
from rpsim.protocols.pmr.chunklog import DRIVE
from rpsim.protocols.pmr.chunks import MEMORY
from rpsim.protocols.pmr.entries import GET, ChunkEntries, ChunkEntry
from rpsim.protocols.pmr.leveldb.coding import Corruption
from rpsim.protocols.pmr.leveldb.database import LevelDb
from rpsim.protocols.pmr.leveldb.log import LogReader
from rpsim.protocols.pmr.leveldb.stacks import DatabaseServer, PmrAccessLevelDb, RdmaLevelDb, SyncAccessLevelDb
from rpsim.protocols.pmr.messaging import CORRUPT
from rpsim.protocols.pmr.repaired import PmrAccessRepaired, RepairedServer
from rpsim.protocols.pmr.store import Store
from rpsim.protocols.scheme import Scheme
from rpsim.scenarios.run.experiment import run_variant
from rpsim.scenarios.run.failing import performed
from rpsim.validation.crash.explorer import Explorer

from ...small import get, only_variant, put, run, scenario, ycsb

COMMITTED, LOST = Condition.COMMITTED, Condition.NO_LOST_ACK
TESTBED = {"platform": ["pmr-testbed"], "ddio": ["off"], "line_atomicity": ["whole"]}
NAMES = ["rdma-leveldb", "pmraccess-leveldb", "syncaccess-leveldb", "groupaccess-leveldb", "pmemaccess-leveldb"]


def at_work(name, work, **more):
    return run(name, work, vary=TESTBED, **({"keys": 2, "value": "48 B"} | more))


def found(result):
    return [(o.f, o.outcome, o.result) for o in result.history.operations]


def server(result):
    return result.scheme.roles["server"][0]


@contextmanager
def named(kind: type[Scheme]) -> Iterator[str]:
    """While this lasts, scenarios may name it; its name."""
    name = f"test-{kind.__name__.lower()}"
    kind.name = name
    Scheme.registry[name] = kind
    try:
        yield name
    finally:
        del Scheme.registry[name]


def refuted(name, work, *, torn=False, **more):
    """What every crash point of a run refutes. ``torn``: lines may be, and without a journal the drive may have a
    file's size before its data.
    """
    fields: dict[str, Any] = {"keys": 1, "value": "16 B"} | more
    platform = load_platform("pmr-testbed", line_atomicity="word" if torn else "whole", ddio="off")
    platform = replace(platform, kernel=replace(platform.kernel, journal=not torn))
    made = scenario(name, work, vary=TESTBED, **fields)
    result = run_variant(made, only_variant(made), platform=platform)
    result.system.clock.run_until(result.system.clock.now_ps + 500_000_000)  # what runs by itself comes to its end
    walked = Explorer(result, conditions=(COMMITTED, LOST)).walk()
    assert walked.exhaustive or walked.first
    return result, walked.first.keys()


@pytest.mark.parametrize("name", NAMES)
def test_a_get_returns_what_was_put_or_loaded(name):
    result = at_work(name, [put(0, "k0"), get(0, "k0"), get(0, "k1")])
    assert found(result) == [("put", "ok", None), ("get", "ok", 1), ("get", "ok", 0)]
    assert isinstance(server(result).store, LevelDb) and server(result).store.sequence == 3


def test_no_memtable_is_so_small_that_an_empty_list_fills_it():
    """A million times smaller than the paper's it would have 64 B, and a table would be made of nothing."""
    result = at_work("rdma-leveldb[shrunk=1048576]", ycsb(2, "update-only"))
    assert [outcome for _, outcome, _ in found(result)] == ["ok"] * 2


@pytest.mark.parametrize("name", NAMES)
def test_memtables_become_tables_under_any_stack(name):
    result = at_work(f"{name}[memtable=1 KiB]", ycsb(24, "update-only"), processes=2)
    assert {outcome for _, outcome, _ in found(result)} == {"ok"}
    result.system.clock.run_until(result.system.clock.now_ps + 10**9)  # the background thread comes to its end
    assert server(result).store.flushes >= 2


def test_full_chunks_have_the_database_make_tables():
    result = at_work("pmraccess-leveldb[chunk=128 B, chunks=2, slots=1]", ycsb(24, "update-only"), value="16 B")
    assert {outcome for _, outcome, _ in found(result)} == {"ok"}
    store, log = server(result).store, server(result).log
    assert store.flushes >= log.first > 1 and len(server(result).chunks.used) <= 2


@pytest.mark.parametrize(
    ("name", "expected"),
    [("rdma-leveldb", {LOST}), ("pmraccess-leveldb", {LOST}), ("pmemaccess-leveldb", {LOST}),
     ("syncaccess-leveldb", set()), ("groupaccess-leveldb", set())],
)  # fmt: skip
def test_what_a_power_failure_at_any_instant_leaves(name, expected):
    _, first = refuted(name, [put(0, "k0")])
    assert first == expected


def test_pmraccess_takes_torn_entries_over_any_store():
    assert refuted("pmraccess-leveldb", [put(0, "k0")], value="80 B")[1] == {COMMITTED, LOST}


@pytest.mark.parametrize("name", NAMES)
def test_a_server_whose_process_dies_loses_nothing(name):
    made = scenario(
        f"{name}[memtable=1 KiB]", [*[put(0, "k0")] * 5, *[get(0, "k0", 1_000_000)] * 3], value="48 B", vary=TESTBED,
        failures=[{"fault": "server[0] process", "at": "900 us"}],
    )  # fmt: skip
    result = performed(made, only_variant(made))
    assert found(result) == [("put", "ok", None)] * 5 + [("get", "ok", 5)] * 3
    assert server(result).store.files.manifests[1].size_bytes, "no database has been opened again"


def test_a_corrupt_database_says_so_and_executes_nothing():
    result = at_work("rdma-leveldb", [put(0, "k0")])
    role, clock = server(result), result.system.clock
    role.node.process(role.node.name).end()
    role.begin()
    thread = role.node.thread(0, "recovery")

    def renamed():
        yield from role.store.files.current.pwrite(thread, b"MANIFEST-99", 0)
        yield from role.recover(thread)

    clock.run_until(clock.start(renamed()))
    assert role.corrupt
    assert clock.run_until(clock.start(role.execute(thread, None, ChunkEntry(GET, b"k0", b"", 0)))) == (CORRUPT, b"")


class NoSync(SyncAccessLevelDb):
    """Nobody waits until the log's record is durable."""

    class Server(SyncAccessLevelDb.role_types["server"]):  # type: ignore[misc]
        flags = Open.NONE


def test_a_log_that_is_not_synced_is_caught():
    with named(NoSync) as name:
        assert LOST in refuted(name, [put(0, "k0")])[1]


class _Unchecked(LevelDb):
    class reader(LogReader):
        @staticmethod
        def matches(crc: int, data: bytes) -> bool:
            return True


class NoCrc(RdmaLevelDb):
    """LevelDB believes every piece of its log."""

    Backend: ClassVar[type[Store]] = _Unchecked


def test_what_rdma_leveldb_keeps_is_whole_since_its_log_has_checksums():
    work = [put(0, "k0"), put(0, "k0")]
    assert refuted("rdma-leveldb", work, torn=True)[1] == {LOST}
    with named(NoCrc) as name:
        assert COMMITTED in refuted(name, work, torn=True)[1]


class Repaired(PmrAccessLevelDb):
    """Entries with checksums and places, so that only the way behind the region is left to be wrong."""

    entries: ClassVar[ChunkEntries] = PmrAccessRepaired.entries

    class Server(DatabaseServer, RepairedServer, memory=("dram", MEMORY, DRIVE), background=2):
        pass


class _Forgetful(LevelDb):
    def checkpoint(self, thread):
        yield from ()
        return True


class Forgetful(Repaired):
    """The log is reclaimed before LevelDB has made a table of what was in it."""

    Backend: ClassVar[type[Store]] = _Forgetful


@pytest.mark.long
@pytest.mark.parametrize("kind", [Repaired, Forgetful])
def test_a_log_is_reclaimed_behind_a_table_and_in_a_recovery_too(kind):
    with named(kind) as name:
        work = [put(0, "k0"), *[put(0, "k1")] * 2]
        result, first = refuted(f"{name}[chunk=128 B, chunks=2, slots=1]", work, keys=2)
    assert server(result).log.first > 0, "the log has not been reclaimed"
    assert first == (set() if kind is Repaired else {LOST})


@pytest.mark.parametrize(("clients", "chunks"), [(1, 2), (2, 2), (2, 1)])
def test_a_merge_of_corrupt_tables_is_answered_and_ends_no_run(monkeypatch, clients, chunks):
    """The thread that flushes chunks learns of it first: the log is full, and cannot be reclaimed. Where there is one
    chunk the second client waits for it, as its connection is made.
    """

    def checkpoint(self, thread):
        yield from thread.software("leveldb_call")
        raise Corruption("a block with another checksum")

    monkeypatch.setattr(LevelDb, "checkpoint", checkpoint)
    work = [*(put(turn % clients, "k0") for turn in range(12)), get(0, "k1", 1_000_000_000)]
    stack = f"pmraccess-leveldb[chunk=256 B, chunks={chunks}, slots=1, memtable=1 KiB]"
    result = run(stack, work, vary=TESTBED, keys=2, value="48 B", processes=clients)
    outcomes = [outcome for _, outcome, _ in found(result)]
    assert outcomes[0] == "ok" and set(outcomes[-3:]) == {"info"} and set(outcomes) == {"ok", "info"}
    assert not server(result).chunks.waiting
