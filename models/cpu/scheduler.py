"""A fair scheduler: cores that an operating system gives to one thread after the other, as Linux' CFS does by default.

A runnable thread waits in a core's run queue; the one that has run least comes next, for a slice of ``sched_latency``
over the number of threads (never less than ``min_granularity``). A thread that wakes is credited half a latency and
preempts a thread that has run more than ``wakeup_granularity`` longer. A poller is runnable for as long as it polls: it
uses its slice up and may be off the core when its bytes come. A thread without work sleeps, and its core goes to the
next.

With SMT, siblings share a core's issue rate: work that takes ``t`` alone takes ``smt_slowdown`` times as long while the
sibling runs a thread. Threads that are not pinned go to an idle core when they wake, and one that falls idle takes
them from the longest queue (Linux, kernel/sched/fair.c: select_task_rq_fair, newidle_balance; not modelled: periodic
balancing among cores that are all busy, priorities, groups). A slice ends with the timer tick after it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import simpy
from typing_extensions import override

from ...sim.clock import Clock
from ..durability.ordering import Ordering
from ..profiles.parameters.cpu import OperatingSystem
from .core import Core, CoreThread

WORK, ENTER, SPIN = 1, 2, 3
"""A thread's need of its core: work of a known length, an instruction that has to look first, a loop."""


class Task:
    """A thread as the scheduler sees it."""

    __slots__ = ("delayed_ps", "kind", "left_ps", "number", "pinned", "process", "queued", "thread", "vruntime_ps")

    def __init__(self, thread: CoreThread, number: int, pinned: bool, vruntime_ps: int) -> None:
        self.thread = thread
        self.number = number
        self.pinned = pinned
        self.vruntime_ps = vruntime_ps
        """How long it has run, with the credits of its sleeps."""
        self.process: simpy.Process | None = None
        self.kind = 0
        """Its need of the core: :data:`WORK`, :data:`ENTER` or :data:`SPIN`, or 0 while it sleeps."""
        self.left_ps = 0
        self.queued = False
        self.delayed_ps = 0
        """When all its flushes on the core that it comes from are done."""

    @property
    def alive(self) -> bool:
        """Whether its code still runs."""
        return self.process is not None and self.process.is_alive


class FairCore(Core):
    """A core (with SMT: half of one) with a run queue."""

    fair = True

    def __init__(
        self,
        ordering: Ordering,
        name: str,
        outages: Sequence[tuple[int, int]],
        agent: int,
        fill_buffers: tuple[int, int],
        clock: Clock,
        os: OperatingSystem,
        mates: list[FairCore],
    ) -> None:
        super().__init__(ordering, name, (), agent, fill_buffers)
        self.held = True  # so every request comes to queue()
        self.clock = clock
        self.switches = 0
        self.current: Task | None = None
        self.sibling: FairCore | None = None
        self._os = os
        self._mates = mates
        """All cores of the node, this one included."""
        self._tasks: dict[CoreThread, Task] = {}
        self._waiting: list[Task] = []
        self._last: Task | None = None
        self._least_ps = 0
        """No thread of this core has run less: CFS' min_vruntime."""
        self._slow = 100
        self._busy_ps = 0
        self._idle_ps = 0
        self._idle_from_ps = 0
        self._since_ps = 0
        """Until when the running thread's time has been counted."""
        self._stint_ps = 0
        """When the running thread got the core."""
        self._before_ps = 0
        """Time of the kernel before the running thread goes on: a context switch, interrupts."""
        self._irq_ps = 0
        """The instant at which the last interrupt is done."""
        self._turn = 0
        """The number of the current plan: events of earlier ones are ignored."""
        self._inside = False
        """The running thread's code is being executed this instant."""
        mates.append(self)
        for at_ps, for_ps in outages:
            clock.call_at(at_ps, self.interrupt, clock, for_ps)

    # requests of threads ----------------------------------------------------------------------------------
    @override
    def admit(self, thread: CoreThread, pinned: bool) -> None:
        """A new thread of this core; one that is not pinned may move to others.

        The core is never undivided: a slice may end between any two pieces of work.
        """
        self.threads += 1
        self._tasks[thread] = Task(thread, len(self._tasks), pinned, self._least_ps)

    @override
    def queue(self, process: simpy.Process, cost_ps: int, thread: CoreThread) -> None:
        """Queue work of ``process``, which is resumed when it is done."""
        self._demand(thread, process, WORK, cost_ps)

    @override
    def enter(self, clock: Clock, process: simpy.Process, thread: CoreThread) -> bool:
        """Whether an instruction that looks first may do so now; else ``process`` is resumed when it may."""
        if self.current is not None and self.current.thread is thread and self._inside:
            return True
        self._demand(thread, process, ENTER, 0)
        return False

    @override
    def spin(self, thread: CoreThread, process: simpy.Process) -> None:
        """``process`` looks at memory in a loop from now until its next work."""
        self._demand(thread, process, SPIN, 0)

    def _demand(self, thread: CoreThread, process: simpy.Process, kind: int, left_ps: int) -> None:
        task = self._tasks[thread]
        if self.current is task:
            if not self._inside:  # it has spun until now
                self._settle()
            task.process, task.kind, task.left_ps = process, kind, left_ps
            if not self._inside:
                self._plan()
            return
        task.process, task.kind, task.left_ps = process, kind, left_ps
        if not task.queued:
            core = self if task.pinned else self._choice()
            if core is not self:
                self._move(task, core)
            core._enqueue(task)

    # the run queue ----------------------------------------------------------------------------------------
    def _enqueue(self, task: Task) -> None:
        """A thread has become runnable."""
        task.vruntime_ps = max(task.vruntime_ps, self._least_ps - self._os.sched_latency_ps // 2)
        task.queued = True
        self._waiting.append(task)
        if self.current is None:
            self._next()
        elif not self._inside:
            self._settle()
            if self.current.vruntime_ps - task.vruntime_ps > self._os.wakeup_granularity_ps:
                self._preempt()
            else:
                self._plan()

    def _next(self) -> None:
        """The core is free: the thread that has run least gets it."""
        now_ps = self.clock.now_ps
        self._waiting = [task for task in self._waiting if task.alive]
        task = min(self._waiting, key=lambda task: (task.vruntime_ps, task.number), default=None) or self._pull()
        was, self.current = self.current, task
        if task is None:
            self._turn += 1
            if was is not None:
                self._idle_from_ps = now_ps
                self._notify_sibling()
            return
        self._waiting.remove(task)
        task.queued = False
        kernel_ps = max(0, task.delayed_ps - now_ps)
        if was is None:
            if now_ps < self._idle_from_ps:  # an interrupt that came to the idle core is not done yet
                self._busy_ps -= self._idle_from_ps - now_ps
                self.kernel_ps -= self._idle_from_ps - now_ps
                kernel_ps += self._idle_from_ps - now_ps
            else:
                self._idle_ps += now_ps - self._idle_from_ps
        if task is not self._last or (was is None and now_ps > self._idle_from_ps):
            kernel_ps += self._os.switch_ps
            self.switches += 1
        self._before_ps += kernel_ps
        self._last = task
        self._since_ps = self._stint_ps = now_ps
        if was is None:
            self._notify_sibling()
        self._plan()

    def _preempt(self) -> None:
        """The running thread goes back to the queue; it may also be the one that comes next."""
        task = self.current
        assert task is not None
        if task.alive:
            task.queued = True
            self._waiting.append(task)
        self._next()

    def _slice_ps(self) -> int:
        return max(self._os.sched_latency_ps // (len(self._waiting) + 1), self._os.min_granularity_ps)

    def _over(self) -> bool:
        """Whether a tick finds now that the running thread has had its slice."""
        now_ps = self.clock.now_ps
        return now_ps >= self._stint_ps + self._slice_ps() and not now_ps % self._os.tick_every_ps

    # time -----------------------------------------------------------------------------------------------------
    def _settle(self) -> None:
        """Add the time since the last count to the running thread and to the core's counters."""
        now_ps, task = self.clock.now_ps, self.current
        elapsed_ps = now_ps - self._since_ps
        if task is None or not elapsed_ps:
            return
        self._since_ps = now_ps
        self._busy_ps += elapsed_ps
        task.vruntime_ps += elapsed_ps
        least_ps = min((waiting.vruntime_ps for waiting in self._waiting), default=task.vruntime_ps)
        self._least_ps = max(self._least_ps, min(least_ps, task.vruntime_ps))
        kernel_ps = min(self._before_ps, elapsed_ps)
        self._before_ps -= kernel_ps
        self.kernel_ps += kernel_ps
        elapsed_ps -= kernel_ps
        if task.kind == WORK:
            done_ps = min(task.left_ps, elapsed_ps * 100 // self._slow)
            task.left_ps -= done_ps
            task.thread.account.smt_ps += elapsed_ps - done_ps
        elif task.kind == SPIN:
            task.thread.account.polling_ps += elapsed_ps

    def _plan(self) -> None:
        """The next instant at which something is to be decided here."""
        self._turn += 1
        task, now_ps = self.current, self.clock.now_ps
        assert task is not None
        until_ps: int | None = None
        if task.kind != SPIN:
            until_ps = now_ps + self._before_ps - -task.left_ps * self._slow // 100
        if self._waiting:
            tick_ps = self._os.tick_every_ps
            end_ps = max(-(-(self._stint_ps + self._slice_ps()) // tick_ps), now_ps // tick_ps + 1) * tick_ps
            until_ps = end_ps if until_ps is None else min(until_ps, end_ps)
        if until_ps is not None:
            self.clock.thread_call(until_ps, self.agent, self._due, self._turn)

    def _due(self, turn: int) -> None:
        if turn != self._turn:
            return
        self._settle()
        task = self.current
        assert task is not None
        if task.kind != SPIN and not self._before_ps and not task.left_ps:
            task.kind = 0
            self._inside = True
            self.clock.go_on(task.process)  # type: ignore[arg-type]
            self._inside = False
        if not task.kind or not task.alive:
            task.kind = 0
            self._next()
        elif self._waiting and self._over():
            self._preempt()
        else:
            self._plan()

    # interrupts, siblings ----------------------------------------------------------------------------------------
    @override
    def interrupt(
        self, clock: Clock, cost_ps: int, then: Callable[[Any], None] | None = None, argument: Any = None
    ) -> None:
        """A device interrupts the core now for ``cost_ps``, even amid work; then ``then(argument)`` is called."""
        now_ps = clock.now_ps
        self.interrupts += 1
        self._irq_ps = max(now_ps, self._irq_ps) + cost_ps
        if self.current is not None:
            self._settle()
            self._before_ps += cost_ps
            if not self._inside:
                self._plan()
        else:
            self._idle_ps += max(0, now_ps - self._idle_from_ps)
            self._idle_from_ps = max(now_ps, self._idle_from_ps) + cost_ps
            self._busy_ps += cost_ps
            self.kernel_ps += cost_ps
        if then is not None:
            clock.thread_call(self._irq_ps, self.agent, then, argument)

    @override
    def may_pause(self, now_ps: int, exposes: bool = False) -> None:
        """A store, a fence or a doorbell is done: a place at which it matters to others if the core pauses."""
        for_ps = self.pauses.draw(self.name, now_ps, exposes) if self.pauses is not None else 0
        if for_ps:
            self.interrupt(self.clock, for_ps)

    def _notify_sibling(self) -> None:
        """This half of the core has begun or ceased to be busy."""
        sibling = self.sibling
        if sibling is not None:
            sibling._settle()
            sibling._slow = 100 if self.current is None else self._os.smt_slowdown_percent
            if sibling.current is not None and not sibling._inside:
                sibling._plan()

    @override
    def busy_ps(self, now_ps: int) -> int:
        """How long the core has worked until now, polling in vain included."""
        if self.current is not None:
            return self._busy_ps + now_ps - self._since_ps
        return self._busy_ps - max(0, self._idle_from_ps - now_ps)

    def idle_ps(self, now_ps: int) -> int:
        """How long the core was idle until now; with :meth:`busy_ps` that is all time since zero."""
        return self._idle_ps + (0 if self.current is not None else max(0, now_ps - self._idle_from_ps))

    # threads that move -----------------------------------------------------------------------------------------------
    def _choice(self) -> FairCore:
        """Where a thread that is not pinned wakes up: here if this core is idle, on another that is, or in the
        shortest queue."""
        idle = [core for core in self._mates if core.current is None and not core._waiting]
        if self in idle:
            return self
        whole = [core for core in idle if core.sibling is None or core.sibling.current is None]
        if whole or idle:
            return (whole or idle)[0]
        return min(self._mates, key=lambda core: (len(core._waiting), core is not self))

    def _pull(self) -> Task | None:
        """A waiting thread that is not pinned, from the longest queue; None if there is none."""
        longest = max(self._mates, key=lambda core: sum(not task.pinned and task.alive for task in core._waiting))
        free = [task for task in longest._waiting if not task.pinned and task.alive]
        if not free:
            return None
        task = min(free, key=lambda task: (task.vruntime_ps, task.number))
        longest._waiting.remove(task)
        longest._move(task, self)
        self._waiting.append(task)
        return task

    def _move(self, task: Task, to: FairCore) -> None:
        del self._tasks[task.thread]
        task.number = len(to._tasks)
        to._tasks[task.thread] = task
        task.vruntime_ps += to._least_ps - self._least_ps
        task.delayed_ps = task.thread.leave(to)

    @override
    def reap(self) -> None:
        """Threads have ended: take them off the core and its queue."""
        self._waiting = [task for task in self._waiting if task.alive]
        if self.current is not None and not self._inside and not self.current.alive:
            self._settle()
            self.current.kind = 0
            self._next()
