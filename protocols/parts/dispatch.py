"""Jobs handed to workers: those of one name one after the other, in the order in which they came, others in parallel.

Volatile, like all that a process keeps to itself. Handing a job over is a store that an idle worker spins on; a worker
that has finished looks for the next job before it idles.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Hashable
from functools import partial
from typing import Any

from ...models.cpu import Signal, Thread
from ...sim.clock import Clock

Code = Generator[Any, Any, Any]
Job = Callable[[Thread], Code]
"""What a worker does, given its thread."""


class Dispatcher:
    """The jobs of any number of workers, each of which runs :meth:`work`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ready: deque[tuple[Hashable, Job]] = deque()
        self._behind: dict[Hashable, deque[Job]] = {}
        """By the name of a job that is ready or at work: those that have to wait for it."""
        self._idle: deque[Signal] = deque()

    def hand_over(self, thread: Thread, name: Hashable, job: Job) -> Code:
        """``job`` is to run behind all of its ``name`` that have been handed over before."""
        job = partial(_go_on, thread.present_work(), job)
        if name in self._behind:
            self._behind[name].append(job)
            return
        self._behind[name] = deque()
        self._ready.append((name, job))
        yield from thread.notify(self._idle.popleft() if self._idle else Signal(self._clock))

    def work(self, thread: Thread) -> Code:
        """A worker, for ever."""
        mine = Signal(self._clock)
        while True:
            while not self._ready:
                self._idle.append(mine)
                yield from thread.wait(mine)
            name, job = self._ready.popleft()
            yield from job(thread)
            behind = self._behind[name]
            if behind:
                self._ready.append((name, behind.popleft()))
            else:
                del self._behind[name]


def _go_on(work: Any, job: Job, thread: Thread) -> Code:
    """A worker goes on with what the thread was busy with that handed the job over."""
    thread.take_up(work)
    return job(thread)
