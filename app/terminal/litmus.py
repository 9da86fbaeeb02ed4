"""The output of ``rpsim litmus`` for tests: a row a case or a file, every disagreement; as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...validation.litmus.language.program import CrashMoment, OutcomeFinding, Test
from ...validation.litmus.machine.explorer import CaseAnswer
from ...validation.litmus.simulator.witness import Searched
from .text import WIDTH, count, paragraph, plural, table
from .witnesses import name_of, witness_record

MOST_ROWS = 60
"""Up to so many cases have a row each; of more cases each file has one."""


def text(tests: Sequence[Test], answers: Sequence[CaseAnswer], budget: int) -> list[str]:
    """The answers as lines of a terminal."""
    lines = _by_file(answers) if len(answers) > MOST_ROWS else _by_case(tests, answers)
    for answer in answers:
        if answer.vacuous:
            end = "A's list" if answer.case.crash is CrashMoment.END_A else "both programs"
            where = f"{answer.test.id} ({name_of(answer.test.file)}), {answer.case.profile.name}"
            lines += ["", *paragraph(f"{where}: no execution reaches the end of {end}, so it says nothing", 0, 2)]
    wrong = [answer for answer in answers if not answer.agrees]
    for answer in wrong:
        lines += [] if answer.vacuous else ["", *_disagreement(answer, budget)]
    size = f"{plural(len(tests), 'test')}, {plural(len(answers), 'case')}"
    states = f"{plural(sum(answer.states for answer in answers), 'state')} explored"
    verdict = f"{count(len(wrong))} not as expected" if wrong else "all as expected"
    return [*lines, "", f"{size}, {states}: {verdict}"]


def _by_file(answers: Sequence[CaseAnswer]) -> list[str]:
    files: dict[str, list[CaseAnswer]] = {}
    for answer in answers:
        files.setdefault(answer.test.file, []).append(answer)
    rows = [
        [
            name_of(file),
            count(len({answer.test.id for answer in mine})),
            count(len(mine)),
            count(sum(answer.states for answer in mine)),
            count(sum(not answer.agrees for answer in mine)),
        ]
        for file, mine in files.items()
    ]
    return table(["file", "tests", "cases", "states", "not as expected"], rows, indent=0)


def _by_case(tests: Sequence[Test], answers: Sequence[CaseAnswer]) -> list[str]:
    lines: list[str] = []
    for test in tests:
        mine = [answer for answer in answers if answer.test is test]
        rows = [
            [
                _short(answer.case.profile.name, 20),
                answer.case.outcome.text,
                str(answer.case.crash),
                f"{answer.found}{'' if answer.agrees else ' (!)'}",
                count(answer.states),
            ]
            for answer in mine
        ]
        room = WIDTH - 10 - sum(max([8 if i else 7, *(len(row[i]) for row in rows)]) for i in (0, 2, 3, 4))
        rows = [[row[0], _short(row[1], max(room, 10)), *row[2:]] for row in rows]
        heads = ["profile", "outcome", "crash", "found", "states"]
        lines += [*([""] if lines else []), _short(test.id, WIDTH), *table(heads, rows, left=4)]
    return lines


def _disagreement(answer: CaseAnswer, budget: int) -> list[str]:
    test, case = answer.test, answer.case
    where = f"{test.file}:{case.line or test.line}"
    crash = {
        "none": "nothing crashes",
        "end_A": "B crashes once A is through",
        "any": "B crashes at any instant",
        "A": "A loses power at any instant",
    }
    lines = paragraph(f"{test.id} ({where}), {case.profile.name}, {crash[case.crash]}", 0, 2)
    for who, program in (("A", test.a), ("B", test.b), ("B's adapter", test.relay)):
        if program:
            lines += paragraph(f"{who}: {'; '.join(operation.text for operation in program)}", 2, 3)
    lines += paragraph(f"{case.outcome.text}: expected {case.expected}, found {answer.found}", 2, 2)
    if case.source:
        lines += paragraph(f"expected by: {case.source}", 2, 2)
    if answer.found is OutcomeFinding.ALLOWED:
        lines.append("  a schedule that shows it:")
        for number, step in enumerate(answer.schedule, start=1):
            lines += paragraph(f"{number:>3}  {step}", 4, 5)
    elif answer.found is OutcomeFinding.UNDECIDED:
        lines += paragraph(f"not among the first {count(budget)} states; --budget allows more", 2, 2)
    else:
        lines += paragraph(f"it is in none of all {plural(answer.states, 'state')}", 2, 2)
        if test.rules:
            lines += paragraph(f"the test rests on: {', '.join(test.rules)}", 2, 2)
    return lines


def _short(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 3]}..."


def document(answers: Sequence[CaseAnswer], found: Sequence[Searched] | None = None) -> dict[str, Any]:
    """The answers, and the searches for witnesses beside them, as one JSON document."""
    more = {} if found is None else {"witnesses": [witness_record(one) for one in found]}
    return {
        "cases": [
            {
                "id": answer.test.id,
                "file": answer.test.file,
                "line": answer.case.line,
                "profile": answer.case.profile.name,
                "crash": str(answer.case.crash),
                "outcome": answer.case.outcome.text,
                "expected": str(answer.case.expected),
                "found": str(answer.found),
                "agrees": answer.agrees,
                "states": answer.states,
                "vacuous": answer.vacuous,
                "schedule": list(answer.schedule) or None,
                "rules": list(answer.test.rules),
                "source": answer.case.source,
            }
            for answer in answers
        ],
        "agree": sum(answer.agrees for answer in answers),
        "disagree": sum(not answer.agrees for answer in answers),
        **more,
    }
