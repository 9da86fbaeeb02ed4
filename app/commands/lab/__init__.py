"""``rpsim lab``: labs that check themselves.

``check.py`` marks all of them at once, ``new.py`` writes a starting point for one of a lecturer's own.
"""

from __future__ import annotations

import argparse
import shlex
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from ....sim.errors import InputError, Mistake, nearest
from ...options import Command, Field, Option

if TYPE_CHECKING:
    from ...labs.definition import Lab


ABOVE = Option("--in", "the folder with the labs' folders (default: here)", "DIR", ".", to="above")
MARKS = (
    Field("points", "integer", "points that were reached"),
    Field("of", "integer", "points that there are"),
    Field("passed", "boolean", "whether all checks are passed"),
    Field("labs", "array", "of each lab: the same, and its `checks`"),
)

COMMAND = Command(
    "labs for a class, which check themselves",
    "LAB ACTION",
    "a number, or the folder of a lab of one's own; or check (all of them), or new (a lab of one's own)",
    needed=False,
    second_help="check, hint or test; without it the lab's text, and its starter files",
    options=(ABOVE,),
    answer=(
        Field("labs", "array?", "without a lab: all of them; of check: each with its `checks`"),
        Field("lab", "string?", "the lab"),
        Field("folder", "string?", "the folder with its files"),
        Field("written", "array?", "files that were written there"),
        Field("kept", "array?", "files that were there already"),
        Field("hint", "integer|null?", "of hint: the number of the hint; null: there are no more"),
        Field("text", "string|null?", "of hint: its words"),
        Field("of", "integer?", "how many hints, or points, there are"),
        Field("points", "integer?", "of check: points that were reached"),
        Field("passed", "boolean?", "of check: whether all checks are passed"),
        Field("fine", "boolean?", "of test: whether the starter fails and the solution passes"),
        Field("starter", "object?", "of test: `points` and `passed` of the starter"),
        Field("solution", "object?", "of test: `points` and `passed` of the solution"),
    ),
    parts={
        "check": Command(
            "all shipped labs at once, for grading",
            options=(
                ABOVE,
                Option("--all", "every shipped lab (one alone: rpsim lab 1 check)"),
                Option("--gradescope", "write Gradescope's results.json", "FILE", needs="--all", bears=False),
                Option("--otter", "write tests for Otter-Grader", "DIR", needs="--all", bears=False),
            ),
            answer=MARKS,
            work="check",
        ),
        "new": Command(
            "a lab of one's own: a folder to start from",
            "NAME",
            "a name for it",
            options=(ABOVE,),
            answer=(Field("lab", "string", "the folder"),),
            work="new",
        ),
    },
)

ACTIONS = ("check", "hint", "test")


def main(options: argparse.Namespace) -> int:
    """List, show, hint, check; returns 1 where a check is not passed. Raises InputError."""
    from ...labs.shelf import find, read, shipped

    subject, action = options.subject, options.name
    if subject is None:
        return _list([read(path, number) for number, path in shipped().items()], options)
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


def _where(options: argparse.Namespace) -> str:
    """The option that says where the labs' folders are, if it was given, as the next command takes it."""
    return "" if options.above == ABOVE.default else f" --in {shlex.quote(options.above)}"


def _list(labs: list[Lab], options: argparse.Namespace) -> int:
    from ...labs.printed import listing
    from ...terminal.envelope import envelope

    if options.json:
        rows = [{"lab": one.name, "title": one.title, "minutes": one.minutes, "points": one.points} for one in labs]
        print(envelope(options, {"labs": rows}), end="")
    else:
        print("\n".join(listing(labs)))
    return 0


def _show(lab: Lab, options: argparse.Namespace) -> int:
    from ...labs.desk import lay_out
    from ...labs.printed import page
    from ...terminal.envelope import envelope

    desk, written, kept = lay_out(lab, options.above)
    if options.json:
        print(envelope(options, {"lab": lab.name, "folder": desk.as_posix(), "written": written, "kept": kept}), end="")
    else:
        print("\n".join(page(lab, desk.as_posix(), written, kept, _where(options))))
    return 0


def _hint(lab: Lab, options: argparse.Namespace) -> int:
    from ...labs.desk import existing, next_hint
    from ...terminal.envelope import envelope
    from ...terminal.text import paragraph

    found = next_hint(lab, existing(lab, options.above))
    if options.json:
        number, text = found or (None, None)
        print(envelope(options, {"lab": lab.name, "hint": number, "of": len(lab.hints), "text": text}), end="")
    elif found is None:
        print(f"These were all hints of lab {lab.name}: {len(lab.hints)}.")
    else:
        print("\n".join(paragraph(f"Hint {found[0]} of {len(lab.hints)}: {found[1]}", 0, 2)))
    return 0


def _check(lab: Lab, options: argparse.Namespace) -> int:
    from ...labs.desk import existing
    from ...labs.forms import document
    from ...labs.marking import mark
    from ...labs.printed import marks
    from ...terminal.envelope import envelope
    from ...terminal.progress import bar

    desk = existing(lab, options.above)
    with bar(f"lab {lab.name}", len(lab.checks)) as shown:
        found = mark(lab, desk, done=shown.update)
    desk_files = {**options.inputs, "subject": str(desk)}
    print(
        envelope(options, document([found]), inputs=desk_files)
        if options.json
        else "\n".join([*marks(found, _where(options)), ""]),
        end="",
    )
    return 0 if found.passed else 1


def _test(lab: Lab, options: argparse.Namespace) -> int:
    """A lecturer's own: the starter must not pass, the solution must."""
    import tempfile

    from ...labs.definition import HOME, STARTER
    from ...labs.marking import mark
    from ...terminal.envelope import envelope

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
        print(envelope(options, {"lab": lab.name, "of": lab.points, "fine": fine, **each}), end="")
    else:
        for name, one in passed.items():
            wrong = [mark.check.id for mark in one.marks if not mark.finding.passed]
            print(
                f"{name}: {one.points} of {lab.points} points" + (f"; not passed: {', '.join(wrong)}" if wrong else "")
            )
        print("fine" if fine else "not yet: the starter must not pass, and the solution must")
    return 0 if fine else 1
