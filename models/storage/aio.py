"""Asynchronous I/O: io_submit and io_getevents over files opened with O_DIRECT."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import simpy

from ..cpu.thread import Code, Thread
from ..profiles.parameters.storage import KernelParameters
from .files import File, Open
from .nvme import NvmeCommand, NvmeOpcode
from .waiting import enter, interrupt, sleep


@dataclass(slots=True, eq=False)
class Iocb:
    """One request: a write of ``length`` bytes from an address, or a read; whole blocks."""

    file: File
    opcode: NvmeOpcode
    offset: int
    length: int
    source: int | None = None
    data: bytes = b""
    """The bytes that were read."""


class AioContext:
    """io_setup(2): at most ``depth`` requests that have not been returned by :meth:`io_getevents`."""

    def __init__(self, kernel: KernelParameters, depth: int) -> None:
        if depth < 1:
            raise ValueError(f"a context has at least one place, not {depth}")
        self.depth = depth
        self.held = 0
        self._kernel = kernel
        self._done: deque[Iocb] = deque()
        self._wanted: tuple[int, simpy.Event] | None = None

    def io_submit(self, thread: Thread, requests: Sequence[Iocb]) -> Code:
        """Submit as many as there is room for, in order; returns how many (0: EAGAIN). Raises ValueError (EINVAL)."""
        for request in requests:
            self._check(request)
        taken = requests[: self.depth - self.held]
        self.held += len(taken)
        yield from enter(thread)
        for request in taken:
            file = request.file
            yield from thread.kernel(self._kernel.file_ps)
            command = NvmeCommand(
                request.opcode,
                file.inode.base + request.offset,
                request.length,
                source=request.source,
                writer=thread._writer("asynchronous write"),
            )
            yield from file.system.queue.submit(thread, command, self._teller(thread, request))
        return len(taken)

    def _teller(self, thread: Thread, request: Iocb) -> Callable[[NvmeCommand], None]:
        core = thread.core

        def handled(command: NvmeCommand) -> None:
            request.data = command.data
            self._done.append(request)
            if self._wanted is not None and len(self._done) >= self._wanted[0]:
                event, self._wanted = self._wanted[1], None
                event.succeed()

        return lambda command: interrupt(thread, core, handled, command)

    def io_getevents(self, thread: Thread, least: int, most: int) -> Code:
        """Sleep until ``least`` requests are done; returns up to ``most`` of them, in the order in which they were."""
        yield from enter(thread)
        least = min(least, self.held)
        if len(self._done) < least:
            self._wanted = least, simpy.Event(thread.clock)
            yield from sleep(thread, self._wanted[1])
        found = [self._done.popleft() for _ in range(min(most, len(self._done)))]
        self.held -= len(found)
        return found

    @staticmethod
    def _check(request: Iocb) -> None:
        file, block = request.file, request.file.system.drive.parameters.block_bytes
        if not file.flags & Open.O_DIRECT or request.opcode is NvmeOpcode.FLUSH:
            raise ValueError(f"{file.inode.name}: asynchronous reads and writes are of files opened with O_DIRECT")
        if request.offset % block or request.length % block or not request.length:
            raise ValueError(
                f"{file.inode.name}: {request.length} bytes at {request.offset}: not whole blocks of {block}"
            )
        if request.offset < 0 or request.offset + request.length > file.size_bytes:
            raise ValueError(f"{file.inode.name}: {request.length} bytes at {request.offset}: outside of the file")
        if (request.source is None) is (request.opcode is NvmeOpcode.WRITE):
            raise ValueError(f"{file.inode.name}: a write, and no read, has a source in memory")
