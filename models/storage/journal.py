"""A file system's journal, as jbd2 keeps it in ordered mode: one commit at a time, and all threads that wait share the
next.

A commit is a hand-over to the journal's thread, the blocks of the transaction, and the commit record, which goes to a
drive with a volatile cache behind a FLUSH and itself with FUA. Metadata is in effect with its commit record; its bytes
stand in the inode's block for that, and the journal's own blocks carry none.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import simpy

from ...sim.clock import Clock
from ..cpu.thread import Code
from ..profiles.parameters.storage import KernelParameters
from .blocks import Versions
from .nvme import Drive, NvmeCommand, NvmeOpcode


@dataclass(eq=False)
class Transaction:
    """The contents of the next commit: versions of inodes, and their bytes."""

    done: simpy.Event
    versions: dict[int, int] = field(default_factory=dict)
    """By channel, how many."""
    bytes: dict[int, bytes] = field(default_factory=dict)
    """By offset within the drive."""
    flushed: bool = False
    """Its FLUSH has been sent, or it needs none: data that a drive's cache takes from now on is not covered."""


class Journal:
    """Of one file system; ``offset`` is where it begins on the drive."""

    def __init__(self, clock: Clock, kernel: KernelParameters, drive: Drive, offset: int) -> None:
        self.commits = 0
        self._clock = clock
        self._kernel = kernel
        self._drive = drive
        self._offset = offset
        self._next: Transaction | None = None
        self._busy = False

    def join(self, versions: Versions, metadata: dict[int, bytes]) -> Transaction:
        """The transaction that commits these versions and this metadata: the next; its ``done`` happens by itself."""
        if self._next is None:
            self._next = Transaction(simpy.Event(self._clock))
        transaction = self._next
        for channel, count in versions:
            transaction.versions[channel] = max(count, transaction.versions.get(channel, 0))
        transaction.bytes.update(metadata)
        if not self._busy:
            self._busy = True
            self._clock.start(self._run())
        return transaction

    def _run(self) -> Code:
        """The journal's thread: commits until no thread waits."""
        while self._next is not None:
            transaction, self._next = self._next, None
            yield self._clock.timeout(self._kernel.commit_ps)
            for command in self._commands(transaction):
                transaction.flushed |= command.opcode is NvmeOpcode.FLUSH
                done = simpy.Event(self._clock)
                command.done = _tell(done)
                self._drive.ring(command)
                yield done
            for offset, content in transaction.bytes.items():
                self._drive.blocks.show(self._clock.now_ps, offset, content, self._clock.now_ps)
            self.commits += 1
            transaction.done.succeed()
        self._busy = False

    def _commands(self, transaction: Transaction) -> Iterator[NvmeCommand]:
        block, versions = self._drive.parameters.block_bytes, tuple(transaction.versions.items())
        volatile = self._drive.parameters.volatile_cache
        if self._kernel.journal:
            yield NvmeCommand(NvmeOpcode.WRITE, self._offset, self._kernel.journal_blocks * block)
            if volatile:
                yield NvmeCommand(NvmeOpcode.FLUSH)
            yield NvmeCommand(NvmeOpcode.WRITE, self._offset, block, fua=volatile, versions=versions)
        else:
            yield NvmeCommand(NvmeOpcode.WRITE, self._offset, block, versions=versions)
            if volatile:
                yield NvmeCommand(NvmeOpcode.FLUSH)


def _tell(event: simpy.Event) -> Any:
    return lambda _: event.succeed()
