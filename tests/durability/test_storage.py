"""What a power failure leaves of files: page cache, write cache, flash, and what forces bytes from one to the next."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rpsim.models.durability.ordering
from rpsim.models.durability.block_rules import BLOCK_RULES
from rpsim.models.durability.places import Place
from rpsim.models.durability.rules import Event, Scope
from rpsim.models.storage.files import File, Open
from rpsim.models.storage.nvme import NvmeCommand, NvmeOpcode
from rpsim.validation.crash.story import why_not_forced

from ..disk import BLOCK, DIRECT, LINE, US, Disk, first_line

OLD, ONE, TWO = bytes(LINE), b"1" * LINE, b"2" * LINE
CACHE, FLASH, PAGES, PCIE = Place.DRIVE_CACHE, Place.FLASH, Place.PAGE_CACHE, Place.PCIE


def test_the_stories_here_cover_the_table():
    told = {
        name.removeprefix("test_rule_").split("__")[0].replace("_", "-") for name in globals() if "test_rule_" in name
    }
    assert {rule.name for rule in BLOCK_RULES} == told
    assert all(len(rule.source) > 10 for rule in BLOCK_RULES)


def places(disk, chunk=0):
    return disk.views().places(disk.trace.chunks[chunk], disk.clock.now_ps)


def raw_write(disk, data, offset=0, fua=False):
    """A write of a program with a queue of its own: no kernel, no FLUSH of anybody's."""
    queue = disk.kernel.queue("ssd")
    command = NvmeCommand(NvmeOpcode.WRITE, offset, len(data), source=disk.buffer(data), fua=fua)

    def code():
        yield from queue.submit(disk.thread, command)
        yield from queue.poll(disk.thread)

    disk.run(code())


def raw(disk, *commands):
    queue = disk.kernel.queue("ssd")

    def code():
        for command in commands:
            yield from queue.submit(disk.thread, command)
        for _ in commands:
            yield from queue.poll(disk.thread)

    disk.run(code())


# rules -------------------------------------------------------------------------------------------------------------


def test_rule_write_accepted():
    disk = Disk(volatile=True)
    command = NvmeCommand(NvmeOpcode.WRITE, 0, BLOCK, source=disk.buffer(ONE * 64))
    seen = []
    command.done = lambda _: seen.append(places(disk))
    disk.drive.ring(command)
    disk.clock.run_until(5 * US)
    assert places(disk) == {PCIE, CACHE, FLASH}  # fetched, and not answered yet
    disk.rest()
    assert seen == [{CACHE, FLASH}]
    assert places(disk) == {CACHE, FLASH}  # time proves nothing


def test_rule_fua_persists():
    disk = Disk(volatile=True)
    raw_write(disk, ONE * 64, fua=True)
    assert places(disk) == {FLASH}


def test_rule_block_flush_commits():
    disk = Disk(volatile=True)
    raw_write(disk, ONE * 64)
    assert disk.images(0) == {(OLD,), (ONE,)}
    raw(disk, NvmeCommand(NvmeOpcode.FLUSH))
    assert disk.images(0) == {(ONE,)}


def test_rule_block_flush_commits__not_what_had_not_completed_when_it_was_submitted():
    disk = Disk(volatile=True)
    raw(disk, NvmeCommand(NvmeOpcode.WRITE, 0, BLOCK, source=disk.buffer(ONE * 64)), NvmeCommand(NvmeOpcode.FLUSH))
    assert disk.images(0) == {(OLD,), (ONE,)}


def test_rule_block_read_returns_accepted():
    """A read finds in the cache what a write with FUA, which waits for flash, has not completed yet."""
    disk = Disk(volatile=True)
    write, read = (
        NvmeCommand(NvmeOpcode.WRITE, 0, BLOCK, source=disk.buffer(ONE * 64), fua=True),
        NvmeCommand(NvmeOpcode.READ, 0, BLOCK),
    )
    disk.drive.ring(write)
    disk.clock.run_until(10 * US)
    assert places(disk) == {PCIE, CACHE, FLASH}
    raw(disk, read)
    assert read.data == ONE * 64
    assert not write.completed_ps
    assert places(disk) == {CACHE, FLASH}


@pytest.mark.parametrize("rule", BLOCK_RULES, ids=lambda rule: rule.name)
def test_without_a_rule_something_is_not_certain(monkeypatch, rule):
    """Each rule carries weight: a story that rests on it ends differently without it."""
    kept = tuple(other for other in BLOCK_RULES if other is not rule)
    monkeypatch.setattr(rpsim.models.durability.ordering, "BLOCK_RULES", kept)
    story = globals()["test_rule_" + rule.name.replace("-", "_")]
    with pytest.raises(AssertionError):
        story()


def test_events_and_scopes_of_blocks_are_used():
    assert {rule.event for rule in BLOCK_RULES} == {event for event in Event if event.name.startswith("BLOCK_")}
    assert {rule.scope for rule in BLOCK_RULES} == {Scope.COMMAND, Scope.DRIVE_EARLIER, Scope.RETURNED}


# the drive's write cache -------------------------------------------------------------------------------------------


def test_a_protected_cache_keeps_what_has_completed_and_needs_no_flush():
    disk = Disk()
    raw_write(disk, ONE * 64)
    assert disk.images(0) == {(ONE,)}


def test_a_block_is_there_whole_or_not_at_all():
    disk = Disk(volatile=True)
    raw_write(disk, ONE * 64)
    assert disk.images(0, 1, 63) == {(OLD,) * 3, (ONE,) * 3}


def test_units_below_the_block_are_independent_of_one_another():
    disk = Disk(volatile=True, atomic_bytes=512)
    raw_write(disk, ONE * 64)
    assert disk.images(0, 7) == {(OLD, OLD), (ONE, ONE)}
    assert disk.images(0, 8) == {(OLD, OLD), (ONE, ONE), (OLD, ONE), (ONE, OLD)}


def test_flash_holds_any_version_since_the_last_flush_and_blocks_are_independent():
    disk = Disk(volatile=True)
    raw_write(disk, ONE * 64)
    raw_write(disk, TWO * 64)
    raw_write(disk, ONE * 64, offset=BLOCK)
    assert {image[0] for image in disk.images(0)} == {OLD, ONE, TWO}
    assert len(disk.images(0, 64)) == 6
    raw(disk, NvmeCommand(NvmeOpcode.FLUSH))
    assert disk.images(0, 64) == {(TWO, ONE)}


# files -------------------------------------------------------------------------------------------------------------


def test_what_is_in_the_page_cache_may_be_lost_and_may_have_been_written_back():
    disk = Disk()
    file = disk.files.create("wal", BLOCK)
    disk.run(file.pwrite(disk.thread, ONE, 0))
    assert places(disk) == {PAGES, PCIE, CACHE, FLASH}
    whole = disk.images(first_line(file))
    assert {(OLD,), (ONE,)} < whole  # and torn: the page may change while it is written back
    disk.rest()
    assert disk.images(first_line(file)) == whole


def test_stable_pages_are_never_torn():
    disk = Disk(kernel={"stable_pages": True})
    file = disk.files.create("wal", BLOCK)
    disk.run(file.pwrite(disk.thread, ONE, 0))
    assert disk.images(first_line(file)) == {(OLD,), (ONE,)}


@pytest.mark.parametrize("volatile", [False, True])
@pytest.mark.parametrize("sync", [File.fsync, File.fdatasync])
def test_what_was_synced_is_there(volatile, sync):
    disk = Disk(volatile)
    file = disk.files.create("wal", 4 * BLOCK)
    disk.run(file.pwrite(disk.thread, ONE + TWO, BLOCK - LINE))
    disk.run(sync(file, disk.thread))
    assert disk.images(first_line(file, BLOCK - LINE), first_line(file, BLOCK)) == {(ONE, TWO)}
    disk.run(file.pwrite(disk.thread, TWO, 0))
    assert {(OLD,), (TWO,)} <= disk.images(first_line(file))


def test_fdatasync_without_flush_loses_data_of_a_volatile_cache(monkeypatch):
    """The broken variant: a kernel that believes the cache to be protected."""

    def without_flush(file, thread):
        yield from file._write_back(thread, list(file.inode.dirty))

    lost = {}
    for volatile in (False, True):
        disk = Disk(volatile)
        file = disk.files.create("wal", BLOCK)
        disk.run(file.pwrite(disk.thread, ONE, 0))
        disk.run(without_flush(file, disk.thread))
        assert disk.drive.commands[NvmeOpcode.FLUSH] == 0
        lost[volatile] = disk.images(first_line(file)) != {(ONE,)}
    assert lost == {False: False, True: True}


@pytest.mark.parametrize("volatile", [False, True])
def test_direct_writes_need_a_sync_only_where_the_cache_is_volatile(volatile):
    disk = Disk(volatile)
    file = disk.files.create("data", 2 * BLOCK, DIRECT)
    disk.run(file.pwrite(disk.thread, disk.buffer(ONE * 64), 0, BLOCK))
    assert disk.images(first_line(file)) == ({(OLD,), (ONE,)} if volatile else {(ONE,)})
    disk.run(file.fdatasync(disk.thread))
    assert disk.images(first_line(file)) == {(ONE,)}


@pytest.mark.parametrize("flags", [DIRECT | Open.O_DSYNC, Open.O_DSYNC])
def test_o_dsync_is_a_sync_with_each_write(flags):
    disk = Disk(volatile=True)
    file = disk.files.create("data", 2 * BLOCK, flags)
    direct = bool(flags & DIRECT)
    source = disk.buffer(ONE * 64) if direct else ONE * 64
    disk.run(file.pwrite(disk.thread, source, 0, BLOCK))
    assert disk.images(first_line(file), first_line(file, BLOCK - 1)) == {(ONE, ONE)}


@pytest.mark.parametrize("volatile", [False, True])
def test_a_size_is_there_only_with_the_data_that_it_speaks_of(volatile):
    """data=ordered: the journal commits an inode behind its data, even if nobody asked it to."""
    disk = Disk(volatile, kernel={"stable_pages": True})
    file = disk.files.create("log", 4 * BLOCK, grows=True)
    size = file.inode.size_at // LINE
    disk.run(file.pwrite(disk.thread, ONE, 0))
    found = {(int.from_bytes(inode[:8], "little"), data) for inode, data in disk.images(size, first_line(file))}
    assert found == {(0, OLD), (0, ONE), (LINE, ONE)}
    disk.run(file.fdatasync(disk.thread))
    found = {(int.from_bytes(inode[:8], "little"), data) for inode, data in disk.images(size, first_line(file))}
    assert found == {(LINE, ONE)}


@pytest.mark.parametrize("flags", [Open.NONE, Open.O_DSYNC, DIRECT | Open.O_DSYNC])
@pytest.mark.parametrize("volatile", [False, True])
@pytest.mark.parametrize("later_us", [0, 20, 60, 90, 200])
def test_a_sync_waits_for_another_thread_s_commit_that_carries_its_size(flags, volatile, later_us):
    """ext4_sync_file waits for the transaction that carries the size (``i_datasync_tid``), whoever began it."""
    disk = Disk(volatile, kernel={"stable_pages": True})
    file = disk.files.create("log", 4 * BLOCK, grows=True)
    mine = disk.files.open("log", flags)
    source = disk.buffer(TWO * 64) if flags & DIRECT else TWO * 64
    size, at = file.inode.size_at // LINE, first_line(file)
    seen = []

    def other():
        yield from file.pwrite(disk.threads[1], ONE * 64, 0)
        yield from file.fdatasync(disk.threads[1])

    def code():
        yield disk.clock.timeout(later_us * US)
        yield from mine.pwrite(disk.thread, source, 0, BLOCK)
        if not flags & Open.O_DSYNC:
            yield from mine.fdatasync(disk.thread)
        seen.append(disk.images(size, at))

    disk.run(other(), code())
    assert {int.from_bytes(inode[:8], "little") for inode, _ in seen[0]} == {BLOCK}
    assert {data for _, data in seen[0]} <= ({TWO} if later_us else {ONE, TWO})


def test_without_a_journal_a_size_may_be_there_without_its_data():
    disk = Disk(kernel={"stable_pages": True, "journal": False})
    file = disk.files.create("log", 4 * BLOCK, grows=True)
    disk.run(file.pwrite(disk.thread, ONE, 0))
    found = disk.images(file.inode.size_at // LINE, first_line(file))
    assert any(int.from_bytes(inode[:8], "little") == LINE and data == OLD for inode, data in found)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("wws"), st.integers(0, 3)), min_size=1, max_size=8), st.booleans())
def test_no_write_is_lost_after_a_sync_and_none_is_certain_before(steps, volatile):
    """Each block holds its last synced version or a later one; one that has been synced since holds just that."""
    disk = Disk(volatile, kernel={"stable_pages": True})
    file = disk.files.create("data", 4 * BLOCK)
    versions = {block: [OLD] for block in range(4)}
    for turn, (step, block) in enumerate(steps, 1):
        if step == "w":
            data = bytes([turn]) * LINE
            disk.run(file.pwrite(disk.thread, data, block * BLOCK))
            versions[block].append(data)
        else:
            disk.run(file.fdatasync(disk.thread))
            versions = {block: [found[-1]] for block, found in versions.items()}
        for at, found in versions.items():
            assert disk.images(first_line(file, at * BLOCK)) == {(data,) for data in found}


@pytest.mark.parametrize(
    ("volatile", "step", "words"),
    [
        (False, "write", "no fsync, fdatasync or O_DSYNC had written it back"),
        (True, "raw", "no FLUSH of the drive had completed behind it, nor FUA"),
    ],
)
def test_a_counterexample_says_why_bytes_were_lost(volatile, step, words):
    disk = Disk(volatile)
    if step == "raw":
        raw_write(disk, ONE * 64)
    else:
        disk.run(disk.files.create("wal", BLOCK).pwrite(disk.thread, ONE, 0))
    [piece] = next(iter(disk.views().pieces.values()))
    assert why_not_forced(piece, disk.clock.now_ps) == words
