"""Queues of a drive: places for commands, and how a thread learns that they are done.

A program may have a queue of its own and poll it (as with SPDK); the kernel learns of completions by interrupts.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import simpy

from ..cpu.thread import Code, Thread
from .nvme import Drive, NvmeCommand


class Queue:
    """A submission and a completion queue of ``depth`` commands; ``submit_ps`` is the driver's time for each."""

    def __init__(self, drive: Drive, depth: int, submit_ps: int) -> None:
        if depth < 1:
            raise ValueError(f"a queue has at least one place, not {depth}")
        self.drive = drive
        self.depth = depth
        self.outstanding = 0
        self.completed: deque[NvmeCommand] = deque()
        """Done, and not polled yet."""
        self._submit_ps = submit_ps
        self._rooms: deque[simpy.Event] = deque()
        self._polls: deque[simpy.Event] = deque()

    def submit(
        self, thread: Thread, command: NvmeCommand, on_done: Callable[[NvmeCommand], None] | None = None
    ) -> Code:
        """Put a command into the queue and ring the doorbell; waits for a place.

        ``on_done`` (the kernel's) is called when the command is done; without it a program polls.
        """
        while self.outstanding == self.depth:
            room = simpy.Event(thread.clock)
            self._rooms.append(room)
            try:
                yield room
            except GeneratorExit:  # its process has ended: the place is the next one's
                if room.triggered:
                    self._tell_next()
                else:
                    self._rooms.remove(room)
                raise
        self.outstanding += 1
        command.done = lambda done: self._done(done, on_done)
        yield from (thread.work if on_done is None else thread.kernel)(self._submit_ps)
        self.drive.ring(command)

    def _tell_next(self) -> None:
        if self._rooms:
            self._rooms.popleft().succeed()

    def _done(self, command: NvmeCommand, on_done: Callable[[NvmeCommand], None] | None) -> None:
        self.outstanding -= 1
        self._tell_next()
        if on_done is not None:
            on_done(command)
            return
        self.completed.append(command)
        if self._polls:
            self._polls.popleft().succeed()

    def poll(self, thread: Thread) -> Code:
        """Spin until a command is done; returns it."""
        while not self.completed:
            event = simpy.Event(thread.clock)
            self._polls.append(event)
            yield event
        command = self.completed.popleft()
        yield from thread.work(self._submit_ps)
        return command
