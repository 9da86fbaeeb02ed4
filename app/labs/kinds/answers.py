"""``answers.yaml``: predictions, which have to be there, and findings, which have to be what the simulator finds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....sim.cursor import Cursor
from ....sim.yaml_source import read_yaml
from ..observations import observe
from ..task import ANSWERS, LabFinding, LabTask


def read_answers(task: LabTask) -> Mapping[str, Any]:
    """All answers, None where one is blank. Raises InputError for unknown keys and for words that no choice has."""
    questions = task.lab.questions
    at = Cursor.over(read_yaml(task.file(ANSWERS)), "a map from questions to answers")
    at.keys(questions)
    found: dict[str, Any] = dict.fromkeys(questions)
    for key, question in questions.items():
        one = at[key]
        if one.data is None:
            continue
        if question.choices:
            found[key] = one.choice(question.choices)
        else:
            found[key] = one.number(f"a number of {question.unit}" if question.unit else "a number")
    at.finish()
    return found


def _blank(task: LabTask, keys: list[str], answers: Mapping[str, Any]) -> list[str]:
    return [key for key in keys if answers[key] is None]


def predicted(task: LabTask) -> LabFinding:
    """Every prediction is written down; a wrong one costs nothing."""
    blank = _blank(task, list(task.given("of")), read_answers(task))
    if not blank:
        return LabFinding(True)
    otherwise = "Still blank in {file}: {keys}. A wrong prediction costs no points; none teaches nothing."
    return LabFinding(False, (task.say(["blank"], otherwise, file=ANSWERS, keys=", ".join(blank)),))


def compared(task: LabTask) -> LabFinding:
    """Every finding is the simulator's; numbers within 2 percent, or what ``within`` says."""
    answers, said = read_answers(task), []
    blank = _blank(task, list(task.given("of")), answers)
    if blank:
        otherwise = "Still blank in {file}: {keys}."
        said.append(task.say(["blank"], otherwise, file=ANSWERS, keys=", ".join(blank)))
    for key, what in task.given("of").items():
        given = answers[key]
        if given is None or _same(given, observe(task, what), float(what.get("within", 0.02))):
            continue
        otherwise = "{key}: a run says something else than {given}. Run it and look."
        said.append(task.say([f"{key} = {given}", key, "wrong"], otherwise, key=key, given=given))
    return LabFinding(not said, tuple(said))


def _same(given: Any, found: str | float, within: float) -> bool:
    if isinstance(found, str):
        return str(given) == found
    return abs(float(given) - found) <= within * abs(found)
