"""What a check is asked, and what it answers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...sim.errors import InputError, Mistake
from ...sim.files import nearest_file
from .definition import MATERIAL, STARTER, Lab, LabCheck

ANSWERS = "answers.yaml"


@dataclass(frozen=True)
class LabTask:
    """A check of a lab, and the folder to check."""

    lab: Lab
    check: LabCheck
    desk: Path

    def given(self, key: str, otherwise: Any = None) -> Any:
        """A field of the check."""
        return self.check.given.get(key, otherwise)

    def file(self, name: str) -> Path:
        """A file of the student's. Raises InputError if it is not there."""
        path = self.desk / name
        if not path.is_file():
            found = "a folder" if path.is_dir() else "no such file"
            expected = f"a file that rpsim lab {self.lab.name} puts there"
            raise InputError(Mistake(found, expected, str(path), nearest=nearest_file(path)))
        return path

    def material(self, name: str) -> Path:
        """A file of the lab's own: one that only checks read, or the starter as it was."""
        return next(
            (place for part in (MATERIAL, STARTER) if (place := self.lab.place / part / name).exists()),
            self.lab.place / MATERIAL / name,
        )

    def say(self, names: Sequence[str], otherwise: str, **values: object) -> str:
        """The lab's message for the first of the names that it has one for; ``values`` stand for words in braces."""
        text = next((self.check.messages[name] for name in names if name in self.check.messages), otherwise)
        for key, value in values.items():
            text = text.replace(f"{{{key}}}", str(value))
        return text


@dataclass(frozen=True)
class LabFinding:
    """Whether a check is passed, and what to tell the student."""

    passed: bool
    said: tuple[str, ...] = ()
    """Paragraphs that are wrapped for the terminal."""
    shown: tuple[str, ...] = ()
    """Lines that stand as they are: a counterexample, a table."""
    case: dict[str, Any] | None = field(default=None, compare=False)
    """What ``rpsim replay`` takes, if there is a counterexample to replay."""


@dataclass(frozen=True)
class CheckKind:
    """A way to check: the function that does it, and the fields that a lab's file gives it."""

    run: Callable[[LabTask], LabFinding]
    needed: tuple[str, ...]
    optional: tuple[str, ...] = ()


Kinds = Mapping[str, CheckKind]
