"""Cores: servers that threads queue for, one instruction after the other, outages and pauses included."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from heapq import heappush
from typing import Any, Protocol

import numpy as np
import simpy

from ...sim.clock import HOLD, THREADS, Clock, Hold, proceed
from ...sim.stations import Fifo
from ...sim.trace import Flush
from ..durability.ordering import Ordering
from ..host.fillbuffers import FillBuffers
from ..host.hostmemory import HostMemory
from ..memory.devices import AddressSpace
from .accounting import Account


class LateFlush:
    """A flush behind the store to its line: it leaves when the core has the line."""

    __slots__ = ("leaves_ps", "queued_ps")

    def __init__(self, leaves_ps: int) -> None:
        self.leaves_ps = leaves_ps
        self.queued_ps = 0
        """When a write pending queue has the line; 0 before it leaves."""


class CoreThread(Protocol):
    """A thread as its core knows it."""

    account: Account
    clock: Clock

    def leave(self, to: Core) -> int:
        """The scheduler moves it to another core; returns when it may go on there."""


class Pauses:
    """Lets cores pause at random where it matters to others: a schedule that running code may meet as well.

    ``every`` is how many chances there are for one pause, 0 for none. ``offered`` collects the chances (core, at),
    ``taken`` the pauses, as outages (core, from, for how long) that replay the same schedule.
    """

    def __init__(self, random: np.random.Generator, every: int, shortest_ps: int, longest_ps: int) -> None:
        self.offered: list[tuple[str, int]] = []
        self.taken: list[tuple[str, int, int]] = []
        self._random = random
        self._every = every
        self._lagging: str | None = None
        self._lags_every = 1
        self._stored = 0
        self._shortest_ps = shortest_ps
        self._longest_ps = longest_ps

    def lags(self, core: str, every: int) -> None:
        """``core`` pauses besides, for the longest, behind each ``every``-th store that a crash may still take."""
        self._lagging, self._lags_every = core, every

    def draw(self, core: str, now_ps: int, exposes: bool = False) -> int:
        """For how long ``core`` pauses now: mostly 0. ``exposes``: it has just stored bytes that a crash may take."""
        self.offered.append((core, now_ps))
        if exposes and core == self._lagging:
            self._stored += 1
            if self._stored % self._lags_every == 0:
                self.taken.append((core, now_ps, self._longest_ps))
                return self._longest_ps
        if not self._every or self._random.integers(self._every):
            return 0
        for_ps = int(self._random.integers(self._shortest_ps, self._longest_ps, endpoint=True))
        self.taken.append((core, now_ps, for_ps))
        return for_ps


class Core:
    """One core: a server that threads queue for, with its store buffer and write-combining buffers.

    ``outages`` are stretches (from, for how long, in order) in which it does nothing for its threads, as when an
    interrupt, system management mode or a hypervisor has it. Its stores stay where they are meanwhile.
    """

    fair = False
    """Whether the operating system gives the core to one thread for a slice at a time (``models.cpu.scheduler``)."""

    def __init__(
        self,
        ordering: Ordering,
        name: str,
        outages: Sequence[tuple[int, int]] = (),
        agent: int = 0,
        fill_buffers: tuple[int, int] = (1, 0),
    ) -> None:
        self.name = name
        self.agent = agent
        """The core's number among all cores: at one instant threads go on in the order of their cores."""
        self.threads = 0
        """The number of threads that share the core."""
        self.held = False
        """An instruction waits whose cost shows when the core comes to it; all work behind it queues."""
        self.kernel_ps = 0
        """Time of the core that went into interrupts, and on a fair core into context switches."""
        self.interrupts = 0
        self._queue: deque[tuple[simpy.Process, int | None]] = deque()
        """The processes in that queue, each with the cost of its work if it is known."""
        self._station = Fifo()
        self._outages = deque(outages)
        self.undivided = False
        """Whether two pieces of work, one behind the other, may be done as one: nothing can come between them."""
        self.pauses: Pauses | None = None
        self.deciding: Callable[[AddressSpace, int, int, int], bool | None] | None = None
        """Called with (a node's memory, address, length, checksum) before the bytes are compared with it; None: compare
        the bytes."""
        self.stores = ordering.trace.channel(f"stores of {name}")
        self.store_buffer = ordering.trace.channels[self.stores]
        self.ntstores = ordering.trace.channel(f"non-temporal stores of {name}", ordered=False)
        self.flushes: list[Flush] = []
        """Flushes that are issued and not fenced yet."""
        self.host: HostMemory | None = None
        """Memory as the core's socket addresses it; None: its threads know."""
        self.fills = FillBuffers(*fill_buffers)
        """The fill buffers for lines on their way to the core or from it."""
        self.fence_ps = 0
        """The instant until which a fence waits for all flushes and non-temporal stores that have left."""
        self.late: deque[LateFlush] = deque()
        """Flushes of lines that the core did not have yet, as many as it has fill buffers: the store buffer is in
        order."""

    def start_ps(self, now_ps: int) -> int:
        """When an instruction that is issued now is executed: behind those of other threads, and behind an outage."""
        free_ps = self._station.free_ps
        start_ps = now_ps if now_ps > free_ps else free_ps
        for from_ps, for_ps in self._outages:
            if from_ps > start_ps:
                break
            start_ps = max(start_ps, from_ps + for_ps)
        return start_ps

    def work(self, now_ps: int, cost_ps: int) -> int:
        """When work of ``cost_ps`` that is given now is done: after all earlier work, with outages on top."""
        if not self._outages:
            station = self._station  # ``Fifo.serve`` written out; time does not run backwards
            free_ps = station.free_ps
            done_ps = station.free_ps = (now_ps if now_ps > free_ps else free_ps) + cost_ps
            station.busy_ps += cost_ps
            station.served += 1
            return done_ps
        start_ps = self.start_ps(now_ps)
        away_ps = start_ps - max(now_ps, self._station.free_ps)
        while self._outages and self._outages[0][0] < start_ps + cost_ps:
            from_ps, for_ps = self._outages.popleft()
            if from_ps > start_ps:  # in the middle of the work
                away_ps += for_ps
                start_ps += for_ps
        self.undivided = self.threads == 1 and not self._outages
        return self._station.serve(now_ps, cost_ps + away_ps)

    def run(self, thread: CoreThread, cost_ps: int, process: simpy.Process | None = None) -> Hold:
        """Let ``process`` (None: the one that runs now) go on when its work of ``cost_ps`` from now is done.

        Returns the object that it has to yield until then.
        """
        clock = thread.clock
        if self.held:
            self.queue(process or clock.running, cost_ps, thread)
        elif self._outages:
            clock.resume(self.work(clock._now, cost_ps), self.agent, process)
        else:
            station, now_ps = self._station, clock._now  # as :meth:`work`
            free_ps = station.free_ps
            done_ps = station.free_ps = (now_ps if now_ps > free_ps else free_ps) + cost_ps
            station.busy_ps += cost_ps
            station.served += 1
            turn = next(clock._eid)  # ``Clock.resume`` written out
            heappush(clock._queue, (done_ps, THREADS + self.agent, turn, proceed, process or clock._active_proc))  # type: ignore[misc]
        return HOLD

    def interrupt(
        self, clock: Clock, cost_ps: int, then: Callable[[Any], None] | None = None, argument: Any = None
    ) -> None:
        """A device interrupts it now for ``cost_ps``; when that is done, ``then(argument)`` is called.

        Here all work that was given earlier comes first: an instruction is not cut in two.
        """
        self.interrupts += 1
        self.kernel_ps += cost_ps
        done_ps = self.work(clock.now_ps, cost_ps)
        if then is not None:
            clock.thread_call(done_ps, self.agent, then, argument)

    def busy_ps(self, now_ps: int) -> int:
        """How long the core has worked until now, for threads and interrupts."""
        return self._station.busy_ps - max(0, self._station.free_ps - now_ps)

    def enter(self, clock: Clock, process: simpy.Process, thread: CoreThread) -> bool:
        """Queue an instruction of ``process`` whose cost shows when the core comes to it; returns whether that is now.

        Else ``process`` is resumed at that instant. Then it has to call :meth:`work` at once.
        """
        if self.held:
            self._queue.append((process, None))
            return False
        return self._at_once(clock, process)

    def _at_once(self, clock: Clock, process: simpy.Process) -> bool:
        now_ps = clock.now_ps
        start_ps = self.start_ps(now_ps)
        if start_ps == now_ps:
            return True
        self.held = True
        clock.thread_call(start_ps, self.agent, self._come, (clock, process))
        return False

    def admit(self, thread: CoreThread, pinned: bool) -> None:
        """A new thread runs here; threads stay where they are unless the core has a scheduler."""
        self.threads += 1
        self.undivided = self.threads == 1 and not self._outages

    def spin(self, thread: CoreThread, process: simpy.Process) -> None:
        """``process`` looks at memory in a loop from now until its next work: that takes no turn on this core."""

    def reap(self) -> None:
        """Threads have ended: drop them from the queue."""

    def queue(self, process: simpy.Process, cost_ps: int, thread: CoreThread) -> None:
        """While the core is held: queue work of ``process``, which is resumed when it is done."""
        self._queue.append((process, cost_ps))

    def _come(self, entered: tuple[Clock, simpy.Process]) -> None:
        """The core has come to an instruction; the processes behind it learn their turns, as far as these are known."""
        clock, process = entered
        self.held = False
        clock.go_on(process)
        while self._queue and not self.held:
            process, cost_ps = self._queue.popleft()
            if not process.is_alive:
                continue
            if cost_ps is not None:
                clock.resume(self.work(clock.now_ps, cost_ps), self.agent, process)
            elif self._at_once(clock, process):
                clock.go_on(process)

    def may_pause(self, now_ps: int, exposes: bool = False) -> None:
        """A store, a fence or a doorbell is done: a place at which it matters to others if the core pauses.

        ``exposes``: it was a store to memory that may outlive a power failure, and nothing has flushed it yet.
        """
        for_ps = self.pauses.draw(self.name, now_ps, exposes) if self.pauses is not None else 0
        if for_ps:
            self._outages.append((now_ps, for_ps))
            self.undivided = False
