"""Litmus tests of the student's: all that the ordering rules allow is explored."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from ....sim.errors import InputError, unknown
from ..task import LabFinding, LabTask

if TYPE_CHECKING:
    from ....validation.litmus.language.program import Test


def _tests(task: LabTask) -> dict[str, Test]:
    from ....validation.litmus.language.format import read_file

    return {test.id: test for test in read_file(task.file(task.given("file")))}


def _named(task: LabTask, tests: dict[str, Test], name: str) -> Test:
    if name not in tests:
        path = str(task.desk / task.given("file"))
        raise InputError(unknown(name, tests, "the test '" + name + "' as in the starter; there are {}", file=path))
    return tests[name]


def _schedule(schedule: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(f"  {number:>3}  {step}"[:80] for number, step in enumerate(schedule, start=1))


def agrees(task: LabTask) -> LabFinding:
    """The verdicts that the student wrote for ``tests`` are those that come out, case by case."""
    from ....validation.litmus.machine.explorer import explore

    tests = _tests(task)
    for name in task.given("tests"):
        for answer in explore(_named(task, tests, name)):
            if answer.agrees:
                continue
            profile, found = answer.case.profile.name, str(answer.found)
            otherwise = "{test} on {profile}: you say {said}; the ordering rules say something else."
            names = [f"{name} {profile} {found}", f"{name} {found}", found]
            said = task.say(names, otherwise, test=name, profile=profile, said=answer.case.expected)
            return LabFinding(False, (said,), _schedule(answer.schedule))
    return LabFinding(True)


def program(task: LabTask) -> LabFinding:
    """The student's program, asked the lab's own questions: ``asks`` is a list of crash, outcome and found.

    ``begins`` is its first operation; ``without`` are operations that it must not have.
    """
    from ....validation.litmus.language.expression import parse_outcome
    from ....validation.litmus.language.profiles import profile_named
    from ....validation.litmus.language.program import CrashMoment, LitmusCase, OutcomeFinding
    from ....validation.litmus.machine.explorer import explore

    test = _named(task, _tests(task), task.given("test"))
    used = [operation.text for operation in (*test.a, *test.b)]
    for word in task.given("without") or ():
        for text in used:
            if word in text.split():
                otherwise = "'{text}': this time without {word}."
                return LabFinding(False, (task.say([f"with {word}", "without"], otherwise, text=text, word=word),))
    begins = task.given("begins")
    if begins and begins not in used[:1]:
        otherwise = "The program has to begin with '{begins}', so that there is something to lose."
        return LabFinding(False, (task.say(["begins"], otherwise, begins=begins),))
    for one in task.given("asks"):
        case = LitmusCase(
            profile_named(task.given("profile"), {}), CrashMoment(one["crash"]), parse_outcome(one["outcome"]),
            OutcomeFinding(one["found"]), "the lab",
        )  # fmt: skip
        (answer,) = explore(replace(test, cases=(case,)))
        if answer.vacuous:
            otherwise = "No execution of the program comes to its end: somebody waits for what never comes."
            return LabFinding(False, (task.say(["stuck"], otherwise),))
        if not answer.agrees:
            otherwise = "{outcome} is {found}, and should be {wanted}. One schedule that shows it:"
            values = {"outcome": one["outcome"], "found": answer.found, "wanted": one["found"]}
            said = task.say([f"{one['outcome']} {answer.found}", str(answer.found)], otherwise, **values)
            return LabFinding(False, (said,), _schedule(answer.schedule))
    return LabFinding(True)
