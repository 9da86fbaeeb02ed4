"""Progress bars, on standard error where that is a terminal; jobs that are performed under one."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from tqdm import tqdm
from typing_extensions import override

from ...sim.jobs.runner import JobRunner, Workers
from .text import WIDTH

_Job = TypeVar("_Job")
_Answer = TypeVar("_Answer")


class _Bar(tqdm):  # type: ignore[type-arg]
    """A bar that ends at its total: shares of floats may add up to a little more, and tqdm then warns in its middle."""

    @override
    def update(self, n: float | None = 1) -> bool | None:
        room = n if n is None or self.total is None else min(n, self.total - self.n)
        return super().update(room)


def bar(description: str, total: float | None = None, *, done: float | None = None) -> tqdm[Any]:
    """A progress bar, a context; it goes when its context ends. ``total`` None: only words are shown.

    ``done`` is how much was there before it began: then it says how long the rest takes, by the mean speed since.
    """
    form = "{desc}" if total is None else "{desc} {percentage:3.0f}%|{bar}| {elapsed}"
    if done is not None:
        form += ", left {remaining}"
    return _Bar(
        total=total,
        desc=description,
        initial=done or 0,
        smoothing=0.3 if done is None else 0,
        leave=False,
        file=sys.stderr,
        disable=None,
        ncols=WIDTH,
        bar_format=form,
    )


def performed(
    description: str, function: Callable[[_Job], _Answer], jobs: Sequence[_Job], workers: int | Workers
) -> list[_Answer]:
    """The answers in the order of the jobs, which so many processes share, under a bar that knows what jobs report."""
    return list(performing(description, function, jobs, workers))


def performing(
    description: str, function: Callable[[_Job], _Answer], jobs: Sequence[_Job], workers: int | Workers
) -> Iterator[_Answer]:
    """The same answers, each as soon as it and those before it are there."""
    shares = [0.0] * len(jobs)
    with bar(description, len(jobs), done=0.0) as shown, JobRunner(workers) as runner:

        def advance(number: int, share: float) -> None:
            if share > shares[number]:
                shown.update(share - shares[number])
                shares[number] = share
                if share >= 1 and len(jobs) > 1:
                    ended = sum(one >= 1 for one in shares)
                    shown.set_description_str(f"{description}, {ended} of {len(jobs)}")

        yield from runner.in_order(function, jobs, advance)
