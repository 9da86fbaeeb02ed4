"""Figures beside their aims, and what the parts of ``rpsim bench`` share."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

from ...terminal.text import count, paragraph, plural


class Aimed(NamedTuple):
    """A figure that was measured, and what it should be."""

    name: str
    here: float
    aim: float
    less: bool = False
    """Whether the aim is a most; else it is a least."""

    @property
    def met(self) -> bool:
        return self.here <= self.aim if self.less else self.here >= self.aim

    @property
    def words(self) -> str:
        """The aim in words: ``at most 12``."""
        return f"at {'most' if self.less else 'least'} {figure(self.aim)}"

    def row(self) -> dict[str, Any]:
        """The figure as JSON data."""
        return {"name": self.name, "here": self.here, "at_most" if self.less else "at_least": self.aim, "met": self.met}


def document(found: Sequence[Aimed]) -> dict[str, Any]:
    """The fields of every part that has aims."""
    return {"aims": [one.row() for one in found], "missed": [one.name for one in found if not one.met]}


def closing(found: Sequence[Aimed]) -> list[str]:
    """Which aims are missed, as the last lines on the terminal."""
    missed = [one for one in found if not one.met]
    if not missed:
        return [f"all {plural(len(found), 'aim')} met"]
    each = "; ".join(f"{one.name} ({figure(one.here)}, {one.words})" for one in missed)
    return paragraph(f"MISSED: {len(missed)} of {plural(len(found), 'aim')}: {each}", 0, 2)


def status(found: Sequence[Aimed]) -> int:
    """The exit status: 1 where an aim is missed."""
    return int(not all(one.met for one in found))


@contextmanager
def progress(total: int) -> Iterator[Callable[[str], None]]:
    """A bar on standard error of so many steps; yields the function that is called with the name of each."""
    from ...terminal.progress import bar

    with bar("bench", total) as shown:

        def on_step(what: str) -> None:
            shown.set_description(what)
            shown.update()

        yield on_step


def effort(options: argparse.Namespace) -> float:
    """The share of the work to do."""
    return 0.1 if options.quick else 1.0


def figure(value: float) -> str:
    """A figure with as many digits as mean something."""
    return count(round(value)) if value >= 100 else f"{value:.2f}".rstrip("0").rstrip(".")
