"""Threads that wait in the kernel: for a device, for a lock."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

import simpy

from ...sim.clock import Clock
from ..core import Core
from ..cpu import Code, Thread
from ..parameters.storage import Kernel


def in_kernel(thread: Thread, cost_ps: int) -> Code:
    """The kernel works for a thread, on its core."""
    yield from thread._work(cost_ps)


def sleep(thread: Thread, event: simpy.Event, kernel: Kernel) -> Code:
    """Sleep until ``event`` has happened: its interrupt and the way back cost the core; nothing if it has already."""
    if not event.triggered:
        yield event
        yield from in_kernel(thread, kernel.interrupt_ps + kernel.wake_up_ps)


def interrupted(clock: Clock, core: Core, cost_ps: int, then: Callable[[Any], None], argument: Any) -> None:
    """A device interrupts a core now; ``then(argument)`` is called when the handler is done."""
    clock.call_at(core.work(clock.now_ps, cost_ps), then, argument)


class Lock:
    """An inode's lock: many readers or one writer, first come first served; who waits sleeps."""

    def __init__(self, clock: Clock, kernel: Kernel) -> None:
        self._clock = clock
        self._kernel = kernel
        self._shared = 0
        self._exclusive = False
        self._waiting: deque[tuple[bool, simpy.Event]] = deque()

    def acquire(self, thread: Thread, exclusive: bool) -> Code:
        """Take it."""
        if not self._waiting and self._free(exclusive):
            self._take(exclusive)
            return
        event = simpy.Event(self._clock)
        self._waiting.append((exclusive, event))
        yield event
        yield from in_kernel(thread, self._kernel.wake_up_ps)

    def release(self) -> None:
        """Whoever has it gives it back; the next ones have it from now on."""
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
