"""``rpsim lab check --all``: the marks of all shipped labs, also in the forms that graders take."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from ....sim.errors import InputError, Mistake

if TYPE_CHECKING:
    from ...labs.marking import LabMarks


def main(options: argparse.Namespace) -> int:
    """Check all, print, write; returns 0 if all are passed, else 1."""
    from ...labs.desk import desk_of
    from ...labs.forms import document, gradescope, otter
    from ...labs.marking import mark
    from ...labs.printed import summary
    from ...labs.shelf import read, shipped
    from ...terminal.envelope import envelope
    from ...terminal.output import as_json, writable, write_text
    from ...terminal.progress import bar

    if not options.all:
        expected = "rpsim lab 1 check, or rpsim lab check --all"
        raise InputError(Mistake("no lab", expected, field="rpsim lab check"))
    if not Path(options.above).is_dir():
        raise InputError(Mistake(f"'{options.above}'", "the folder with the labs' folders", field="--in"))
    if options.otter is not None:
        writable(options.otter)
    labs = [read(path, number) for number, path in shipped().items()]
    results: list[LabMarks] = []
    with bar("labs", sum(len(lab.checks) for lab in labs)) as shown:
        for lab in labs:
            results.append(mark(lab, desk_of(lab, options.above), gather=True, done=shown.update))
    if options.gradescope is not None:
        work = [desk_of(lab, options.above) / starter.name for lab in labs for starter in lab.starters()]
        write_text(options.gradescope, as_json(gradescope(results)), "--gradescope", work)
    if options.otter is not None:
        Path(options.otter).mkdir(parents=True, exist_ok=True)
        for lab in labs:
            write_text(str(Path(options.otter) / f"lab-{lab.name}.py"), otter(lab), "--otter")
    print(envelope(options, document(results)) if options.json else "\n".join([*summary(results), ""]), end="")
    return 0 if all(one.passed for one in results) else 1
