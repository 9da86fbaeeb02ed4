"""Spinning: a loop that loads ranges of memory, one after the other, until one of them has changed.

The program is

    while True:
        for number, (address, seen) in enumerate(ranges):
            if load(address, len(seen)) != seen:
                return number
        if deadline has passed, or a queue pair has failed:
            return None
        pause  # CpuParameters.spin_loop_ps

A look at a range that nobody has written to since the look before finds it in the core's first-level cache, takes as
long as that one, and finds the same. Such looks take no event: the thread sleeps in the simulator until the first look
that may find something else, whose instant follows from the phase of the loop. That look is then executed in full, for
the line has left the core's cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from operator import itemgetter
from typing import NamedTuple

from ...sim.bytespace import LINE_BYTES, lines
from ...sim.clock import HOLD
from ..durability.ordering import Event
from ..host.attached import AttachedMemory
from ..memory.devices import DEVICE_SPAN_BITS, OFFSET_MASK
from ..verbs.objects import QueuePair
from .instructions import Instructions
from .software import Code, Deadline

Seen = tuple[int, bytes]
"""A range of memory, by its address, and the bytes that the code has seen there."""

FINDS, LOOKS, CHECKS = range(3)
"""What the loop does at an instant: a look ends that began before a write was visible, a look begins, a round is over.
"""


class SpinningThread(Instructions):
    """The part of a thread that waits for bytes which others write."""

    def spin(
        self, ranges: Sequence[Seen], deadline: Deadline | None = None, queue_pairs: Iterable[QueuePair] = ()
    ) -> Code:
        """Load ranges, each (address, the bytes seen there), in a loop; returns the number of the first that changed.

        Returns None after the round in which ``deadline`` has passed or one of ``queue_pairs`` is in the error state.
        Bytes that differ when the loop begins are found in its first round: nothing is lost between a load and this
        call. Rounds in vain cost no event, and count as polling. Raises ValueError where there is nothing to look at.
        """
        if not ranges or not all(map(itemgetter(1), ranges)):
            raise ValueError("a loop that looks at no bytes would never end")
        return Spinning(self, ranges, deadline, tuple(queue_pairs)).run()


class Spot(NamedTuple):
    """One of the ranges."""

    address: int
    seen: bytes
    memory: AttachedMemory
    offset: int
    """The offset within its device."""
    hit_ps: int
    """How long a look takes that finds it in the first-level cache."""
    end_ps: int
    """When such a look is over, from the beginning of a round in which all looks are such."""


_spot = partial(tuple.__new__, Spot)
"""As Spot, of a tuple; costs no Python call."""


class NextStep(NamedTuple):
    """The next thing that the loop does which needs the simulator."""

    at_ps: int
    does: int
    number: int = 0


class Spinning:
    """One such loop of ``thread``."""

    def __init__(
        self,
        thread: Instructions,
        ranges: Sequence[Seen],
        deadline: Deadline | None,
        queue_pairs: tuple[QueuePair, ...],
    ) -> None:
        self._thread = thread
        self._clock = thread.clock
        self._deadline = deadline
        self._queue_pairs = queue_pairs
        self._spots: list[Spot] = []
        self._caches = True
        """Every range is of memory that the core caches; else the loop is executed in full."""
        at_ps = 0
        for address, seen in ranges:
            memory, offset = thread._attached[address >> DEVICE_SPAN_BITS], address & OFFSET_MASK
            hit_ps = memory.hit_ps(offset, len(seen))
            if hit_ps is None:
                self._caches, hit_ps = False, 0
            at_ps += hit_ps
            self._spots.append(_spot((address, seen, memory, offset, hit_ps, at_ps)))
        self._check_ps = at_ps
        self._pause_ps = thread._cpu.spin_loop_ps
        self._round_ps = at_ps + self._pause_ps
        self._begin_ps = self._done_ps = thread.now_ps
        """When the round began that the thread is in, if all its looks were hits; until when looks are done."""
        self._writes: list[tuple[int, int]] = []
        """(from, number): from then on a look at that range may miss its cache, or find something; none has yet."""
        self._failed_ps: int | None = None
        self._waits_for: NextStep | None = None
        self._waiting = False
        self._turn = 0
        """The number of the present plan: alarms of earlier ones are ignored."""

    def run(self) -> Code:
        """The loop; returns as :meth:`SpinningThread.spin`."""
        if not self._caches:
            return (yield from self._in_full())
        undo: list[Callable[[], None]] = []
        for number, spot in enumerate(self._spots):
            space, start = spot.memory.device.space, spot.offset // LINE_BYTES * LINE_BYTES
            length = -(-(spot.offset + len(spot.seen)) // LINE_BYTES) * LINE_BYTES - start
            now_ps = self._begin_ps
            changed = space.read(now_ps, spot.offset, len(spot.seen)) != spot.seen
            if changed or not spot.memory.is_near(spot.offset, len(spot.seen), self._thread.core.agent):
                self._writes.append((now_ps, number))
            for at_ps in space.coming_ps(start, length):
                self._writes.append((at_ps, number))
            written = partial(self._written, number)
            undo.append(partial(space.unwatch, space.watch(start, length, written)))
            for line in lines(start, length):
                undo.append(spot.memory.when_taken(line, partial(self._taken, number)))
        failed = self._failed  # one object, to be found again
        for qp in self._queue_pairs:
            if qp.error:
                self._failed_ps = self._begin_ps
            qp.watchers.append(failed)
        try:
            return (yield from self._look_until_found())
        finally:
            for end in undo:
                end()
            for qp in self._queue_pairs:
                qp.watchers[:] = [other for other in qp.watchers if other is not failed]

    def _look_until_found(self) -> Code:
        clock = self._clock
        while True:
            target, since_ps = self._next(), clock._now
            if target is None or target.at_ps > since_ps:
                self._wait_for(target)
                yield HOLD
                self._thread._polled(since_ps)
                target = self._waits_for
                assert target is not None
            if target.does == CHECKS:
                return None
            number, late = target.number, clock._now > target.at_ps
            spot = self._spots[number]
            if target.does == FINDS and not late:
                if self._loaded(spot) != spot.seen:
                    return number
                self._done_ps = clock._now
                continue
            start_ps = clock._now
            if (yield from self._look(spot)):
                return number
            self._done_ps = clock._now
            self._begin_ps = clock._now - spot.end_ps
            self._writes = [write for write in self._writes if write[1] != number or write[0] > start_ps]

    def _in_full(self) -> Code:
        """The loop, every look executed: nothing that it looks at is ever in the core's caches."""
        thread = self._thread
        while True:
            for number, spot in enumerate(self._spots):
                if (yield from self._look(spot)):
                    return number
            if self._over():
                return None
            thread.account.polling_ps += self._pause_ps
            yield thread.core.run(thread, self._pause_ps)

    def _over(self) -> bool:
        passed = self._deadline is not None and self._deadline.passed
        return passed or any(qp.error for qp in self._queue_pairs)

    # one look -------------------------------------------------------------------------------------------------
    def _look(self, spot: Spot) -> Code:
        """Load a range; returns whether it has changed. What a load in vain takes is polling."""
        account = self._thread.account
        before_ps = account.memory_ps
        data = yield from self._thread.load(spot.address, len(spot.seen))
        if data != spot.seen:
            return True
        account.polling_ps += account.memory_ps - before_ps
        account.memory_ps = before_ps
        return False

    def _loaded(self, spot: Spot) -> bytes:
        """The bytes of a load that ends now, and that has found the line in the cache."""
        thread, now_ps = self._thread, self._clock._now
        data, shown = spot.memory.load(now_ps, spot.offset, len(spot.seen))
        if shown or thread.host.peers:
            thread._looked(Event.LOAD, now_ps, spot.address, now_ps - spot.hit_ps, shown)
        return data

    # looks that are left out ------------------------------------------------------------------------------------
    def _next(self) -> NextStep | None:
        """The next thing to do, as far as anything is known that will come."""
        known = [self._look_behind(visible_ps, number) for visible_ps, number in self._writes]
        if self._deadline is not None:
            known.append(self._check_from(self._deadline.at_ps + 1))
        if self._failed_ps is not None:
            known.append(self._check_from(self._failed_ps))
        return min(known, default=None)

    def _look_behind(self, visible_ps: int, number: int) -> NextStep:
        """The first look at a range that ends when a write to it is visible, or later."""
        spot = self._spots[number]
        rounds = max(0, -(-(max(visible_ps, self._done_ps + 1) - self._begin_ps - spot.end_ps) // self._round_ps))
        end_ps = self._begin_ps + rounds * self._round_ps + spot.end_ps
        start_ps = end_ps - spot.hit_ps
        if visible_ps <= start_ps:
            return NextStep(start_ps, LOOKS, number)
        return NextStep(end_ps, FINDS, number)

    def _check_from(self, at_ps: int) -> NextStep:
        """The end of a round at an instant or later."""
        rounds = max(0, -(-(max(at_ps, self._done_ps) - self._begin_ps - self._check_ps) // self._round_ps))
        return NextStep(self._begin_ps + rounds * self._round_ps + self._check_ps, CHECKS)

    def _wait_for(self, target: NextStep | None) -> None:
        """The process that runs goes on at ``target``, or at what comes before it: then :attr:`_waits_for` has that."""
        thread, self._process = self._thread, self._clock.running
        self._waits_for, self._waiting = target, True
        if target is not None:
            self._set_alarm(target)
        if thread.core.fair:
            thread.core.spin(thread, self._process)

    def _set_alarm(self, target: NextStep) -> None:
        self._waits_for = target
        self._turn += 1
        self._clock.thread_call(target.at_ps, self._thread.core.agent, self._wake, self._turn)

    def _wake(self, turn: int) -> None:
        if turn != self._turn or not self._waiting:
            return
        self._waiting = False
        thread = self._thread
        if thread.core.undivided:
            self._clock.go_on(self._process)
        else:  # others may have the core just now
            thread.core.run(thread, 0, self._process)

    def _comes(self, target: NextStep) -> None:
        """Something has become known while the thread waits."""
        if self._waiting and (self._waits_for is None or target < self._waits_for):
            self._set_alarm(target)

    def _written(self, number: int, visible_ps: int) -> None:
        """A write to a line of a range will be visible at ``visible_ps``."""
        self._writes.append((visible_ps, number))
        self._comes(self._look_behind(visible_ps, number))

    def _taken(self, number: int) -> None:
        """Another core takes a line of a range for its store, which will be visible a little later."""
        self._written(number, self._clock._now)

    def _failed(self) -> None:
        """A queue pair is in the error state from now on."""
        if self._failed_ps is None:
            self._failed_ps = self._clock._now
            self._comes(self._check_from(self._failed_ps))
