"""Runs jobs in this process, in several, or in any executor of ``concurrent.futures``.

Processes are spawned, and end with the process that started them, even after its Ctrl-C, SIGTERM or ``kill -9``.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from multiprocessing.queues import SimpleQueue
from types import TracebackType
from typing import ParamSpec, Self, TypeVar

from typing_extensions import override

_Job = TypeVar("_Job")
_Answer = TypeVar("_Answer")
_Parameters = ParamSpec("_Parameters")

Progress = Callable[[int, float], None]
"""Called with the number of a job and how much of that job is done, 0 to 1."""

LOOKED_S = 0.2
"""Seconds between two looks at the reports of other processes, for a progress bar."""
FORGOTTEN_S = 1.0
"""Seconds that the executor has to forget jobs that were given up, before its workers are ended."""
REPORTED_S = 0.1
"""Seconds between two reports of a job in another process, at the least."""


def report(share: float) -> None:
    """Report how much of the running job is done, 0 to 1; without a listener nothing happens."""
    if (listener := _listener.get()) is not None:
        listener(share)


_listener: ContextVar[Callable[[float], None] | None] = ContextVar("listener", default=None)


class Processes(ProcessPoolExecutor):
    """Spawned processes; a context that, when it ends, stops them and gives up the jobs that are not done."""

    def __init__(self, workers: int) -> None:
        context = multiprocessing.get_context("spawn")
        self.reports: SimpleQueue[tuple[int, float]] = context.SimpleQueue()
        """Number and share of jobs that report."""
        super().__init__(workers, context, initializer=_begin, initargs=(self.reports,))

    @override
    def submit(
        self, fn: Callable[_Parameters, _Answer], /, *args: _Parameters.args, **kwargs: _Parameters.kwargs
    ) -> Future[_Answer]:
        # Ctrl-C is for this process alone; a process that is started here inherits that. SIGTERM waits until that has
        # been told what to do, else it would end with a traceback.
        with _signals_blocked():
            return super().submit(fn, *args, **kwargs)

    @override
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        workers = list((self._processes or {}).values())  # nothing public stops a worker before Python 3.14
        self.shutdown(wait=False, cancel_futures=True)
        # The executor's thread tells all jobs that their workers have ended, and fails at one that was given up, unless
        # it has forgotten that by then (CPython's terminate_broken).
        until_s = time.monotonic() + FORGOTTEN_S
        while workers and self._cancel_pending_futures and time.monotonic() < until_s:
            time.sleep(0.001)
        for worker in workers:
            worker.terminate()
        for worker in workers:
            worker.join()
        self.reports.close()


@dataclass(frozen=True)
class Workers:
    """Where jobs run: in so many processes of this machine, or in an executor."""

    processes: int = 1
    """What a job may use for itself as well, if there are fewer jobs."""
    executor: Executor | None = None
    died: tuple[type[BaseException], ...] = (BrokenExecutor,)
    """The errors that say that workers are gone, or the scheduler: no job's own."""
    why: str = "workers die again and again (out of memory? then fewer at a time)"
    """What to say of it when it does not get better."""


class JobRunner:
    """Runs jobs; a context, at whose end its processes end.

    With one worker, or for one job, everything happens in this process; with more in ``Processes``, which are started
    when the first job needs them and serve all further calls. An ``executor`` (threads, a cluster's) takes their place:
    it stays open, and jobs in it report no shares.
    """

    def __init__(self, workers: int | Workers = 1, executor: Executor | None = None) -> None:
        chosen = Workers(workers, executor) if isinstance(workers, int) else workers
        self._workers, self._executor = chosen.processes, chosen.executor
        self._processes: Processes | None = None
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def completed(
        self, function: Callable[[_Job], _Answer], jobs: Sequence[_Job], progress: Progress | None = None
    ) -> Iterator[tuple[int, _Answer]]:
        """The number and the answer of each job, as they come; the first error that a job raises is raised."""
        if self._executor is None and (self._workers < 2 or len(jobs) < 2):
            for number, job in enumerate(jobs):
                answer = _heard(function, job, None if progress is None else partial(progress, number))
                if progress is not None:
                    progress(number, 1.0)
                yield number, answer
            return
        executor = self._started()
        ended: queue.SimpleQueue[Future[_Answer]] = queue.SimpleQueue()
        numbers: dict[Future[_Answer], int] = {}
        try:
            for number, job in enumerate(jobs):
                future = executor.submit(_perform, function, number, job, progress is not None)
                numbers[future] = number
                future.add_done_callback(ended.put)
            while numbers:
                future = self._next(ended, progress)
                number, answer = numbers.pop(future), future.result()
                if progress is not None:
                    progress(number, 1.0)
                yield number, answer
        finally:
            for future in numbers:
                future.cancel()

    def in_order(
        self, function: Callable[[_Job], _Answer], jobs: Sequence[_Job], progress: Progress | None = None
    ) -> Iterator[_Answer]:
        """The answers in the order of the jobs."""
        early: dict[int, _Answer] = {}
        turn = 0
        for number, answer in self.completed(function, jobs, progress):
            early[number] = answer
            while turn in early:
                yield early.pop(turn)
                turn += 1

    def _started(self) -> Executor:
        if self._executor is None:
            self._executor = self._processes = self._stack.enter_context(Processes(self._workers))
        return self._executor

    def _next(self, ended: queue.SimpleQueue[Future[_Answer]], progress: Progress | None) -> Future[_Answer]:
        """The next job to end; meanwhile reports are passed on."""
        while True:
            try:
                future = ended.get(timeout=None if progress is None else LOOKED_S)
            except queue.Empty:
                future = None
            reports = self._processes.reports if self._processes is not None else None
            while progress is not None and reports is not None and not reports.empty():
                progress(*reports.get())
            if future is not None:
                return future


# in a worker -----------------------------------------------------------------------------------------------------
_reports: SimpleQueue[tuple[int, float]] | None = None


def _begin(reports: SimpleQueue[tuple[int, float]]) -> None:
    global _reports  # noqa: PLW0603  # a worker's only way to keep what its initializer got
    _reports = reports
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGTERM})
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def _perform(function: Callable[[_Job], _Answer], number: int, job: _Job, reporting: bool) -> _Answer:
    last = 0.0

    def listener(share: float) -> None:
        nonlocal last
        now = time.monotonic()
        if _reports is not None and now - last > REPORTED_S:
            last = now
            _reports.put((number, share))

    return _heard(function, job, listener if reporting else None)


def _heard(function: Callable[[_Job], _Answer], job: _Job, listener: Callable[[float], None] | None) -> _Answer:
    before = _listener.set(listener)
    try:
        return function(job)
    finally:
        _listener.reset(before)


@contextmanager
def _signals_blocked() -> Iterator[None]:
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
