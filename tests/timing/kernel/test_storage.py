"""A drive, its queues and files against closed forms: what one command takes, what many do, what waits for what."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpsim.models.memory.buffer import Buffer
from rpsim.models.profiles.platform import load_platform
from rpsim.models.storage.aio import Iocb
from rpsim.models.storage.nvme import COMPLETION_BYTES, ENTRY_BYTES, NvmeCommand, NvmeOpcode
from rpsim.sim.errors import InputError

from ...disk import BLOCK, DIRECT, LINE, US, Disk
from ..hops import PS, ceil_div


def wire(disk, n_bytes):
    return ceil_div(n_bytes * 8 * PS, disk.drive.parameters.link_bits_per_s)


def one_write_ps(disk, n_bytes=BLOCK):
    """From the doorbell to the completion entry, undisturbed."""
    p = disk.drive.parameters
    fetch = p.doorbell_ps + wire(disk, ENTRY_BYTES) + p.dma_read_ps + p.command_ps
    data = wire(disk, n_bytes) + p.dma_read_ps
    return fetch + data + p.write_ps + wire(disk, COMPLETION_BYTES) + p.posted_write_ps


def awake_ps(disk):
    """From a completion entry until the thread that slept goes on."""
    return disk.os.interrupt_ps + disk.os.wake_ps + disk.os.switch_ps


def write(disk, number=0, blocks=1):
    return NvmeCommand(NvmeOpcode.WRITE, number * BLOCK, blocks * BLOCK, source=disk.buffer(bytes(blocks * BLOCK)))


def test_a_write_takes_the_sum_of_its_hops():
    disk = Disk()
    command = write(disk)
    disk.drive.ring(command)
    disk.rest()
    assert command.completed_ps == pytest.approx(one_write_ps(disk), abs=3)


def test_a_read_takes_as_long_as_flash_or_the_cache():
    disk = Disk()
    p = disk.drive.parameters
    there = p.doorbell_ps + wire(disk, ENTRY_BYTES) + p.dma_read_ps + p.command_ps
    back = wire(disk, BLOCK + COMPLETION_BYTES) + p.posted_write_ps
    cold = NvmeCommand(NvmeOpcode.READ, 0, BLOCK)
    disk.drive.ring(cold)
    disk.rest()
    assert cold.completed_ps == pytest.approx(there + p.read_ps + back, abs=3)
    flood(disk, 256)
    start = disk.clock.now_ps
    hot = NvmeCommand(NvmeOpcode.READ, 255 * BLOCK, BLOCK)
    disk.drive.ring(hot)
    disk.rest()
    assert hot.completed_ps - start == pytest.approx(there + p.cache_read_ps + back, abs=wire(disk, BLOCK))


def flood(disk, commands, depth=1024, blocks=lambda turn: turn):
    """Programs that keep ``depth`` commands outstanding; returns the completions' instants."""
    queue, done = disk.kernel.queue("ssd", depth), []
    source = disk.buffer(bytes(BLOCK))

    def code():
        for turn in range(commands):
            command = NvmeCommand(NvmeOpcode.WRITE, blocks(turn) * BLOCK, BLOCK, source=source)
            yield from queue.submit(disk.thread, command, lambda c: done.append(c.completed_ps))

    disk.run(code())
    while len(done) < commands:
        disk.clock.step()
    return done


@pytest.mark.parametrize("depth", [1, 2, 3])
def test_queue_depth_over_latency_is_throughput_until_a_ceiling(depth):
    disk = Disk(kernel={"block_ps": 1})
    done = flood(disk, 400, depth)
    apart = (done[-1] - done[depth]) / (len(done) - 1 - depth)
    assert apart == pytest.approx(one_write_ps(disk) / depth, rel=0.02)


def test_the_controller_is_a_ceiling():
    disk = Disk(kernel={"block_ps": 1}, drain_bits_per_s=10**12)
    done = flood(disk, 2000)
    assert (done[-1] - done[1000]) / 999 == pytest.approx(disk.drive.parameters.command_ps, rel=0.01)


@pytest.mark.long
def test_a_burst_fits_the_cache_and_then_flash_is_the_ceiling():
    disk = Disk(kernel={"block_ps": 1}, command_ps=1, cache_bytes=100 * BLOCK)
    done = flood(disk, 3000)
    flash = BLOCK * 8 * PS / disk.drive.parameters.drain_bits_per_s
    assert (done[60] - done[10]) / 50 == pytest.approx(wire(disk, BLOCK), rel=0.1)
    assert (done[-1] - done[1000]) / 1999 == pytest.approx(flash, rel=0.01)


def test_a_block_that_is_written_again_while_it_waits_is_one_write_to_flash():
    disk = Disk(kernel={"block_ps": 1}, command_ps=1)
    done = flood(disk, 2000, blocks=lambda turn: turn % 8)
    assert disk.drive.flash_bytes < 2000 * BLOCK / 2
    assert (done[-1] - done[1000]) / 999 < BLOCK * 8 * PS / disk.drive.parameters.drain_bits_per_s


def test_a_flush_waits_for_all_that_the_cache_took():
    disk = Disk(volatile=True)
    flood(disk, 64)
    flush = NvmeCommand(NvmeOpcode.FLUSH)
    disk.drive.ring(flush)
    disk.rest()
    p = disk.drive.parameters
    kept = max(chunk.reached_ps[3] for chunk in disk.trace.chunks)
    assert flush.served_ps == kept + p.flush_ps
    assert kept > p.program_ps


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 5000), st.integers(1, 300)), max_size=60))
def test_a_buffer_never_holds_more_than_it_has_room_for(puts):
    buffer, now, kept = Buffer(1000, 8 * PS), 0, []
    for wait, n_bytes in puts:
        now += wait
        entered, begins, out = buffer.put(now, n_bytes)
        assert entered >= now and out == begins + n_bytes and begins >= entered
        kept.append((entered, out, n_bytes))
        assert sum(size for into, left, size in kept if into <= entered < left) <= 1000
    assert all(first[1] <= second[0] + 10**9 and first[1] <= second[1] for first, second in pairwise(kept))
    assert buffer.empty_ps == (kept[-1][1] if kept else 0)


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(1, 4), min_size=1, max_size=30), st.integers(1, 5))
def test_no_more_are_outstanding_than_the_queue_is_deep_and_none_is_lost(sizes, depth):
    disk = Disk()
    queue = disk.kernel.queue("ssd", depth)
    seen, done = [], []

    def code(turn):
        command = write(disk, 8 * turn, sizes[turn])
        yield from queue.submit(disk.threads[turn % 4], command, done.append)
        seen.append(disk.drive.outstanding)

    disk.run(*(code(turn) for turn in range(len(sizes))))
    disk.rest()
    assert max(seen) <= depth
    assert len(done) == len(sizes)
    assert disk.drive.outstanding == queue.outstanding == 0


@pytest.mark.parametrize("told", [False, True])
def test_a_place_of_a_thread_that_has_ended_is_the_next_one_s(told):
    """Three share a queue of one place; the second ends while it waits, or when it has been told that there is room."""
    disk = Disk()
    queue, done = disk.kernel.queue("ssd", 1), []

    def code(turn):
        yield from queue.submit(disk.threads[turn], write(disk, 8 * turn), done.append)

    _, second, third = [disk.clock.start(code(turn)) for turn in range(3)]
    while not (queue.outstanding == 0 and disk.clock.now_ps if told else len(queue._rooms) == 2):
        disk.clock.step()
    disk.clock.end(second)
    disk.rest()
    assert third.triggered and len(done) == 2
    assert queue.outstanding == 0


# files -------------------------------------------------------------------------------------------------------------


def test_small_writes_are_whole_blocks_to_the_drive():
    disk = Disk()
    file = disk.files.create("wal", 16 * BLOCK)
    synced = 0
    for turn in range(8):
        disk.run(file.pwrite(disk.thread, b"x" * LINE, turn * LINE))
        synced += disk.run(file.fdatasync(disk.thread))
    assert disk.drive.commands[NvmeOpcode.WRITE] == 8
    assert disk.drive.flash_bytes == 8 * BLOCK
    kernel = disk.kernel.parameters
    cpu = disk.os.syscall_ps + kernel.file_ps + kernel.block_ps + awake_ps(disk)
    assert synced / 8 == pytest.approx(cpu + one_write_ps(disk), abs=5)


def test_neighbouring_pages_are_one_command_and_clean_ones_none():
    disk = Disk()
    file = disk.files.create("data", 64 * BLOCK)
    disk.run(file.pwrite(disk.thread, bytes(40 * BLOCK), 0))
    disk.run(file.fdatasync(disk.thread))
    assert disk.drive.commands[NvmeOpcode.WRITE] == 2  # of 32 and of 8 pages
    assert disk.run(file.fdatasync(disk.thread)) == disk.os.syscall_ps


def syncs(disk, file, turns=20, threads=4):
    """Threads that append by turns to one file, each append synced; returns picoseconds for each."""
    end = [0]

    def code(thread):
        source = disk.buffer(b"x" * BLOCK)
        for _ in range(turns):
            at, end[0] = end[0], end[0] + BLOCK
            yield from file.pwrite(thread, source, at, BLOCK)

    took = disk.run(*(code(thread) for thread in disk.threads[:threads]))
    return took / (turns * threads)


def test_direct_appends_to_one_file_are_serialised_and_overwrites_are_not():
    """An append holds the inode until it is on the drive: one log is as fast as one synchronous write."""
    disk = Disk()
    log = syncs(disk, disk.files.create("log", 100 * BLOCK, DIRECT, grows=True))
    kernel = disk.kernel.parameters
    alone = one_write_ps(disk) + kernel.file_ps + kernel.block_ps + awake_ps(disk)
    assert log == pytest.approx(alone + disk.os.wake_ps + disk.os.switch_ps, rel=0.06)
    disk = Disk()
    assert syncs(disk, disk.files.create("data", 100 * BLOCK, DIRECT)) == pytest.approx(alone / 4, rel=0.1)


def test_commits_of_the_journal_are_one_after_the_other_and_shared_by_those_who_wait():
    disk = Disk()
    kernel, spans = disk.kernel.parameters, []

    def code(thread, file):
        for turn in range(5):
            yield from file.pwrite(thread, b"x" * LINE, turn * LINE)
            start = disk.clock.now_ps
            yield from file.fsync(thread)
            spans.append(disk.clock.now_ps - start)

    files = [disk.files.create(f"log {number}", BLOCK, grows=True) for number in range(4)]
    took = disk.run(*(code(thread, file) for thread, file in zip(disk.threads, files, strict=True)))
    commits = disk.files.journal.commits
    assert 5 <= commits < 20  # jbd2: who comes during a commit goes with the next
    assert took >= commits * kernel.commit_ps
    assert min(spans) > kernel.commit_ps + 2 * one_write_ps(disk)


def test_only_a_change_of_the_inode_is_committed():
    disk = Disk()
    file = disk.files.create("data", 4 * BLOCK)
    journal = disk.files.journal

    def commits(sync):
        disk.run(file.pwrite(disk.thread, b"x", 0), sync)
        return journal.commits

    assert commits(file.fdatasync(disk.thread)) == 0  # its time has changed, which no reader needs
    assert commits(file.fsync(disk.thread)) == 1
    assert commits(file.fsync(disk.thread)) == 1  # within one tick
    disk.clock.run_until(disk.clock.now_ps + disk.kernel.parameters.timestamp_ps)
    assert commits(file.fsync(disk.thread)) == 2


def test_what_was_written_is_read_whatever_the_way():
    disk = Disk()
    file = disk.files.create("data", 4 * BLOCK)
    direct = disk.files.open("data", DIRECT)
    found = []

    def code():
        yield from file.pwrite(disk.thread, b"abc", BLOCK - 1)
        found.append((yield from file.pread(disk.thread, BLOCK - 1, 3)))
        yield from direct.pwrite(disk.thread, disk.buffer(b"d" * BLOCK), BLOCK, BLOCK)
        found.append((yield from file.pread(disk.thread, BLOCK - 1, 3)))
        found.append((yield from direct.pread(disk.thread, BLOCK - 1, 3)))

    disk.run(code())
    assert found == [b"abc", b"add", b"add"]


def test_a_cold_page_is_read_from_flash_and_then_cached():
    disk = Disk()
    file = disk.files.create("data", 4 * BLOCK)
    disk.files.drop_caches()
    assert disk.run(file.pread(disk.thread, 0, 8)) > disk.drive.parameters.read_ps
    assert disk.run(file.pread(disk.thread, 8, 8)) < US
    assert disk.run(file.pwrite(disk.thread, b"x", 2 * BLOCK)) > disk.drive.parameters.read_ps  # a part of a page
    assert disk.run(file.pwrite(disk.thread, bytes(BLOCK), 3 * BLOCK)) < 2 * US


def test_a_core_is_free_while_its_thread_sleeps():
    disk = Disk()
    file = disk.files.create("data", 4 * BLOCK, DIRECT)
    other = disk.node.thread(0, "other")
    source, ends = disk.buffer(bytes(BLOCK)), []

    def work():
        for _ in range(10):
            yield other.core.run(other, US)
        ends.append(disk.clock.now_ps)

    alone = Disk()
    quiet = alone.run(
        alone.files.create("data", 4 * BLOCK, DIRECT).pwrite(alone.thread, alone.buffer(bytes(BLOCK)), 0, BLOCK)
    )
    took = disk.run(file.pwrite(disk.thread, source, 0, BLOCK), work())
    assert ends[0] < 14 * US
    assert took < quiet + 4 * US


def test_asynchronous_writes_overlap_up_to_the_context_s_depth():
    disk = Disk()
    file = disk.files.create("data", 64 * BLOCK, DIRECT)
    context, source, taken = disk.kernel.aio(8), disk.buffer(bytes(BLOCK)), []
    requests = [Iocb(file, NvmeOpcode.WRITE, turn * BLOCK, BLOCK, source) for turn in range(12)]

    def code():
        taken.append((yield from context.io_submit(disk.thread, requests)))
        taken.append((yield from context.io_submit(disk.thread, requests[8:])))
        done = yield from context.io_getevents(disk.thread, 8, 8)
        taken.append([request.offset // BLOCK for request in done])

    kernel = disk.kernel.parameters
    cpu = disk.os.syscall_ps + 8 * (kernel.file_ps + kernel.block_ps) + awake_ps(disk)
    least_ps = cpu + one_write_ps(disk)  # and interrupts on the core that still submits
    assert least_ps < disk.run(code()) < least_ps + 7 * disk.os.interrupt_ps
    assert taken == [8, 0, list(range(8))]
    assert context.held == 0


@pytest.mark.parametrize(
    ("flags", "source", "offset", "length"),
    [(DIRECT, b"x" * BLOCK, 0, None), (DIRECT, 64, 1, BLOCK), (DIRECT, 64, 0, 512), (None, b"x", 4 * BLOCK, None)],
)
def test_what_no_kernel_takes_is_refused(flags, source, offset, length):
    disk = Disk()
    file = disk.files.create("data", 4 * BLOCK, *([flags] if flags else []))
    with pytest.raises(ValueError, match="data: "):
        disk.run(file.pwrite(disk.thread, source, offset, length))


def test_a_file_is_created_once_and_opened_by_its_name():
    disk = Disk()
    disk.files.create("data", BLOCK)
    with pytest.raises(FileExistsError):
        disk.files.create("data", BLOCK)
    with pytest.raises(FileNotFoundError):
        disk.files.open("date")
    assert disk.files.open("data").size_bytes == BLOCK


# profiles ----------------------------------------------------------------------------------------------------------

PROFILE = """
platform: mine
title: another drive
extends: pmr
drives:
  haishen5_flash:
    {drive}
memory:
  ssd:
    domain: {{value: {domain}, source: "a test"}}
"""


@pytest.mark.parametrize(
    ("drive", "domain", "field"),
    [
        ("volatile_cache: {value: true, source: a test}", "plp", "memory.ssd.domain"),
        ("volatile_cache: {value: false, source: a test}", "flash", "memory.ssd.domain"),
        ("atomic: {value: 3 KiB, source: a test}", "plp", "drives.haishen5_flash.atomic"),
        ("memory: {value: prm, source: a test}", "plp", "drives.haishen5_flash.memory"),
        ("hold_up: {value: 1 ms, source: a test}", "plp", "drives.haishen5_flash.hold_up"),
    ],
)
def test_a_drive_that_cannot_be_is_refused(tmp_path, drive, domain, field):
    path = tmp_path / "mine.yaml"
    path.write_text(PROFILE.format(drive=drive, domain=domain))
    with pytest.raises(InputError) as refused:
        load_platform(str(path))
    assert [mistake.field for mistake in refused.value.mistakes] == [field]


@pytest.mark.parametrize("after_us", [1, 2, 3, 4, 5, 6, 8, 12, 30])
def test_the_kernel_ends_what_a_process_had_begun(after_us):
    """A process dies in a write, waiting for an inode, or in a sync; another's write and sync come to their end."""
    disk = Disk()
    file = disk.files.create("log", 8 * BLOCK, grows=True)
    dying, living = disk.node.process("dying"), []

    def write(thread, offset):
        yield from file.pwrite(thread, bytes(BLOCK), offset)
        yield from file.fdatasync(thread)
        living.append(thread)

    for number in range(2):
        dying.start(write(disk.threads[number], number * BLOCK))
    disk.clock.run_until(after_us * US)
    dying.end()
    before = len(living)
    disk.run(write(disk.threads[2], 2 * BLOCK))
    assert len(living) == before + 1
    assert not any(page.writing for page in file.inode.pages.values())
