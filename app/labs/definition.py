"""A lab as its file says it: ``lab.md``, whose head is YAML between two lines ``---``, and whose rest is the text."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HOME = Path(__file__).resolve().parents[2] / "labs"
"""Where the shipped labs are."""
FILE, STARTER, MATERIAL = "lab.md", "starter", "material"
"""The definition, the folder of what a student gets, and the folder of what only the checks read."""
FENCE = "---"
HEAD = ("lab", "title", "minutes", "able", "questions", "checks", "hints")


@dataclass(frozen=True)
class Question:
    """One entry of the student's ``answers.yaml``."""

    ask: str
    choices: tuple[str, ...] = ()
    """The words that may stand there; none: a number."""
    unit: str = ""
    """Of a number."""


@dataclass(frozen=True)
class LabCheck:
    """One thing that a student's files have to do, and how many points it is worth."""

    id: str
    title: str
    kind: str
    """How it is checked: a name of :data:`app.labs.kinds.KINDS`."""
    points: int
    given: Mapping[str, Any]
    """The fields of its kind."""
    messages: Mapping[str, str]
    """By what went wrong (the kind says which names there are): a sentence that helps on, without the solution."""


@dataclass(frozen=True)
class Lab:
    """A lab, whole."""

    name: str
    """``1`` to ``10``, or of a lecturer's own the path of its folder as it was given."""
    title: str
    minutes: int
    able: tuple[str, ...]
    """What a student is able to do afterwards."""
    questions: Mapping[str, Question]
    checks: tuple[LabCheck, ...]
    hints: tuple[str, ...]
    text: str
    """The rest of the file: Markdown."""
    place: Path = field(compare=False)

    @property
    def points(self) -> int:
        """The sum over all checks."""
        return sum(check.points for check in self.checks)

    @property
    def desk(self) -> str:
        """What the student's folder is called."""
        return f"lab-{Path(self.name).name}"

    def starters(self) -> list[Path]:
        """The files that a student begins with."""
        return sorted(path for path in (self.place / STARTER).iterdir() if path.is_file())
