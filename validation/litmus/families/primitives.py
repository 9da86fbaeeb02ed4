"""The family of litmus tests about shipped primitives: verdicts by the rows that papers state of their sequences."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from ....protocols import primitives as shipped
from ..language.expansion import Expanded
from ..language.operations import parse_operation
from ..language.program import CrashMoment, Test
from .families import WSP, Question, made
from .promises import PRIMITIVES, PROMISES

_read = functools.cache(shipped.primitive)
FORMS: Mapping[str, Sequence[str]] = {
    "one update": ["P q1 {} x 1"],
    "two words": ["P q1 {} x+z 1"],
    "behind another WRITE": ["W q1 v 1", "P q1 {} x 1"],
    "the second of two": ["P q1 {} v 1", "P q1 {} x 1"],
    "the first of two": ["P q1 {} x 1", "P q1 {} v 1"],
    "on two queue pairs": ["P q2 {} v 1", "P q1 {} x 1"],
}
COMMITS: Mapping[str, Sequence[str]] = {
    "and a flag": ["P q1 {} x 1", "W q1 flag 1", "poll q1"],
    "and a flag by it": ["P q1 {} x 1", "P q1 {} flag 1"],
    "and a flag on another queue pair": ["P q1 {} x 1", "W q2 flag 1", "poll q2"],
}
ELSEWHERE = ["W q1 x 1", "poll q1", "P q2 {} x"]
"""The update on one queue pair, the primitive's steps on another."""


def primitives() -> Iterator[Test]:
    """Each shipped primitive that the tables speak of: updates, an update and a flag, two queue pairs."""
    for name, row in PRIMITIVES.items():
        promise = PROMISES[row].durable
        for form, texts in FORMS.items():
            lost: list[Question] = [
                (platform, CrashMoment.END_A, "pm.x==0", not durable, source)
                for platform, (durable, source) in promise.items()
            ]
            lost += [(wsp, CrashMoment.END_A, "pm.x==0", False, WSP) for wsp in ("WSP, DDIO on", "WSP, DDIO off")]
            yield _test(name, form, texts, lost)
        for form, texts in COMMITS.items():
            early: list[Question] = [
                (platform, CrashMoment.ANY, "pm.flag==1 and pm.x==0", False, source)
                for platform, (durable, source) in promise.items()
                if durable
            ]
            if early:
                yield _test(name, form, texts, early)
        if row != "nothing" and _read(name).follows[0] == "WRITE":
            other = PROMISES["FLUSH on another queue pair"].durable
            questions: list[Question] = [
                (platform, CrashMoment.END_A, "pm.x==0", not durable, source)
                for platform, (durable, source) in other.items()
            ]
            yield _test(name, "its steps on another queue pair", ELSEWHERE, questions)


def _test(name: str, form: str, texts: Sequence[str], questions: Sequence[Question]) -> Test:
    found = Expanded()
    for text in texts:
        operation = parse_operation(text.format(name), of_a=True)
        found.add(operation, _read(name) if operation.verb == "P" else None)
    test = made("primitives", f"{name}, {form}", [], [], questions)
    return replace(test, a=tuple(found.a), b=tuple(found.b), parts=tuple(found.parts), served=len(found.b))
