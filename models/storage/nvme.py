"""An NVMe drive: the way of a command from the doorbell to its completion entry in host memory.

The controller fetches the submission entry by DMA, is busy with the command for a while, reads the data of a write
from host memory (or has it, in a memory of its own), and answers once its write cache has it. The cache empties to
flash; a block that is written again before its turn has come is one write to flash. Two of the four events of a command
are the controller's, two are where its answers meet on the way up (NVMe base specification 1.4, sections 4.1 and 7.2).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum

from ...sim.clock import Clock
from ...sim.stations import Fifo, MultiServer, Pipe
from ..durability.places import Path
from ..host.hostmemory import HostMemory
from ..memory.buffer import Buffer
from ..profiles.parameters.storage import DriveParameters
from .blocks import Blocks, Versions

ENTRY_BYTES = 64
"""Of a submission queue."""
COMPLETION_BYTES = 16


class NvmeOpcode(StrEnum):
    """The commands, as far as they differ here."""

    WRITE = "write"
    READ = "read"
    FLUSH = "flush"


@dataclass(slots=True, eq=False)
class NvmeCommand:
    """One command; ``offset`` and ``length`` are within the drive, in bytes, whole blocks."""

    opcode: NvmeOpcode
    offset: int = 0
    length: int = 0
    source: int | None = None
    """Where in the node's memory that is which is written; None: ``data`` is, which the kernel has in its pages."""
    data: bytes = b""
    """The bytes to write, or the bytes read."""
    fua: bool = False
    """Not complete before it is on flash."""
    writer: str = "write"
    versions: Versions = ()
    """The versions that it covers, where they entered before: pages that are written back."""
    submitted_ps: int = 0
    served_ps: int = 0
    """When the controller began to read the data of a write; then when it was done."""
    completed_ps: int = 0
    """When its completion entry was visible."""
    done: Callable[[NvmeCommand], None] | None = field(default=None, repr=False)
    """Called then."""


class Drive:
    """One drive of a node."""

    def __init__(self, clock: Clock, host: HostMemory, parameters: DriveParameters, blocks: Blocks) -> None:
        self.parameters = parameters
        self.blocks = blocks
        self.outstanding = 0
        """Commands between doorbell and completion."""
        self.commands = dict.fromkeys(NvmeOpcode, 0)
        self.flash_bytes = 0
        """Bytes that have gone to flash: fewer than written where blocks were written again in time."""
        self._clock = clock
        self._host = host
        self._controller = Fifo()
        self._down = Pipe(parameters.link_bits_per_s)
        self._up = Pipe(parameters.link_bits_per_s)
        self._cache = Buffer(parameters.cache_bytes, parameters.drain_bits_per_s)
        self._dies = MultiServer(parameters.read_ways)
        self._cached: dict[int, tuple[int, int]] = {}
        """By block: when its way to flash begins, and when it is there."""
        self._accepted_ps = 0
        self._kept_ps = 0

    def ring(self, command: NvmeCommand) -> None:
        """A doorbell is rung now for one command, whose entry is in its queue."""
        p, now_ps = self.parameters, self._clock.now_ps
        if command.offset % p.block_bytes or command.length % p.block_bytes:
            raise ValueError(f"{command.length} bytes at {command.offset}: not whole blocks of {p.block_bytes} bytes")
        command.submitted_ps = now_ps
        self.outstanding += 1
        self.commands[command.opcode] += 1
        self._clock.call_at(now_ps + p.doorbell_ps, self._fetch, command)

    def _fetch(self, command: NvmeCommand) -> None:
        p = self.parameters
        _, there_ps = self._down.send(self._clock.now_ps, ENTRY_BYTES)
        ready_ps = self._controller.serve(there_ps + p.dma_read_ps, p.command_ps)
        self._clock.call_at(ready_ps, self._execute, command)

    def _execute(self, command: NvmeCommand) -> None:
        p, now_ps = self.parameters, self._clock.now_ps
        if command.opcode is NvmeOpcode.WRITE:
            self._load(command, now_ps)
            return
        if command.opcode is NvmeOpcode.READ:
            done_ps = self._read(command, now_ps)
        else:
            done_ps = max(now_ps, self._kept_ps if p.volatile_cache else 0) + p.flush_ps
        self._clock.call_at(done_ps, self._answer, command)

    def _load(self, command: NvmeCommand, now_ps: int) -> None:
        """The data of a write comes from host memory, or from the drive's own."""
        here_ps = now_ps
        if command.source is not None:
            command.data = self._sampled(command, now_ps)
        if command.source is None or not self._inside(command.source):
            here_ps = self._down.send(now_ps, command.length)[1] + self.parameters.dma_read_ps
        command.served_ps = now_ps
        self._clock.call_at(here_ps, self._take, command)

    def _take(self, command: NvmeCommand) -> None:
        """The cache has it once there is room."""
        p = self.parameters
        here_ps = taken_ps = kept_ps = self._clock.now_ps
        for block in range(command.offset // p.block_bytes, (command.offset + command.length) // p.block_bytes):
            begin_ps, out_ps = self._cached.get(block, (0, 0))
            if begin_ps <= here_ps:  # else the write that waits there becomes this version
                taken_ps, begin_ps, out_ps = self._cache.put(taken_ps, p.block_bytes)
                self._cached[block] = begin_ps, out_ps
                self.flash_bytes += p.block_bytes
            kept_ps = max(kept_ps, out_ps)
        self._forget(here_ps)
        accepted_ps = self._accepted_ps = max(taken_ps + p.write_ps, self._accepted_ps)
        kept_ps = max(kept_ps, accepted_ps) + p.program_ps
        self._kept_ps = max(kept_ps, self._kept_ps)
        reached = [command.served_ps, here_ps, accepted_ps, kept_ps, kept_ps]
        if command.source is not None:
            self.blocks.write(command.offset, command.data, Path.BLOCK, command.writer, reached)
            command.versions = self.blocks.covers(command.offset, command.length)
        else:
            self.blocks.moved(command.versions, reached)
        if command.data:
            self.blocks.show(accepted_ps, command.offset, command.data, here_ps)
        done_ps = kept_ps if command.fua and p.volatile_cache else accepted_ps
        self._clock.call_at(done_ps, self._answer, command)

    def _sampled(self, command: NvmeCommand, now_ps: int) -> bytes:
        """The bytes that the controller's reads of memory return."""
        assert command.source is not None
        return self._host.load(now_ps, command.source, command.length)[0]

    def _inside(self, address: int) -> bool:
        """Whether an address is in the drive's own memory."""
        return self._host.memory.locate(address)[0].name == self.parameters.memory

    def _forget(self, now_ps: int) -> None:
        if len(self._cached) > 4 * max(64, self.parameters.cache_bytes // self.parameters.block_bytes):
            self._cached = {block: way for block, way in self._cached.items() if way[1] > now_ps}

    def _read(self, command: NvmeCommand, now_ps: int) -> int:
        p, ready_ps = self.parameters, now_ps
        for block in range(command.offset // p.block_bytes, (command.offset + command.length) // p.block_bytes):
            cached = self._cached.get(block, (0, 0))[1] > now_ps
            found_ps = now_ps + p.cache_read_ps if cached else self._dies.serve(now_ps, p.read_ps)
            ready_ps = max(ready_ps, found_ps)
        return ready_ps

    def _answer(self, command: NvmeCommand) -> None:
        """The data of a read, and the completion entry, go to host memory."""
        now_ps = command.served_ps = self._clock.now_ps
        if command.opcode is NvmeOpcode.READ:
            command.data = self.blocks.read(now_ps, command.offset, command.length)
        n_bytes = COMPLETION_BYTES + (command.length if command.opcode is NvmeOpcode.READ else 0)
        _, sent_ps = self._up.send(now_ps, n_bytes)
        self._clock.call_at(sent_ps + self.parameters.posted_write_ps, self._complete, command)

    def _complete(self, command: NvmeCommand) -> None:
        now_ps = command.completed_ps = self._clock.now_ps
        self.outstanding -= 1
        if command.opcode is NvmeOpcode.WRITE:
            self.blocks.written(now_ps, command.versions, command.fua)
        elif command.opcode is NvmeOpcode.READ:
            self.blocks.returned(now_ps, command.served_ps, command.offset, command.length)
        else:
            self.blocks.flushed(now_ps, command.submitted_ps)
        if command.done is not None:
            command.done(command)
