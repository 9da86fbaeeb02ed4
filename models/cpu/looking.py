"""A loop that looks at memory again and again, as code does that waits for bytes without any notification.

Each round costs what its instructions cost, and takes as many events. That is worth it while the bytes are on their
way: where they are looked at in the middle of arriving, a round finds them torn. But a packet that was lost comes again
after tens of milliseconds, which are hundreds of thousands of rounds that all find the same. So once a loop has gone
round :data:`IN_FULL` times and found nothing, the rounds that would find nothing again are left out: it goes on with
the round that begins next after something in the ranges that it looks at has been written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from ...sim.bytespace import ByteSpace, Watch
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
        self._watched: _Watched | None = None

    def again(self, ranges: Iterable[tuple[int, int]], signal: Signal, deadlines: Iterable[Deadline]) -> Code:
        """A round is over that found none of the bytes that it waits for, which are in ``ranges``.

        Most often the next round begins at once. Else it begins once one of the ranges is written to, ``signal`` is
        raised, or one of the ``deadlines`` has passed, in step with the rounds that were left out.
        """
        now_ps = self._thread.now_ps
        round_ps, self._began_ps = now_ps - self._began_ps, now_ps
        before, self._ranges = self._ranges, tuple(ranges)
        watched, self._watched = self._watched, None
        if self._ranges != before or (watched is not None and watched.came):
            self._vain = 0
        else:
            self._vain += 1
        if watched is not None:
            if not (self._vain and round_ps):
                watched.end()
            else:
                yield from self._wait(watched, signal, deadlines)
                waited_ps = self._thread.now_ps - now_ps
                self._began_ps = now_ps + -(-waited_ps // round_ps) * round_ps
                yield self._thread.clock.until(self._began_ps)
                self._vain = 0
        elif self._vain >= IN_FULL - 1 and self._ranges:
            # A round looks at one range after the other: what is written behind its back it would not know of.
            self._watched = _Watched(self._thread.clock, self._spaces())

    def _spaces(self) -> Iterator[tuple[ByteSpace, int, int]]:
        for address, length in self._ranges:
            device, offset = self._locate(address)
            yield device.space, offset, length

    def _wait(self, watched: _Watched, signal: Signal, deadlines: Iterable[Deadline]) -> Code:
        thread, clock, since_ps = self._thread, self._thread.clock, self._thread.now_ps
        raised = signal.changed()
        passes_ps = min((deadline.at_ps + 1 for deadline in deadlines), default=None)
        passed = [] if passes_ps is None else [clock.until(passes_ps)]
        thread.core.spin(thread, clock.running)
        try:
            yield clock.any_of([watched.written, raised, *passed])
        finally:
            watched.end()
            signal.forget(raised)
        thread._polled(since_ps)


class _Watched:
    """Ranges during a round of a loop and a wait behind it, until something is written there."""

    def __init__(self, clock: Clock, ranges: Iterable[tuple[ByteSpace, int, int]]) -> None:
        self._clock = clock
        self.written = clock.event()
        self.came = False
        """Whether a write has come, or was on its way before."""
        self._watches: list[tuple[ByteSpace, Watch]] = []
        for space, offset, length in ranges:
            self._watches.append((space, space.watch(offset, length, self._on_write)))
            self.came = self.came or bool(space.coming_ps(offset, length))

    def _on_write(self, visible_ps: int) -> None:
        """A write to one of the ranges will be visible at ``visible_ps``."""
        self.came = True
        self._clock.call_at(max(visible_ps, self._clock.now_ps), self._visible)
        self.end()

    def _visible(self) -> None:
        if not self.written.triggered:
            self.written.succeed()

    def end(self) -> None:
        """Watch no longer."""
        watches, self._watches = self._watches, []
        for space, watch in watches:
            space.unwatch(watch)
