"""What points came out as, kept in a file: a board that was stopped goes on from there, and nothing is run twice.

A point's name is a hash of all that it hangs on: platform, parameters, experiment, x, and the code of the models and
of the experiments. Whoever changes a model runs again.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .board import PointTask

HOME = Path(__file__).parents[3]
FOLDERS = ("sim", "models", "validation/published/experiments", "validation/rigs")
"""Where everything lies that a point hangs on."""


def name(task: PointTask) -> str:
    """The name of a point under the code as it is."""
    curve = task.curve
    what = [curve.platform, dict(curve.settings), curve.experiment, dict(curve.given), curve.unit, task.x, task.values]
    return hashlib.sha256((json.dumps(what, sort_keys=True) + fingerprint()).encode()).hexdigest()[:16]


@cache
def fingerprint() -> str:
    """A hash of that code, and of the profiles; published curves are none of it."""
    total = hashlib.sha256()
    for folder in FOLDERS:
        for path in sorted((HOME / folder).rglob("*")):
            if path.suffix in (".py", ".yaml"):
                total.update(path.read_bytes())
    return total.hexdigest()


class Kept:
    """A file of points; each is added as soon as it is known."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._known: dict[str, float] = {}
        self._before = ""
        """What the next line has in front of it: the end of one that somebody began."""
        if path is not None and path.exists():
            text = path.read_text(encoding="utf-8")
            self._before = "\n" if text and not text.endswith("\n") else ""
            for line in text.splitlines():
                try:
                    row = json.loads(line)
                    self._known[row["point"]] = float(row["value"])
                except (ValueError, KeyError, TypeError):  # the last one, of whoever was stopped while writing it
                    continue

    def of(self, todo: Sequence[PointTask]) -> dict[int, float]:
        """Those of these points that are known, by their place."""
        names = map(name, todo)
        return {index: self._known[one] for index, one in enumerate(names) if one in self._known}

    def add(self, task: PointTask, value: float) -> None:
        """A point came out."""
        key = name(task)
        self._known[key] = value
        if self._path is not None:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with self._path.open("a", encoding="utf-8", newline="\n") as file:
                file.write(self._before + json.dumps({"point": key, "value": value}) + "\n")
            self._before = ""
