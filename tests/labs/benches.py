"""A student's folder for tests: the starter, the solution over it if wanted, and single edits of files."""

from __future__ import annotations

import shutil
from dataclasses import replace

from rpsim.app.labs.definition import HOME, STARTER
from rpsim.app.labs.desk import lay_out
from rpsim.app.labs.marking import mark
from rpsim.app.labs.shelf import find

SOLUTIONS = HOME / "solutions"


def bench(above, number, *, solved=True):
    """The lab, and a student's folder of it in the folder ``above``."""
    lab = find(number)
    desk, _, _ = lay_out(lab, above)
    if solved:
        shutil.copytree(SOLUTIONS / lab.place.name, desk, dirs_exist_ok=True)
    return lab, desk


def edited(desk, file, old, new):
    """A file in which one text stands for another."""
    text = (desk / file).read_text()
    assert text.count(old) >= 1, f"{file} has no {old!r}"
    (desk / file).write_text(text.replace(old, new))


def checked(lab, desk, check):
    """The mark of one check."""
    (found,) = mark(replace(lab, checks=tuple(one for one in lab.checks if one.id == check)), desk).marks
    return found


def starter(lab, file):
    """The text of a file of the starter."""
    return (lab.place / STARTER / file).read_text()
