"""Files on a drive, as Linux and ext4 treat them: page cache, write-back, fsync, O_DIRECT.

``pwrite`` puts bytes into pages, which are lost with the power; the kernel may write them back at any time, and has to
for ``fsync``: data first, then a commit of the journal where the inode has changed, else a FLUSH where the drive's
write cache is volatile. A file has the blocks that it was created with; it may be shorter than those and grow, and then
its size is metadata.
"""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from enum import Flag, auto

import simpy

from ...sim.clock import Clock
from ...sim.trace import NEVER
from ..cpu.thread import Code, Thread
from ..durability.places import Path
from ..profiles.parameters.storage import KernelParameters
from .blocks import Versions
from .journal import Journal, Transaction
from .nvme import NvmeCommand, NvmeOpcode
from .queues import Queue
from .waiting import Lock, enter, interrupt, sleep

SIZE_BYTES = 8


class Open(Flag):
    """The flags of open(2) that matter here."""

    NONE = 0
    O_DIRECT = auto()
    O_DSYNC = auto()


class CachePage:
    """One page of the page cache."""

    __slots__ = ("data", "writing")

    def __init__(self, data: bytearray) -> None:
        self.data = data
        self.writing: simpy.Event | None = None
        """Happens when its write-back is over."""


class Inode:
    """The kernel's state of one file."""

    def __init__(self, name: str, base: int, capacity_bytes: int, size_at: int | None, lock: Lock) -> None:
        self.name = name
        self.base = base
        """Where it begins on the drive."""
        self.capacity_bytes = capacity_bytes
        self.size_at = size_at
        """Where its size is on the drive, if it may grow."""
        self.size_bytes: int | None = None if size_at is not None else capacity_bytes
        """None: not looked up yet."""
        self.lock = lock
        self.cached = True
        """Reading a page for the first time costs nothing: it was there since the file was made."""
        self.pages: dict[int, CachePage] = {}
        self.dirty: dict[int, None] = {}
        """Numbers of dirty pages, the longest dirty first."""
        self.size_changed = False
        self.time_changed = False
        self.size_in: Transaction | None = None
        """The last transaction that carries its size (ext4: ``i_datasync_tid``)."""
        self.changed_in: Transaction | None = None
        """The last transaction that carries anything of it (ext4: ``i_sync_tid``)."""
        self.ticked_at = -1

    @property
    def size_dirty(self) -> bool:
        """Its size is not committed yet (ext4: ``ext4_inode_datasync_dirty``)."""
        return self.size_changed or (self.size_in is not None and not self.size_in.done.triggered)


class FileSystem:
    """The file system on one drive; ``queue`` is the kernel's."""

    def __init__(self, clock: Clock, kernel: KernelParameters, queue: Queue) -> None:
        self.clock = clock
        self.kernel = kernel
        self.queue = queue
        self.drive = queue.drive
        self.blocks = queue.drive.blocks
        self._inodes: dict[str, Inode] = {}
        self.journal = Journal(clock, kernel, self.drive, self.allocate(self.drive.parameters.block_bytes, "journal"))

    def allocate(self, length: int, label: str) -> int:
        """Blocks of the drive; returns the offset. Raises MemoryError when it is full."""
        device, block = self.blocks.device, self.drive.parameters.block_bytes
        return device.allocate(-(-length // block) * block, label, align=block) - device.base

    def create(self, name: str, length: int, flags: Open = Open.NONE, *, grows: bool = False) -> File:
        """A file of ``length`` bytes, written and synced before the run; one that ``grows`` begins empty, up to that.

        As a layout it is made again after a restart, with the drive's contents. Raises FileExistsError.
        """
        if name in self._inodes:
            raise FileExistsError(name)
        base = self.allocate(length, name)
        size_at = self.allocate(SIZE_BYTES, f"inode of {name}") if grows else None
        self._inodes[name] = Inode(name, base, length, size_at, Lock(self.clock))
        return self.open(name, flags)

    def open(self, name: str, flags: Open = Open.NONE) -> File:
        """open(2) of a file that has been created. Raises FileNotFoundError."""
        if name not in self._inodes:
            raise FileNotFoundError(name)
        return File(self, self._inodes[name], flags)

    def drop_caches(self) -> None:
        """Forget all clean pages, as after a restart: reading them again costs a read of the drive."""
        for inode in self._inodes.values():
            inode.cached = False
            for number in [number for number in inode.pages if number not in inode.dirty]:
                del inode.pages[number]


class File:
    """An open file; offsets are within it, and all calls are made by a thread."""

    def __init__(self, system: FileSystem, inode: Inode, flags: Open) -> None:
        self.system = system
        self.inode = inode
        self.flags = flags
        self._kernel = system.kernel
        self._page_bytes = system.kernel.page_bytes

    @property
    def size_bytes(self) -> int:
        """The length of the file in bytes."""
        inode = self.inode
        if inode.size_bytes is None:
            assert inode.size_at is not None
            read = self.system.blocks.read(self.system.clock.now_ps, inode.size_at, SIZE_BYTES)
            inode.size_bytes = int.from_bytes(read, "little")
        return inode.size_bytes

    # writing ----------------------------------------------------------------------------------------------
    def pwrite(self, thread: Thread, source: bytes | int, offset: int, length: int | None = None) -> Code:
        """pwrite(2) of bytes that the code has at hand, or of ``length`` bytes at an address; returns how many.

        With O_DIRECT it is an address, in host memory or in the drive's own, and all is in whole blocks. Raises
        ValueError (EINVAL, EFBIG).
        """
        n_bytes = self._checked(source, offset, length)
        yield from enter(thread)
        if self.flags & Open.O_DIRECT:
            assert isinstance(source, int)
            yield from self._direct(thread, source, offset, n_bytes)
        else:
            data = source if isinstance(source, bytes) else (yield from thread.load(source, n_bytes))
            yield from self.inode.lock.acquire(thread, exclusive=True)
            try:
                yield from self._copy_in(thread, data, offset)
            finally:  # its process may end meanwhile
                self.inode.lock.release()
        if self.flags & Open.O_DSYNC and (self.inode.size_dirty or not self.flags & Open.O_DIRECT):
            yield from self._sync(thread, data_only=True)  # blocks within the file went with FUA
        return n_bytes

    def _checked(self, source: bytes | int, offset: int, length: int | None) -> int:
        if isinstance(source, bytes):
            length = len(source)
        if length is None or length < 1 or offset < 0:
            raise ValueError(f"{self.inode.name}: a write of {length} bytes at {offset}")
        if offset + length > self.inode.capacity_bytes:
            raise ValueError(f"{self.inode.name}: {offset + length} bytes, it has room for {self.inode.capacity_bytes}")
        if self.flags & Open.O_DIRECT:
            block = self.system.drive.parameters.block_bytes
            if isinstance(source, bytes) or offset % block or length % block:
                raise ValueError(f"{self.inode.name}: O_DIRECT writes whole blocks of {block} bytes from memory")
        return length

    def _copy_in(self, thread: Thread, data: bytes, offset: int) -> Code:
        inode, done = self.inode, 0
        grown = self._grows(offset + len(data))
        while done < len(data):
            number, start = divmod(offset + done, self._page_bytes)
            piece = data[done : done + self._page_bytes - start]
            page = inode.pages.get(number)
            if page is None:
                page = yield from self._fill(thread, number, whole=len(piece) == self._page_bytes)
            while self._kernel.stable_pages and page.writing is not None:
                yield from sleep(thread, page.writing)
            yield from thread.kernel(self._kernel.page_cache_ps + thread._copy_ps(len(piece)))
            page.data[start : start + len(piece)] = piece
            inode.dirty[number] = None
            self._enters(thread, inode.base + offset + done, piece)
            done += len(piece)
        if grown:
            self._grow(thread, offset + len(data))
        self._touch()

    def _enters(self, thread: Thread, at: int, data: bytes, behind: Versions = ()) -> None:
        reached = [self.system.clock.now_ps, NEVER, NEVER, NEVER, NEVER]
        self.system.blocks.write(at, data, Path.BUFFERED, thread._writer("write"), reached, behind)

    def _grows(self, end: int) -> bool:
        return self.inode.size_at is not None and end > self.size_bytes

    def _grow(self, thread: Thread, size_bytes: int) -> None:
        """The size is committed behind the data that it speaks of (data=ordered)."""
        inode = self.inode
        assert inode.size_at is not None
        blocks = self.system.blocks
        ordered = self._kernel.journal and blocks.explored  # a list of all blocks so far, with each write
        behind = blocks.covers(inode.base, size_bytes) if ordered else ()
        inode.size_bytes, inode.size_changed = size_bytes, True
        self._enters(thread, inode.size_at, size_bytes.to_bytes(SIZE_BYTES, "little"), behind)

    def _touch(self) -> None:
        """The time of the last write changes with the tick."""
        tick = self.system.clock.now_ps // self._kernel.timestamp_ps
        if tick != self.inode.ticked_at:
            self.inode.ticked_at, self.inode.time_changed = tick, True

    def _direct(self, thread: Thread, source: int, offset: int, length: int) -> Code:
        """Blocks within the file are written side by side; one that makes it longer has it for itself."""
        inode, kernel = self.inode, self._kernel
        grown = self._grows(offset + length)
        yield from inode.lock.acquire(thread, exclusive=grown)
        try:
            first, last = offset // self._page_bytes, (offset + length - 1) // self._page_bytes
            cached = [number for number in range(first, last + 1) if number in inode.pages]
            if cached:
                yield from self._write_back(thread, cached)
                for number in cached:
                    inode.pages.pop(number, None)
            fua = bool(self.flags & Open.O_DSYNC) and self.system.drive.parameters.volatile_cache
            commands = [
                NvmeCommand(
                    NvmeOpcode.WRITE,
                    inode.base + at,
                    min(kernel.transfer_bytes, offset + length - at),
                    source=source + at - offset,
                    fua=fua,
                    writer=thread._writer("O_DIRECT write"),
                )
                for at in range(offset, offset + length, kernel.transfer_bytes)
            ]
            yield from self._all(thread, commands)
            if grown:
                self._grow(thread, offset + length)
            self._touch()
        finally:
            inode.lock.release()

    def ftruncate(self, thread: Thread, size_bytes: int) -> Code:
        """ftruncate(2) to a shorter length; in effect with the inode, as any change of the size. Raises ValueError."""
        if self.inode.size_at is None or not 0 <= size_bytes <= self.size_bytes:
            raise ValueError(f"{self.inode.name}: cut to {size_bytes} bytes, it has {self.size_bytes}")
        yield from enter(thread)
        yield from self.inode.lock.acquire(thread, exclusive=True)
        try:
            yield from thread.kernel(self._kernel.file_ps)
            self._grow(thread, size_bytes)
            self._touch()
        finally:
            self.inode.lock.release()

    # syncing ----------------------------------------------------------------------------------------------
    def fsync(self, thread: Thread) -> Code:
        """fsync(2): all that was written is durable, and so is its inode."""
        yield from enter(thread)
        yield from self._sync(thread, data_only=False)

    def fdatasync(self, thread: Thread) -> Code:
        """fdatasync(2): as fsync, but for changes of the inode that no reader needs."""
        yield from enter(thread)
        yield from self._sync(thread, data_only=True)

    def _sync(self, thread: Thread, data_only: bool) -> Code:
        inode, system = self.inode, self.system
        yield from self._write_back(thread, list(inode.dirty))
        for writing in [page.writing for page in inode.pages.values() if page.writing is not None]:
            yield from sleep(thread, writing)
        if inode.size_changed or (inode.time_changed and not data_only):
            self._join()
        transaction = inode.size_in if data_only else inode.changed_in
        needs_flush = system.drive.parameters.volatile_cache
        if transaction is not None and not transaction.done.triggered:
            needs_flush &= transaction.flushed
            yield from sleep(thread, transaction.done)
        if needs_flush:
            yield from self._all(thread, [NvmeCommand(NvmeOpcode.FLUSH)])

    def _join(self) -> None:
        """The next transaction takes the inode as it is; threads that sync it meanwhile wait for that one."""
        inode, system = self.inode, self.system
        versions: Versions = ()
        content: dict[int, bytes] = {}
        if inode.size_at is not None:
            versions = system.blocks.covers(inode.size_at, SIZE_BYTES)
            content[inode.size_at] = self.size_bytes.to_bytes(SIZE_BYTES, "little")
        inode.changed_in = system.journal.join(versions, content)
        if inode.size_changed:
            inode.size_in = inode.changed_in
        inode.size_changed = inode.time_changed = False

    def _write_back(self, thread: Thread, numbers: Iterable[int]) -> Code:
        """Write pages back, as far as they are dirty, neighbours together; returns when they are on the drive."""
        inode, system, commands = self.inode, self.system, []
        over = simpy.Event(system.clock)
        for first, count in _runs(sorted(number for number in numbers if number in inode.dirty), self._most()):
            for number in range(first, first + count):
                while (before := inode.pages[number].writing) is not None:
                    yield from sleep(thread, before)
            run = [number for number in range(first, first + count) if number in inode.dirty]
            for start, some in _runs(run, self._most()):  # pages written back meanwhile are not written again
                commands.append(self._command(start, some, over))
        if commands:

            def written() -> None:
                over.succeed()
                for page in inode.pages.values():
                    if page.writing is over:
                        page.writing = None

            yield from self._all(thread, commands, written)

    def _command(self, first: int, count: int, over: simpy.Event) -> NvmeCommand:
        inode, size = self.inode, self._page_bytes
        pages = [inode.pages[number] for number in range(first, first + count)]
        for number, page in enumerate(pages, first):
            del inode.dirty[number]
            page.writing = over
        offset = inode.base + first * size
        versions = self.system.blocks.covers(offset, count * size)
        data = b"".join(page.data for page in pages)
        return NvmeCommand(NvmeOpcode.WRITE, offset, count * size, data=data, versions=versions)

    def _most(self) -> int:
        return max(1, self._kernel.transfer_bytes // self._page_bytes)

    def _all(self, thread: Thread, commands: list[NvmeCommand], then: Callable[[], None] | None = None) -> Code:
        """Map blocks and submit commands, and sleep until all are done. ``then`` is called, also where the thread's
        process ends meanwhile: the kernel goes on with what it has begun.
        """
        event, left, core = simpy.Event(self.system.clock), itertools.count(len(commands) - 1, -1), thread.core

        def handled(_: NvmeCommand) -> None:
            if next(left) == 0:
                event.succeed()

        def done(command: NvmeCommand) -> None:
            interrupt(thread, core, handled, command)

        waiting = deque(commands)
        try:
            if commands[0].opcode is not NvmeOpcode.FLUSH:
                yield from thread.kernel(self._kernel.file_ps)
            while waiting:
                yield from self.system.queue.submit(thread, waiting[0], done)
                waiting.popleft()
            yield from sleep(thread, event)
        except GeneratorExit:
            for command in waiting:
                command.done = command.done or done
                self.system.drive.ring(command)
            if then is not None and not event.triggered:
                event.callbacks.append(lambda _: then())
            elif then is not None:
                then()
            raise
        if then is not None:
            then()

    # reading ----------------------------------------------------------------------------------------------
    def pread(self, thread: Thread, offset: int, length: int) -> Code:
        """pread(2); returns the bytes, fewer at the end of the file. With O_DIRECT always from the drive."""
        inode, kernel = self.inode, self._kernel
        yield from enter(thread)
        end = min(offset + length, self.size_bytes)
        if offset >= end:
            return b""
        direct = bool(self.flags & Open.O_DIRECT)
        parts = []
        for number in range(offset // self._page_bytes, (end - 1) // self._page_bytes + 1):
            page = None if direct and number not in inode.dirty else inode.pages.get(number)
            if page is None:
                page = yield from self._fill(thread, number, whole=False, cache=not direct)
            yield from thread.kernel(kernel.page_cache_ps)
            start = number * self._page_bytes
            parts.append(bytes(page.data[max(0, offset - start) : end - start]))
        yield from thread.kernel(thread._copy_ps(end - offset))
        return b"".join(parts)

    def _fill(self, thread: Thread, number: int, whole: bool, cache: bool = True) -> Code:
        """A page that is not in the cache: read, unless it will be overwritten or is known to be there."""
        inode, system, size = self.inode, self.system, self._page_bytes
        offset = inode.base + number * size
        if whole:
            data = bytes(size)
        elif inode.cached and cache:
            there = min(max(self.size_bytes - number * size, 0), size)
            data = system.blocks.read(system.clock.now_ps, offset, there) if there else b""
            data = data.ljust(size, b"\0")  # behind the file's end a page has zeros, whatever the block holds
        else:
            command = NvmeCommand(NvmeOpcode.READ, offset, size)
            yield from self._all(thread, [command])
            data = command.data
        page = CachePage(bytearray(data))
        if not cache:
            return page
        return inode.pages.setdefault(number, page)


def _runs(numbers: list[int], most: int) -> Iterator[tuple[int, int]]:
    """Numbers in order as (first, how many) of neighbours, at most so many."""
    first, count = 0, 0
    for number in numbers:
        if count and number == first + count and count < most:
            count += 1
            continue
        if count:
            yield first, count
        first, count = number, 1
    if count:
        yield first, count
