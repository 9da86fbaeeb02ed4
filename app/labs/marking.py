"""A whole lab checked: a mark for each check, and the counterexamples as files in the student's folder."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from ...sim.errors import InputError
from ..terminal.output import as_json, write_text
from .definition import Lab, LabCheck
from .kinds import KINDS
from .task import LabFinding, LabTask


@dataclass(frozen=True)
class LabMark:
    """One check's outcome."""

    check: LabCheck
    finding: LabFinding
    wrong_input: bool = False
    """Whether a file could not be read, so that nothing was checked."""
    case: str | None = None
    """The file of the counterexample, for ``rpsim replay``."""

    @property
    def points(self) -> int:
        """All of the check's points, or none."""
        return self.check.points if self.finding.passed else 0


@dataclass(frozen=True)
class LabMarks:
    """All checks of a lab."""

    lab: Lab
    marks: tuple[LabMark, ...]
    absent: bool = False
    """Whether the student's folder is missing."""

    @property
    def points(self) -> int:
        """The points earned."""
        return sum(mark.points for mark in self.marks)

    @property
    def passed(self) -> bool:
        """Whether every check is passed."""
        return all(mark.finding.passed for mark in self.marks)


def mark(lab: Lab, desk: Path, *, gather: bool = False, done: Callable[[], object] = lambda: None) -> LabMarks:
    """Run all checks of a lab.

    A file that cannot be read raises InputError; with ``gather`` it costs that check's points instead, and the other
    checks go on, as grading wants it.
    """
    if gather and not desk.is_dir():
        none = LabFinding(False, (f"There is no folder {desk.as_posix()}.",))
        return LabMarks(lab, tuple(LabMark(check, none) for check in lab.checks), absent=True)
    marks = []
    for check in lab.checks:
        marks.append(_mark(LabTask(lab, check, desk), gather))
        done()
    return LabMarks(lab, tuple(marks))


def _mark(task: LabTask, gather: bool) -> LabMark:
    try:
        finding = KINDS[task.check.kind].run(task)
    except InputError as error:
        if not gather:
            raise
        return LabMark(task.check, LabFinding(False, tuple(map(str, error.mistakes))), wrong_input=True)
    except Exception as error:
        own = [frame for frame in traceback.extract_tb(error.__traceback__) if _inside(frame.filename, task.desk)]
        runs = "schemes" in task.check.given
        if not own and not runs:
            raise
        where = f"{Path(own[-1].filename).name}, line {own[-1].lineno}" if own else "A run of your scheme ended early"
        return LabMark(task.check, LabFinding(False, (f"{where}: {type(error).__name__}: {error}",)))
    if finding.case is None:
        return LabMark(task.check, finding)
    name = (task.desk / f"case-{task.check.id}.json").as_posix()
    write_text(name, as_json(finding.case), "rpsim lab")
    return LabMark(task.check, finding, case=name)


def _inside(file: str, folder: Path) -> bool:
    return Path(file).resolve().is_relative_to(folder.resolve())
