"""Software on its core and its operating system: work, spin, sleep, wake others, call the kernel."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import simpy

from ...sim.clock import HOLD, Clock
from ...sim.errors import InputError, Mistake, nearest
from ...sim.units import parse_duration_ps
from ..profiles.parameters.cpu import CpuParameters
from ..verbs.span import Span
from .accounting import Account
from .core import Core

Code = Generator[Any, Any, Any]


class Signal:
    """A word in a node's memory by which one thread notifies others of work; a waiter spins on it, or sleeps.

    It stays raised until a waiter takes it; raising it twice is the same as once.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._raised = False
        self._waiting: deque[simpy.Event] = deque()

    def set(self) -> None:
        """Raise it: the first waiter goes on."""
        self._raised = True
        if self._waiting:
            self._waiting.popleft().succeed()

    def take(self) -> bool:
        """Lower the signal; returns whether it was raised."""
        raised, self._raised = self._raised, False
        return raised

    def changed(self) -> simpy.Event:
        """An event for the next :meth:`set`."""
        event = simpy.Event(self._clock)
        self._waiting.append(event)
        return event

    def forget(self, event: simpy.Event) -> None:
        """The owner of this event does not wait any more."""
        if event in self._waiting:
            self._waiting.remove(event)


class Deadline:
    """An instant that code compares its clock with."""

    def __init__(self, clock: Clock, at_ps: int) -> None:
        self._clock = clock
        self.at_ps = at_ps

    @property
    def passed(self) -> bool:
        """Whether the deadline is now or in the past."""
        return self._clock.now_ps > self.at_ps


class SoftwareThread:
    """A thread as its operating system knows it; ``instructions.py`` and ``thread.py`` have the instructions."""

    def __init__(self, clock: Clock, cpu: CpuParameters, core: Core, name: str, pinned: bool = True) -> None:
        self.clock = clock
        self.name = name
        self.core = core
        """The thread's core; a thread that is not pinned may be elsewhere after any instruction."""
        self.span: Span | None = None
        """The span of the thread's present work; a request that it receives brings its own along."""
        self.account = Account()
        self.injected_ps = 0
        """The part of the time of :meth:`compute` that a workload has put there."""
        self._cpu = cpu
        core.admit(self, pinned)

    if TYPE_CHECKING:

        @property
        def now_ps(self) -> int:
            """The present instant of the clock."""
    else:
        now_ps = property(attrgetter("clock._now"), doc="The present instant.")

    def present_work(self) -> Any:
        """What another thread is given (:meth:`take_up`) that goes on with this one's work."""
        return self.span

    def take_up(self, work: Any) -> None:
        """Go on with the work that another thread was busy with."""
        self.span = work

    # its core -----------------------------------------------------------------------------------------------
    def _turn(self) -> Code:
        """Until the core comes to an instruction that has to look at caches or queues to know its cost."""
        core = self.core
        if not core.undivided and not core.enter(self.clock, self.clock.running, self):
            yield HOLD

    def compute(self, *, injected: bool = True) -> Code:
        """A server's work for a request besides touching its data: parse, dispatch, look up.

        ``injected``: and what a workload has a server do beside.
        """
        return self.work(self._cpu.request_ps - (0 if injected else self.injected_ps))

    def software(self, name: str, times: int = 1) -> Code:
        """Software that only a set-up's own numbers describe, by its name under ``cpu.software`` of the platform.

        It runs so many ``times``, one after the other.
        Raises InputError for a name that the platform does not have.
        """
        costs = self._cpu.software
        if name not in costs:
            expected = f"one of {', '.join(costs)}" if costs else "a platform that has named costs"
            found = f"no cost of the software '{name}'"
            raise InputError(Mistake(found, expected, field="platform: cpu.software", nearest=nearest(name, costs)))
        return self.work(costs[name].time_ps * times)

    def work(self, cost_ps: int) -> Code:
        """Software that takes ``cost_ps`` of a core of its own."""
        self.account.software_ps += cost_ps
        yield self.core.run(self, cost_ps)

    def work_for(self, duration: str) -> Code:
        """Software that takes a time of a core which a scheme's option names: ``75 us``. Raises ValueError for none."""
        return self.work(parse_duration_ps(duration))

    def burn(self) -> Code:
        """A program that computes for ever. Raises ValueError on a core that has no time slices."""
        if not self.core.fair:
            raise ValueError(f"{self.core.name} has no time slices: nobody else would ever run")
        self.core.spin(self, self.clock.running)
        yield HOLD

    # the kernel ---------------------------------------------------------------------------------------------
    def kernel(self, cost_ps: int) -> Code:
        """Work in the kernel on the thread's behalf: a system call."""
        self.account.kernel_ps += cost_ps
        yield self.core.run(self, cost_ps)

    def syscall(self) -> Code:
        """A system call, without what is done in it."""
        return self.kernel(self._cpu.os.syscall_ps)

    def check_permission(self) -> Code:
        """In the kernel: look up what a call names, and whether its caller may use it."""
        return self.kernel(self._cpu.os.permission_check_ps)

    def block(self, signal: Signal, calls: int = 1) -> Code:
        """Sleep until the signal is raised, and take it: ``futex(FUTEX_WAIT)``, or a read of its file.

        Costs ``calls`` system calls, the way from the waking to the core, and the context switch there.
        """
        system = self._cpu.os
        yield from self.kernel(calls * system.syscall_ps)
        if signal.take():
            return
        since_ps = self.now_ps
        while True:
            yield signal.changed()
            if signal.take():
                break
        yield from self._woken(since_ps)

    def _woken(self, since_ps: int) -> Code:
        """Back from a sleep that began at ``since_ps``."""
        system, account = self._cpu.os, self.account
        yield self.clock.timeout(system.wake_ps)
        account.sleeps += 1
        account.asleep_ps += self.now_ps - since_ps
        yield from self.kernel(0 if self.core.fair else system.switch_ps)  # a fair core makes the switch itself

    def sleep_until(self, deadline: Deadline) -> Code:
        """``nanosleep`` until a deadline; nothing once it has passed."""
        if deadline.at_ps > self.now_ps:
            yield from self.sleep(deadline.at_ps - self.now_ps)

    def sleep_again(self, since: Deadline) -> Code:
        """``nanosleep`` for as long as an instant lies back: a loop that does so waits twice as long each time."""
        yield from self.sleep(max(0, self.now_ps - since.at_ps))

    def sleep(self, duration_ps: int) -> Code:
        """``nanosleep``: a timer's interrupt ends it."""
        system = self._cpu.os
        yield from self.kernel(system.syscall_ps)
        since_ps = self.now_ps
        yield self.clock.timeout(duration_ps)
        awake = Signal(self.clock)
        self.core.interrupt(self.clock, system.interrupt_ps, _raise, awake)
        yield awake.changed()
        yield from self._woken(since_ps)

    def wake(self, signal: Signal) -> Code:
        """Raise a signal that a thread may sleep for: ``futex(FUTEX_WAKE)``."""
        yield from self.kernel(self._cpu.os.syscall_ps)
        signal.set()

    def leave(self, to: Core) -> int:
        """The scheduler moves it to another core; returns when it may go on there."""
        self.core = to
        return self.now_ps

    # other threads, and time ----------------------------------------------------------------------------------
    def notify(self, signal: Signal) -> Code:
        """Store to the word that another thread spins on."""
        self.account.memory_ps += self._cpu.store_ps
        yield self.core.run(self, self._cpu.store_ps)
        signal.set()

    def wait(self, signal: Signal, spin_ps: int | None = None) -> Code:
        """Spin until the signal is raised, and take it: no event while it is not, one turn of the loop once it is.

        With ``spin_ps`` the thread spins that long and then sleeps; the signal has to be raised by :meth:`wake`.
        """
        since_ps, given_up = self.now_ps, None
        while not signal.take():
            if spin_ps is not None and self.now_ps >= since_ps + spin_ps:
                self._polled(since_ps)
                yield from self.block(signal)
                return
            self.core.spin(self, self.clock.running)
            changed = signal.changed()
            if spin_ps is None:
                yield changed
            else:
                given_up = given_up or self.clock.until(since_ps + spin_ps)
                yield changed | given_up
                signal.forget(changed)
        self._polled(since_ps)
        self.account.memory_ps += self._cpu.spin_loop_ps
        yield self.core.run(self, self._cpu.spin_loop_ps)

    def wait_until(self, signal: Signal, deadline: Deadline) -> Code:
        """Spin as :meth:`wait`, at most until a deadline; returns whether the signal was raised."""
        since_ps, given_up = self.now_ps, self.clock.until(deadline.at_ps)
        while not (raised := signal.take()) and self.now_ps < deadline.at_ps:
            self.core.spin(self, self.clock.running)
            changed = signal.changed()
            yield changed | given_up
            signal.forget(changed)
        self._polled(since_ps)
        self.account.memory_ps += self._cpu.spin_loop_ps
        yield self.core.run(self, self._cpu.spin_loop_ps)
        return raised

    def _polled(self, since_ps: int) -> None:
        """Count polling in vain since ``since_ps`` (a fair core counts it itself: the thread may have been off it)."""
        if not self.core.fair:
            self.account.polling_ps += self.now_ps - since_ps

    def count(self, name: str, number: int = 1) -> None:
        """Count ``number`` more of what is called ``name`` (hops, retries, misses) for the operation under way.

        It costs no time, and is kept where the run has a meter (``models.meter``).
        """

    def deadline(self, duration: str) -> Deadline:
        """The instant that lies ``duration`` (``"10 s"``) ahead: the time stamp counter read, and added to."""
        return Deadline(self.clock, self.now_ps + parse_duration_ps(duration))


def _raise(signal: Signal) -> None:
    signal.set()
