"""A student's folder: made from the starter without ever overwriting work, and the hints that it has had."""

from __future__ import annotations

from pathlib import Path

from ...sim.errors import InputError, Mistake
from .definition import Lab

HINTS = ".hints"


def desk_of(lab: Lab, above: str | Path = ".") -> Path:
    """The student's folder of a lab: ``lab-3`` in the folder ``above``, or that folder itself if it is called so."""
    folder = Path(above)
    if folder.resolve().name == lab.desk and not (folder / lab.desk).exists():
        return folder
    return folder / lab.desk


def existing(lab: Lab, above: str | Path = ".") -> Path:
    """The student's folder; raises InputError if there is none."""
    desk = desk_of(lab, above)
    if desk.is_dir():
        return desk
    found = "a file" if desk.exists() else "no such folder"
    raise InputError(Mistake(found, f"the folder that rpsim lab {lab.name} makes", str(desk)))


def lay_out(lab: Lab, above: str | Path = ".") -> tuple[Path, list[str], list[str]]:
    """Put the starter's files into the student's folder; those that are there stay as they are.

    Returns the folder, the names of the files written, and of those kept. Raises InputError if it cannot be written.
    """
    desk = desk_of(lab, above)
    if desk.exists() and not desk.is_dir():
        raise InputError(Mistake("a file", "a folder, or a name for a new one", str(desk)))
    written, kept = [], []
    try:
        desk.mkdir(parents=True, exist_ok=True)
        for starter in lab.starters():
            target = desk / starter.name
            try:
                with target.open("xb") as file:
                    file.write(starter.read_bytes())
                written.append(starter.name)
            except FileExistsError:
                kept.append(starter.name)
    except OSError as error:
        found = f"a place that cannot be written to ({(error.strerror or str(error)).lower()})"
        raise InputError(Mistake(found, "a folder for the student's files", str(desk))) from None
    return desk, written, kept


def next_hint(lab: Lab, desk: Path) -> tuple[int, str] | None:
    """The number, from 1, and the text of the next hint of a lab; None once all have been given."""
    path = desk / HINTS
    try:
        given = int(path.read_text(encoding="utf-8")) if path.exists() else 0
    except ValueError:
        given = 0
    if not 0 <= given < len(lab.hints):
        return None
    try:
        path.write_text(f"{given + 1}\n", encoding="utf-8")
    except OSError as error:
        found = f"a place that cannot be written to ({(error.strerror or str(error)).lower()})"
        raise InputError(Mistake(found, "a file for the number of hints given", str(path))) from None
    return given + 1, lab.hints[given]
