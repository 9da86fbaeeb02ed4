"""A loop that looks at memory again and again, as code does that waits for bytes without any notification.

Each round costs what its instructions cost, and takes as many events. That is worth it while the bytes are on their
way: where they are looked at in the middle of arriving, a round finds them torn. But a packet that was lost comes again
after tens of milliseconds, which are hundreds of thousands of rounds that all find the same. So once a loop has gone
round :data:`IN_FULL` times and found nothing, the rounds that would find nothing again are left out: it goes on with
the round that begins next after something in the ranges that it looks at has been written.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial

import simpy

from ...sim.clock import Clock
from ..memory.devices import AddressSpace
from .software import Code, Deadline, Signal, SoftwareThread

IN_FULL = 1024
"""The number of rounds without a find that are executed in full: some 100 us, longer than anything takes that is not
repeated after a time-out."""

Ranges = tuple[tuple[int, int], ...]
"""Ranges of memory, as (address, length) each."""


class Looking:
    """One such loop of ``thread``, over addresses of ``memory``."""

    def __init__(self, thread: SoftwareThread, memory: AddressSpace) -> None:
        self._thread = thread
        self._locate = memory.locate
        self._began_ps = thread.now_ps
        self._vain = 0
        self._ranges: Ranges = ()

    def again(self, ranges: Iterable[tuple[int, int]], signal: Signal, deadlines: Iterable[Deadline]) -> Code:
        """A round is over that found none of the bytes that it waits for, which are in ``ranges``.

        Most often the next round begins at once. Else it begins once one of the ranges is written to, ``signal`` is
        raised, or one of the ``deadlines`` has passed, in step with the rounds that were left out.
        """
        now_ps = self._thread.now_ps
        round_ps, self._began_ps = now_ps - self._began_ps, now_ps
        before, self._ranges = self._ranges, tuple(ranges)
        self._vain = self._vain + 1 if self._ranges == before else 0
        if self._vain >= IN_FULL and round_ps and self._ranges and not self._under_way():
            yield from self._wait(signal, deadlines)
            waited_ps = self._thread.now_ps - now_ps
            self._began_ps = now_ps + -(-waited_ps // round_ps) * round_ps
            yield self._thread.clock.until(self._began_ps)
            self._vain = 0

    def _under_way(self) -> bool:
        """Whether an earlier write to the ranges is not visible yet: a watch would miss it."""
        for address, length in self._ranges:
            device, offset = self._locate(address)
            if device.space.coming_ps(offset, length):
                return True
        return False

    def _wait(self, signal: Signal, deadlines: Iterable[Deadline]) -> Code:
        thread, clock, since_ps = self._thread, self._thread.clock, self._thread.now_ps
        written, raised = clock.event(), signal.changed()
        on_write = partial(_on_write, clock, written)
        watches = []
        for address, length in self._ranges:
            device, offset = self._locate(address)
            watches.append((device.space, device.space.watch(offset, length, on_write)))
        passes_ps = min((deadline.at_ps + 1 for deadline in deadlines), default=None)
        passed = [] if passes_ps is None else [clock.until(passes_ps)]
        thread.core.spin(thread, clock.running)
        try:
            yield clock.any_of([written, raised, *passed])
        finally:
            for space, watch in watches:
                space.unwatch(watch)
            signal.forget(raised)
        thread._polled(since_ps)


def _on_write(clock: Clock, written: simpy.Event, visible_ps: int) -> None:
    """A write to a watched range will be visible at ``visible_ps``."""
    clock.call_at(max(visible_ps, clock.now_ps), _happened, written)


def _happened(written: simpy.Event) -> None:
    if not written.triggered:
        written.succeed()
