"""LevelDB: a dictionary through flushes, merges and restarts, and what a power failure may leave of it."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpsim.protocols.pmr.leveldb.coding import Corruption, LevelEntry
from rpsim.protocols.pmr.leveldb.database import LevelDb
from rpsim.protocols.pmr.leveldb.log import BLOCK, LogReader, batch_of, entries_of, pieces
from rpsim.protocols.pmr.leveldb.sstable import entries_in, index_handle, pairs_of, table_of, verified
from rpsim.protocols.pmr.leveldb.version import TableFile, Version, VersionEdit
from rpsim.protocols.pmr.store import StoreSizes

from ...disk import Disk

KEYS = [f"k{number:02}".encode() for number in range(40)]
SIZES = StoreSizes(16, 48, 600, 4)
SMALL = 1 << 15
"""So many times smaller than the paper's: a memtable of 2 KiB, tables of 64 bytes and more, a level 1 of 320 bytes."""
Operation = tuple[str, int, bytes]
operations = st.lists(
    st.tuples(st.sampled_from(["put", "put", "get", "remove"]), st.integers(0, 39), st.binary(max_size=48)),
    max_size=80,
)


def opened(disk: Disk, kind: type[LevelDb] = LevelDb, loaded: dict[bytes, bytes] | None = None, **more: Any) -> LevelDb:
    store = kind(disk.node, SIZES, loaded=len(loaded or {}), **{"shrunk": SMALL, **more})
    store.begin()
    store.load(loaded or {})
    store.start(disk.node.process("db"), [disk.threads[3]])
    return store


def perform(store: LevelDb, thread: Any, listed: list[Operation], model: dict[bytes, bytes]) -> Any:
    for f, number, value in listed:
        key = KEYS[number]
        if f == "put":
            yield from store.put(thread, key, value)
            model[key] = value
        elif f == "remove":
            yield from store.remove(thread, key)
            model.pop(key, None)
        else:
            assert (yield from store.get(thread, key)) == model.get(key)


EVERYTHING: list[Operation] = [("get", number, b"") for number in range(40)]


@settings(max_examples=15, deadline=None)
@given(operations, st.dictionaries(st.sampled_from(KEYS), st.binary(max_size=48), max_size=30))
def test_it_is_a_dictionary_and_another_process_finds_it(listed: list[Operation], loaded: dict[bytes, bytes]) -> None:
    disk, model = Disk(), dict(loaded)
    store = opened(disk, loaded=loaded)
    disk.run(perform(store, disk.thread, listed + EVERYTHING, model))
    disk.node.process("db").end()
    store.begin()
    disk.run(store.recover(disk.thread))
    disk.run(perform(store, disk.thread, EVERYTHING, model))


def test_logs_and_manifests_are_used_again_restart_after_restart() -> None:
    disk, model = Disk(), dict[bytes, bytes]()
    store = LevelDb(disk.node, SIZES._replace(updates=20), shrunk=SMALL)
    store.begin()
    store.load({})
    for life in range(40):
        listed = [("put", number * (life + 1) % 40, bytes([life])) for number in range(20)]
        disk.run(perform(store, disk.thread, listed, model))
        for under_way_us in (1 + life % 20 * 10, None):  # the first recovery does not come to its end
            disk.node.process("db").end()
            store.begin()
            recovery = disk.node.process("db").start(store.recover(disk.thread))
            disk.clock.run_until(recovery if under_way_us is None else disk.clock.now_ps + under_way_us * 10**6)
        disk.run(perform(store, disk.thread, EVERYTHING, model))
    assert store._log_number > 2 * len(store.files.logs)


def test_many_puts_make_tables_and_merge_them() -> None:
    disk, model = Disk(), dict[bytes, bytes]()
    store = opened(disk)
    listed = [("put", number * 7 % 40, bytes([number % 256])) for number in range(500)]
    disk.run(perform(store, disk.thread, listed + EVERYTHING, model))
    assert store.flushes > 3 and store.merges > 1
    assert any(store.version.levels[1:])
    for tables in store.version.levels[1:]:
        assert all(one.largest < other.smallest for one, other in itertools.pairwise(tables))


def test_writers_that_wait_are_written_as_one_record() -> None:
    disk = Disk()
    store = opened(disk, shrunk=1, write_buffer_bytes=1 << 16, sync=True)
    models: list[dict[bytes, bytes]] = [{}, {}, {}]
    lanes = [[("put", 3 * n + lane, bytes([lane])) for n in range(8)] for lane in range(3)]
    disk.run(*(perform(store, disk.threads[n], lanes[n], models[n]) for n in range(3)))
    assert disk.files.journal.commits < 24
    whole = {key: value for model in models for key, value in model.items()}
    disk.run(perform(store, disk.thread, EVERYTHING, whole))


def delayed(store: LevelDb, thread: Any, after_ps: int, number: int, expected: bytes) -> Any:
    yield store.node.system.clock.timeout(after_ps)
    assert (yield from store.get(thread, KEYS[number])) == expected


@pytest.mark.parametrize("after_ns", range(4900, 6300, 200))
def test_who_comes_while_a_block_is_put_into_the_cache_gets_its_bytes(after_ns: int) -> None:
    disk = Disk()
    store = opened(disk, shrunk=1, loaded={key: bytes(48) for key in KEYS})
    disk.run(*(delayed(store, disk.threads[n], n * after_ns * 1000, n, bytes(48)) for n in range(2)))
    assert len(store.files._cached) == 1


@pytest.mark.parametrize("slots", [1, 3])
def test_a_slot_of_the_cache_that_is_loaded_or_filled_goes_to_no_other_block(slots: int) -> None:
    sizes = SIZES._replace(value_bytes=4000)
    disk, loaded = Disk(), {key: key * 1000 for key in KEYS}
    store = LevelDb(disk.node, sizes, loaded=40, shrunk=SMALL, cache_bytes=slots * 9000 * SMALL)
    store.begin()
    store.load(loaded)
    assert store.files._slots == slots
    lanes = [[EVERYTHING[n * step % 40] for n in range(120)] for step in (1, 3, 7)]
    disk.run(*(perform(store, disk.threads[lane], lanes[lane], dict(loaded)) for lane in range(3)))
    assert len(store.files._cached) == slots


def test_a_write_waits_a_millisecond_at_eight_tables_of_level_0_and_stops_at_twelve() -> None:
    disk = Disk()
    store = opened(disk)
    disk.node.process("db").stop()  # nobody merges
    store.version.apply(VersionEdit(new=[(0, TableFile(1000 + n, 1, b"z" + bytes(8), b"z" + bytes(8)))
                                         for n in range(8)]))  # fmt: skip
    assert disk.run(store.put(disk.thread, KEYS[0], b"1")) > 1000 * 10**6

    store.version.apply(VersionEdit(new=[(0, TableFile(2000 + n, 1, b"z" + bytes(8), b"z" + bytes(8)))
                                         for n in range(4)]))  # fmt: skip
    store._memtable.used_bytes = store.write_buffer_bytes + 1
    waiting = disk.clock.start(store.put(disk.thread, KEYS[0], b"1"))
    disk.clock.run_until(disk.clock.now_ps + 50_000 * 10**6)
    assert waiting.is_alive


def test_a_merge_that_finds_a_corrupt_block_ends_all_writes_and_no_read() -> None:
    disk, model = Disk(), dict[bytes, bytes]()
    store = opened(disk)
    listed = [("put", number % 40, bytes([number])) for number in range(100)]
    disk.run(perform(store, disk.thread, listed, model))
    assert any(store.version.levels)
    for page in store.files._tables.inode.pages.values():
        page.data[:] = bytes(len(page.data))
    writers = [disk.clock.start(perform(store, disk.threads[lane], 3 * listed, model)) for lane in range(2)]
    for writer in writers:
        with pytest.raises(Corruption):
            disk.clock.run_until(writer)
    with pytest.raises(Corruption):
        disk.run(store.checkpoint(disk.thread))
    newest = next(store._memtable.entries())
    disk.run(perform(store, disk.thread, [("get", KEYS.index(newest.key.rstrip(b"\0")), b"")], model))


# formats ----------------------------------------------------------------------------------------------------------
@given(st.lists(st.binary(max_size=BLOCK + 100), max_size=4), st.integers(0, 40))
def test_a_log_has_its_records(records: list[bytes], cut: int) -> None:
    data = b""
    for record in records:
        data += b"".join(pieces(record, len(data)))
    assert list(LogReader(data).records()) == records
    assert (
        list(LogReader(data[: len(data) - cut]).records())
        == records[: len(list(LogReader(data[: len(data) - cut]).records()))]
    )


def test_a_record_is_of_batches() -> None:
    listed = [(b"a", b"1"), (b"b", None)]
    assert list(entries_of(batch_of(7, listed))) == [LevelEntry(b"a", 7, b"1"), LevelEntry(b"b", 8, None)]


@given(st.dictionaries(st.binary(max_size=40), st.binary(max_size=200), min_size=1, max_size=100))
def test_a_table_has_its_entries(model: dict[bytes, bytes]) -> None:
    entries = [LevelEntry(key, n, model[key]) for n, key in enumerate(sorted(model))]
    data = b"".join(table_of(entries))
    handle = index_handle(data[-48:])
    found: list[LevelEntry] = []
    for _, value in pairs_of(verified(data[handle.offset : handle.offset + handle.length + 5])):
        from rpsim.protocols.pmr.leveldb.coding import Reader

        reader = Reader(value)
        offset, length = reader.varint(), reader.varint()
        found += entries_in(verified(data[offset : offset + length + 5]))
    assert found == entries
    broken = bytearray(data)
    broken[0] ^= 1
    with pytest.raises(Corruption):
        verified(bytes(broken[: offset + length + 5]))


def test_an_edit_says_what_it_said() -> None:
    table = TableFile(5, 100, b"a" + bytes(8), b"z" + bytes(8))
    edit = VersionEdit(3, 9, 77, [(1, b"k" + bytes(8))], [(0, 4)], [(2, table)])
    assert VersionEdit.unpack(edit.pack()) == edit
    version = Version()
    version.apply(edit)
    assert version.levels[2] == [table]
