"""The clock: an integer number of picoseconds on a SimPy environment.

No float ever enters the event queue, so two runs with one seed agree to the picosecond on every machine.

Ties have one rule, and the order of calls is not it. At one instant

- hardware events come first, in the order of their keys (:meth:`Clock.hardware`; ``models.nic.port`` says which keys);
- then events without one (timers, what processes do to each other), in the order in which they were scheduled;
- then threads go on, in the order of their cores (:meth:`Clock.resume`);
- bytes that become visible at an instant (``sim.bytespace``) are there before anything that reads at that instant.
"""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable, Generator
from heapq import heapify, heappop, heappush
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import simpy
from simpy.core import EmptySchedule, StopSimulation
from simpy.events import NORMAL, URGENT
from typing_extensions import override

HARDWARE = URGENT
"""Priority of hardware events; keys (from 2 to the power of 40 on) put them behind what stops a run at an instant."""
THREADS = NORMAL + 1
"""Priority of the thread of agent 0; those of others follow."""


class _Call:
    """The part of an event that the environment's step needs: a call costs half of a ``simpy.Event``."""

    __slots__ = ("_arguments", "_function", "_ok", "callbacks")

    def __init__(self, function: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        self._function = function
        self._arguments = arguments
        self._ok = True
        self.callbacks: tuple[Callable[[_Call], None], ...] | None = (_Call._run,)

    def _run(self) -> None:
        self._function(*self._arguments)


class _Nobody:
    """Callbacks of :data:`HOLD`: a process that yields it has arranged its own resumption."""

    def append(self, callback: object) -> None:
        """Leave the callback out: the event calls none."""

    def remove(self, callback: object) -> None:
        """Do nothing: the callback was left out."""


class Hold:
    """The event that a process yields after it has arranged its resumption with :meth:`Clock.resume`."""

    callbacks = _Nobody()


HOLD = Hold()


class _Ended:
    """The code of a process that has been ended: the event that it waited for resumes nothing."""

    def send(self, _: object) -> Hold:
        """Do nothing when the event is processed."""
        return HOLD

    throw = send


_ENDED = _Ended()


class Clock(simpy.Environment):
    """A SimPy environment whose time is picoseconds.

    Beside SimPy's events its queue holds light ones, (instant, priority, order, function, argument): a call of
    ``function(argument)`` for about a third of a time-out's price.
    """

    _now: int  # only integers are ever added to the initial 0

    def __init__(self) -> None:
        super().__init__(initial_time=0)
        self.quiet_ps = 0
        """When the work under way that has no event, because it wakes no process, is over: a run does not end before.
        """

    if TYPE_CHECKING:

        @property
        def now_ps(self) -> int:
            """The present instant, in picoseconds."""

        @property
        def running(self) -> simpy.Process:
            """The process that runs now."""
    else:  # cost no Python call
        now_ps = property(attrgetter("_now"), doc="The present instant.")
        running = property(attrgetter("_active_proc"), doc="The process that runs now.")

    def until(self, when_ps: int) -> simpy.Event:
        """An event at ``when_ps``; an instant that has passed counts as now."""
        return self.timeout(max(0, when_ps - self.now_ps))

    def call_at(self, when_ps: int, function: Callable[..., None], *arguments: Any) -> None:
        """Call ``function(*arguments)`` at ``when_ps`` (not before now): an event that no process waits for."""
        if when_ps < self._now:
            raise ValueError(f"{when_ps} ps has passed: it is {self._now} ps")
        entry = (when_ps, NORMAL, next(self._eid), _Call(function, arguments))
        heappush(self._queue, entry)  # type: ignore[misc]  # not a simpy.Event, but as good as one

    def hardware(self, when_ps: int, key: int, function: Callable[[Any], None], argument: Any) -> None:
        """Call ``function(argument)`` at ``when_ps``, ordered by ``key`` among the hardware events of that instant.

        Two events of one instant must not have one key. Hot code pushes the same entry itself.
        """
        if when_ps < self._now:
            raise ValueError(f"{when_ps} ps has passed: it is {self._now} ps")
        heappush(self._queue, (when_ps, HARDWARE, key, function, argument))  # type: ignore[misc]

    def resume(self, when_ps: int, agent: int, process: simpy.Process | None = None) -> None:
        """Let ``process``, which yields :data:`HOLD`, go on at ``when_ps``; agents go on in order.

        Without a process it is the one that runs now.
        """
        entry = (when_ps, THREADS + agent, next(self._eid), proceed, process or self._active_proc)
        heappush(self._queue, entry)  # type: ignore[misc]

    def thread_call(self, when_ps: int, agent: int, function: Callable[[Any], None], argument: Any) -> None:
        """Call ``function(argument)`` at ``when_ps`` where :meth:`resume` would let a thread go on."""
        heappush(self._queue, (when_ps, THREADS + agent, next(self._eid), function, argument))  # type: ignore[misc]

    def go_on(self, process: simpy.Process) -> None:
        """Let a process that yields :data:`HOLD` go on now, unless it has come to its end."""
        if process.is_alive:
            proceed(process)

    def pending(self) -> list[tuple[int, int, Any]]:
        """The hardware events that are due, in no order: instant, key, and the argument of the call."""
        light = [entry for entry in self._queue if len(entry) == 5]
        return [(entry[0], entry[2], entry[4]) for entry in light if entry[1] == HARDWARE]  # type: ignore[misc]

    @property
    def is_idle(self) -> bool:
        """Whether nothing is left to happen, but for who asks."""
        return not self._queue

    def start(self, code: Generator[Any, Any, Any]) -> simpy.Process:
        """Run ``code`` as a process from now on."""
        return self.process(code)

    def turn(self) -> int:
        """A place between what has been scheduled so far and what will be, for :meth:`start_in`."""
        return next(self._eid)

    def start_in(self, turn: int, code: Generator[Any, Any, Any]) -> simpy.Process:
        """Run ``code`` as a process from now on, as if it had been started when this turn was taken, just now."""
        process, queue = self.process(code), self._queue
        place = [entry[3] for entry in queue].index(process._target)
        queue[place] = (self._now, URGENT, turn, process._target)
        heapify(queue)
        return process

    def end(self, process: simpy.Process) -> None:
        """Let a process that is alive, and not running, execute nothing any more; it counts as done."""
        process._generator.close()
        process._generator = _ENDED  # type: ignore[assignment]
        process.succeed()

    @override
    def step(self) -> None:
        """Process the next event; the reference for :meth:`run_until`'s loop."""
        if not self._queue:
            raise EmptySchedule
        entry: Any = heappop(self._queue)
        self._now = entry[0]
        if len(entry) == 5:
            entry[3](entry[4])
            return
        event = entry[3]
        callbacks, event.callbacks = event.callbacks, None
        for callback in callbacks:
            callback(event)
        if not event._ok and not hasattr(event, "_defused"):
            raise _copied(event._value)

    def run_until(self, event: simpy.Event | int | None = None) -> Any:
        """Run until ``event`` has happened (or that instant, or until nothing is left); returns the event's value.

        Python's cyclic garbage collector is off meanwhile: it costs up to half of a run.
        """
        collecting = gc.isenabled()
        gc.disable()
        try:
            return self._run(event)
        except RuntimeError as error:
            self._show_line(error)
            raise
        finally:
            if collecting:
                gc.enable()

    def run_through(self, process: simpy.Process, events: int | None = None) -> Any:
        """Run until ``process`` has returned, and no further: what else is due at that instant is left alone.

        Returns its value; None if it has not returned after so many ``events``. Raises what it fails with, what others
        fail with before, and RuntimeError when nothing is left to happen.
        """
        collecting = gc.isenabled()
        gc.disable()
        try:
            queue: list[Any] = self._queue
            while process.is_alive:
                if not queue:
                    raise RuntimeError(f"nothing is left to happen, and this has not: {process}")
                if events is not None:
                    if not events:
                        return None
                    events -= 1
                self.step()
        except RuntimeError as error:
            self._show_line(error)
            raise
        finally:
            if collecting:
                gc.enable()
        if not process.ok:
            assert isinstance(process.value, BaseException)
            raise _copied(process.value)
        return process.value

    def _show_line(self, error: RuntimeError) -> None:
        """Raise SimPy's error for what is no event once more in the code that yielded it, whose line is in no frame."""
        _, invalid, yielded = str(error).partition("Invalid yield value ")
        if invalid and (process := self._active_proc) is not None:
            process._generator.throw(RuntimeError(f"{process.name} yields {yielded}: an event, or HOLD"))

    def _run(self, until: simpy.Event | int | None) -> Any:
        if isinstance(until, int):
            if until <= self._now:
                raise ValueError(f"{until} ps is not after now, {self._now} ps")
            end = simpy.Event(self)
            end._ok, end._value = True, None
            self.schedule(end, URGENT, until - self._now)
            until = end
        if until is not None:
            if until.processed:
                return until.value
            until.callbacks.append(StopSimulation.callback)
        queue: list[Any] = self._queue
        pop = heappop
        try:
            while queue:
                entry = pop(queue)
                if len(entry) == 5:
                    self._now, _, _, function, argument = entry
                    function(argument)
                    continue
                self._now, _, _, event = entry
                callbacks, event.callbacks = event.callbacks, None
                for callback in callbacks:
                    callback(event)
                if not event._ok and not hasattr(event, "_defused"):
                    raise _copied(event._value)
        except StopSimulation as stop:
            return stop.args[0]
        self._now = max(self._now, self.quiet_ps)
        if until is not None:
            raise RuntimeError(f"nothing is left to happen, and this has not: {until}")
        return None


def proceed(process: simpy.Process) -> None:
    """Let a process that yields :data:`HOLD` go on: ``simpy.Process._resume``, shorter where it yields that again."""
    clock = process.env
    clock._active_proc = process
    generator: Generator[Any, Any, Any] = process._generator
    event: Any = None
    try:
        event = generator.send(None)
    except StopIteration as end:
        process._ok, process._value = True, end.value
        clock.schedule(process)
    except BaseException as error:
        assert error.__traceback__ is not None
        process._ok, process._value = False, error.with_traceback(error.__traceback__.tb_next)
        clock.schedule(process)
    else:
        if event is not HOLD:
            if not isinstance(event, simpy.Event):
                generator.throw(RuntimeError(f"{process.name} yields {event!r}: an event, or HOLD"))  # names the line
            callbacks: list[Any] | None = event.callbacks
            if callbacks is None:  # it has happened already
                process._resume(event)
                return
            callbacks.append(process._resume)
    process._target = event
    clock._active_proc = None


def _copied(error: BaseException) -> BaseException:
    """An undefused failure, as SimPy raises it: a copy with the original as its cause."""
    again = copy.copy(error)
    again.__cause__ = error
    return again
