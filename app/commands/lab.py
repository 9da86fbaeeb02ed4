"""``rpsim lab``: labs that check themselves."""

from __future__ import annotations

import argparse
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from ...sim.errors import InputError, Mistake, nearest
from ..options import Command, Option

if TYPE_CHECKING:
    from ..labs.definition import Lab
    from ..labs.marking import LabMarks

COMMAND = Command(
    "labs for a class: text, starter files, checks, hints",
    "LAB ACTION",
    "a number, or the folder of a lab of one's own; check: all labs (--all); new: a lab of one's own",
    needed=False,
    second_help="check, hint or test; without it the lab's text, and its starter files; of new: a name",
    options=(
        Option("--in", "the folder with the labs' folders (default: here)", "DIR", ".", to="above"),
        Option("--all", "of check: every shipped lab", of=("check",)),
        Option("--gradescope", "of check --all: write Gradescope's results.json", "FILE", needs="--all"),
        Option("--otter", "of check --all: write tests for Otter-Grader", "DIR", needs="--all"),
    ),
)

ACTIONS = ("check", "hint", "test")


def main(options: argparse.Namespace) -> int:
    """List, show, hint, check; returns 1 where a check is not passed. Raises InputError."""
    from ..labs.shelf import find, read, shipped

    subject, action = options.subject, options.name
    if subject is None:
        return _list([read(path, number) for number, path in shipped().items()], options)
    if subject == "check":
        return _check_all(options)
    if subject == "new":
        return _new(action, options)
    if subject == "hint":
        raise InputError(Mistake("no number", "a lab before it, as in rpsim lab 1 hint", field="rpsim lab hint"))
    lab = find(subject)
    if action is not None and action not in ACTIONS:
        expected = f"{', '.join(ACTIONS)}, or nothing"
        raise InputError(
            Mistake(f"'{action}'", expected, field=f"rpsim lab {subject}", nearest=nearest(action, ACTIONS))
        )
    if action == "check":
        return _check(lab, options)
    if action == "hint":
        return _hint(lab, options)
    if action == "test":
        return _test(lab, options)
    return _show(lab, options)


def _list(labs: list[Lab], options: argparse.Namespace) -> int:
    from ..labs.printed import listing
    from ..terminal.output import as_json

    if options.json:
        rows = [{"lab": one.name, "title": one.title, "minutes": one.minutes, "points": one.points} for one in labs]
        print(as_json({"labs": rows}), end="")
    else:
        print("\n".join(listing(labs)))
    return 0


def _show(lab: Lab, options: argparse.Namespace) -> int:
    from ..labs.desk import lay_out
    from ..labs.printed import page
    from ..terminal.output import as_json

    desk, written, kept = lay_out(lab, options.above)
    if options.json:
        print(as_json({"lab": lab.name, "folder": desk.as_posix(), "written": written, "kept": kept}), end="")
    else:
        print("\n".join(page(lab, desk.as_posix(), written, kept)))
    return 0


def _hint(lab: Lab, options: argparse.Namespace) -> int:
    from ..labs.desk import existing, next_hint
    from ..terminal.output import as_json
    from ..terminal.text import paragraph

    found = next_hint(lab, existing(lab, options.above))
    if options.json:
        number, text = found or (None, None)
        print(as_json({"lab": lab.name, "hint": number, "of": len(lab.hints), "text": text}), end="")
    elif found is None:
        print(f"These were all hints of lab {lab.name}: {len(lab.hints)}.")
    else:
        print("\n".join(paragraph(f"Hint {found[0]} of {len(lab.hints)}: {found[1]}", 0, 2)))
    return 0


def _check(lab: Lab, options: argparse.Namespace) -> int:
    from ..labs.desk import existing
    from ..labs.forms import document
    from ..labs.marking import mark
    from ..labs.printed import marks
    from ..terminal.output import as_json
    from ..terminal.progress import bar

    desk = existing(lab, options.above)
    with bar(f"lab {lab.name}", len(lab.checks)) as shown:
        found = mark(lab, desk, done=shown.update)
    print(as_json(document([found])) if options.json else "\n".join([*marks(found), ""]), end="")
    return 0 if found.passed else 1


def _check_all(options: argparse.Namespace) -> int:
    from ..labs.desk import desk_of
    from ..labs.forms import document, gradescope, otter
    from ..labs.marking import mark
    from ..labs.printed import summary
    from ..labs.shelf import read, shipped
    from ..terminal.output import as_json, writable, write_text
    from ..terminal.progress import bar

    if not options.all or options.name is not None:
        found = f"'{options.name}'" if options.name else "no lab"
        expected = "rpsim lab 1 check, or rpsim lab check --all"
        raise InputError(Mistake(found, expected, field="rpsim lab check"))
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
        write_text(options.gradescope, as_json(gradescope(results)), "--gradescope")
    if options.otter is not None:
        Path(options.otter).mkdir(parents=True, exist_ok=True)
        for lab in labs:
            write_text(str(Path(options.otter) / f"lab-{lab.name}.py"), otter(lab), "--otter")
    print(as_json(document(results)) if options.json else "\n".join([*summary(results), ""]), end="")
    return 0 if all(one.passed for one in results) else 1


def _test(lab: Lab, options: argparse.Namespace) -> int:
    """A lecturer's own: the starter must not pass, the solution must."""
    import tempfile

    from ..labs.definition import HOME, STARTER
    from ..labs.marking import mark
    from ..terminal.output import as_json

    solution = lab.place / "solution"
    if not solution.is_dir():
        solution = HOME / "solutions" / lab.place.name
    if not solution.is_dir():
        raise InputError(Mistake("no solution", "a folder 'solution' beside lab.md", str(lab.place)))
    passed = {}
    for what, place in (("starter", lab.place / STARTER), ("solution", solution)):
        with tempfile.TemporaryDirectory(prefix="rpsim-lab-") as scratch:
            desk = Path(scratch, lab.desk)
            shutil.copytree(lab.place / STARTER, desk)
            shutil.copytree(place, desk, dirs_exist_ok=True)
            passed[what] = mark(lab, desk, gather=True)
    fine = not passed["starter"].passed and passed["solution"].passed
    if options.json:
        each = {name: {"points": one.points, "passed": one.passed} for name, one in passed.items()}
        print(as_json({"lab": lab.name, "of": lab.points, "fine": fine, **each}), end="")
    else:
        for name, one in passed.items():
            wrong = [mark.check.id for mark in one.marks if not mark.finding.passed]
            print(
                f"{name}: {one.points} of {lab.points} points" + (f"; not passed: {', '.join(wrong)}" if wrong else "")
            )
        print("fine" if fine else "not yet: the starter must not pass, and the solution must")
    return 0 if fine else 1


def _new(name: str | None, options: argparse.Namespace) -> int:
    from importlib.resources import files

    from ..terminal.output import as_json, replacing

    if name is None:
        raise InputError(Mistake("no name", "a name for the new lab", field="rpsim lab new"))
    target = Path(options.above) / name
    if not Path(name).name.replace("-", "").replace("_", "").isalnum() or name in ("check", "new", "hint"):
        raise InputError(Mistake(f"'{name}'", "a name of letters, digits, '-' and '_'", field="rpsim lab new"))
    if target.exists():
        raise InputError(Mistake("a name that is taken", "a name that nothing has", str(target)))
    templates = files("rpsim.app").joinpath("templates")
    try:
        with replacing(target) as draft:
            for folder in ("starter", "solution"):
                (draft / folder).mkdir()
            text = templates.joinpath("lab.md").read_text(encoding="utf-8").replace("NAME", target.name)
            (draft / "lab.md").write_text(text, encoding="utf-8", newline="\n")
            for folder, verdict in (("starter", "holds"), ("solution", "violated")):
                put = templates.joinpath("lab-put.yaml").read_text(encoding="utf-8").replace("VERDICT", verdict)
                (draft / folder / "put.yaml").write_text(put, encoding="utf-8", newline="\n")
    except OSError as error:
        found = f"a place that cannot be written to ({(error.strerror or str(error)).lower()})"
        raise InputError(Mistake(found, "a name for a new folder", str(target))) from None
    if options.json:
        print(as_json({"lab": target.as_posix()}), end="")
    else:
        here = target.as_posix()
        print(f"{here}: a lab to start from; rpsim lab {here} shows it, rpsim lab {here} test tries it")
    return 0
