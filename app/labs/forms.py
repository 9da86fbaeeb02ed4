"""Marks as documents: rpsim's own, Gradescope's ``results.json``, and a test file for Otter-Grader."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .definition import Lab
from .marking import LabMark, LabMarks


def document(found: Sequence[LabMarks]) -> dict[str, Any]:
    """The answer of ``rpsim lab check --json`` (docs/teaching.md has its fields)."""
    return {
        "points": sum(one.points for one in found),
        "of": sum(one.lab.points for one in found),
        "passed": all(one.passed for one in found),
        "labs": [
            {
                "lab": one.lab.name,
                "title": one.lab.title,
                "points": one.points,
                "of": one.lab.points,
                "passed": one.passed,
                "checks": [_check(mark) for mark in one.marks],
            }
            for one in found
        ],
    }


def _check(mark: LabMark) -> dict[str, Any]:
    return {
        "id": mark.check.id,
        "title": mark.check.title,
        "points": mark.points,
        "of": mark.check.points,
        "passed": mark.finding.passed,
        "wrong_input": mark.wrong_input,
        "said": list(mark.finding.said),
        "shown": list(mark.finding.shown),
        "case": mark.case,
    }


def gradescope(found: Sequence[LabMarks]) -> dict[str, Any]:
    """What Gradescope reads as /autograder/results/results.json: a test for each check."""
    return {
        "output_format": "text",
        "tests": [
            {
                "name": f"lab {one.lab.name}: {mark.check.title}",
                "number": f"{one.lab.name}.{number}",
                "score": mark.points,
                "max_score": mark.check.points,
                "status": "passed" if mark.finding.passed else "failed",
                "output": "\n".join([*mark.finding.said, *mark.finding.shown]),
            }
            for one in found
            for number, mark in enumerate(one.marks, start=1)
        ],
    }


OTTER = '''"""{title}"""

OK_FORMAT = True

test = {{
    "name": "lab-{name}",
    "points": {points},
    "suites": [
        {{
            "type": "doctest",
            "scored": True,
            "setup": "",
            "teardown": "",
            "cases": [
{cases}            ],
        }}
    ],
}}
'''
CASE = """                {{
                    "code": ">>> from rpsim.app.labs.forms import passes\\n>>> passes({lab!r}, {check!r})\\nTrue",
                    "hidden": False,
                    "locked": False,
                }},
"""


def otter(lab: Lab) -> str:
    """A test file of Otter-Grader (OK format): a doctest for each check, with the checks' points."""
    cases = "".join(CASE.format(lab=lab.name, check=check.id) for check in lab.checks)
    points = [check.points for check in lab.checks]
    return OTTER.format(title=f"Lab {lab.name}: {lab.title}.", name=lab.name, points=points, cases=cases)


def passes(lab: str, check: str, above: str = ".") -> bool:
    """Whether one check of a lab passes; prints what it has to say, as a doctest's reader wants to see."""
    from dataclasses import replace

    from .desk import desk_of
    from .marking import mark
    from .shelf import find

    whole = find(lab)
    one = replace(whole, checks=tuple(known for known in whole.checks if known.id == check))
    found = mark(one, desk_of(one, above), gather=True)
    for item in found.marks:
        print("\n".join([*item.finding.said, *item.finding.shown]), end="\n" if item.finding.said else "")
    return found.passed and bool(found.marks)
