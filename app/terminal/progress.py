"""The progress bar of every command: on standard error where that is a terminal; gone when the work is done."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tqdm import tqdm

from .text import WIDTH


class Progress:
    """A bar that is being shown."""

    def __init__(self, bar: tqdm[Any], description: str) -> None:
        self._bar = bar
        self._description = description

    def step(self, share: float = 1) -> None:
        """One unit of work is done, or a share of one."""
        self._bar.update(share)

    def reach(self, done: float, total: float | None = None) -> None:
        """``done`` units of work are done since the beginning; ``total`` replaces the number of units, if given."""
        if total is not None:
            self._bar.total = total
        self._bar.update(done - self._bar.n)

    def say(self, what: str) -> None:
        """Show what is being done."""
        self._bar.set_description(f"{self._description}: {what}")


@contextmanager
def progress(description: str, total: float | None = None) -> Iterator[Progress]:
    """Show a bar for ``total`` units of work; without a total, the description alone."""
    form = "{desc}" if total is None else "{desc} {percentage:3.0f}%|{bar}| {elapsed}"
    with tqdm(
        total=total, desc=description, leave=False, file=sys.stderr, disable=None, ncols=WIDTH, bar_format=form
    ) as bar:
        yield Progress(bar, description)
