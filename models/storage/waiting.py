"""Threads that wait in the kernel: for a device, for a lock."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import simpy

from ...sim.clock import Clock
from ..cpu.core import Core
from ..cpu.thread import Code, Thread


def enter(thread: Thread) -> Code:
    """A system call's way into the kernel and back."""
    yield from thread.kernel(thread._cpu.os.syscall_ps)


def sleep(thread: Thread, event: simpy.Event) -> Code:
    """Sleep until ``event`` has happened: the core is free, and the way back costs it; nothing if it has already."""
    if not event.triggered:
        since_ps = thread.now_ps
        yield event
        yield from thread._woken(since_ps)


def interrupt(thread: Thread, core: Core, then: Callable[[Any], None], argument: Any = None) -> None:
    """A drive interrupts the core that had submitted for ``thread``; ``then(argument)`` is called from the handler."""
    core.interrupt(thread.clock, thread._cpu.os.interrupt_ps, then, argument)


class Lock:
    """An inode's lock: many readers or one writer, first come first served; who waits sleeps."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._shared = 0
        self._exclusive = False
        self._waiting: deque[tuple[bool, simpy.Event]] = deque()

    def acquire(self, thread: Thread, exclusive: bool) -> Code:
        """Take the lock, sleeping until it is free."""
        if not self._waiting and self._free(exclusive):
            self._take(exclusive)
            return
        event = simpy.Event(self._clock)
        self._waiting.append((exclusive, event))
        try:
            yield from sleep(thread, event)
        except GeneratorExit:  # its process has ended
            if event.triggered:
                self.release()
            else:
                self._waiting.remove((exclusive, event))
            raise

    def release(self) -> None:
        """Give the lock back; the next threads have it from now on."""
        if self._exclusive:
            self._exclusive = False
        else:
            self._shared -= 1
        while self._waiting and self._free(self._waiting[0][0]):
            exclusive, event = self._waiting.popleft()
            self._take(exclusive)
            event.succeed()

    def _free(self, exclusive: bool) -> bool:
        return not self._exclusive and not (exclusive and self._shared)

    def _take(self, exclusive: bool) -> None:
        if exclusive:
            self._exclusive = True
        else:
            self._shared += 1
