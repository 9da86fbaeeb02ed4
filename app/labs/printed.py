"""What ``rpsim lab`` prints: the list of labs, a lab's text, and what its checks have found."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..terminal.text import WIDTH, paragraph, plural

if TYPE_CHECKING:
    from .definition import Lab
    from .marking import LabMark, LabMarks


def listing(labs: Sequence[Lab]) -> list[str]:
    """One line a lab, and how to go on."""
    width = max(len(lab.name) for lab in labs)
    lines = [f"  {lab.name.rjust(width)}  {lab.title} ({lab.minutes} minutes)" for lab in labs]
    return ["The labs:", "", *lines, "", "rpsim lab 1 shows the first and puts its files into the folder lab-1."]


def page(lab: Lab, desk: str, written: Sequence[str], kept: Sequence[str], where: str = "") -> list[str]:
    """The whole text of a lab for a terminal; ``where`` are the options of the commands that go on."""
    lines = [f"Lab {lab.name}: {lab.title} ({lab.minutes} minutes, {plural(lab.points, 'point')})", ""]
    lines.append("Afterwards you are able to")
    for sentence in lab.able:
        lines += paragraph(f"- {sentence}", 2, 2)
    lines += ["", *wrapped(lab.text), ""]
    if lab.questions:
        lines += ["Your answers (answers.yaml)", ""]
        for key, question in lab.questions.items():
            choices = " or ".join(question.choices) or (f"a number, {question.unit}" if question.unit else "a number")
            lines += paragraph(f"{key}: {question.ask} ({choices})", 2, 4)
        lines.append("")
    lines += ["Files", ""]
    if written:
        lines += paragraph(f"written to {desk}: {', '.join(written)}", 2, 2)
    if kept:
        lines += paragraph(f"kept in {desk} as they are: {', '.join(kept)}", 2, 2)
    lines += ["", f"rpsim lab {lab.name} check{where}     rpsim lab {lab.name} hint{where}"]
    return lines


def wrapped(markdown: str) -> list[str]:
    """Markdown wrapped to 80 columns: paragraphs and lists; code, tables and headings stay as they are."""
    lines: list[str] = []
    text: list[str] = []
    hang, code, item = 0, False, False

    def flush() -> None:
        if text:
            lines.extend(paragraph(" ".join(text), 0, hang) if item else paragraph(" ".join(text), hang))
            text.clear()

    for line in markdown.split("\n"):
        mark = re.match(r"(\s*(?:[-*]|\d+\.)\s+)", line)
        if line.startswith("```"):
            flush()
            code = not code
        elif code or line.startswith(("|", "    ")):
            flush()
            lines.append(f"    {line}"[:WIDTH] if code else line)
        elif line.startswith("#"):
            flush()
            lines.append(line.lstrip("# "))
        elif not line.strip():
            flush()
            lines.append("")
        else:
            if mark:
                flush()
                hang, item = len(mark[1]), True
            elif not text:
                hang, item = hang if line.startswith(" ") else 0, False
            text.append(line.strip())
    flush()
    return lines


def marks(found: LabMarks, where: str = "") -> list[str]:
    """What the checks of a lab say; ``where`` are the options of the command that gives a hint."""
    lab = found.lab
    passed = sum(mark.finding.passed for mark in found.marks)
    head = f"lab {lab.name}, {lab.title}: {passed} of {plural(len(found.marks), 'check')}"
    lines = [f"{head}, {found.points} of {plural(lab.points, 'point')}", ""]
    for mark in found.marks:
        lines += _mark(mark)
    if not found.passed:
        lines += ["", f"A hint: rpsim lab {lab.name} hint{where}"]
    return lines


def _mark(mark: LabMark) -> list[str]:
    lines = paragraph(f"{'ok' if mark.finding.passed else 'no'}  {mark.check.title}", 2, 4)
    for text in mark.finding.said:
        lines += paragraph(text, 6)
    if mark.finding.shown:
        lines += ["", *mark.finding.shown, ""]
    if mark.case:
        lines += paragraph(f"rpsim replay {mark.case} runs it again.", 6)
    return lines


def summary(found: Sequence[LabMarks]) -> list[str]:
    """One line a lab, and the sum."""
    width = max(len(one.lab.name) for one in found)
    lines = []
    for one in found:
        state = "no folder" if one.absent else "passed" if one.passed else "not yet"
        passed = sum(mark.finding.passed for mark in one.marks)
        checks = f"{passed}/{len(one.marks)} checks"
        lines.append(
            f"  {one.lab.name.rjust(width)}  {one.lab.title.ljust(44)[:44]}  {checks:>10}"
            f"  {one.points:>3}/{one.lab.points}  {state}"
        )
    points, of = sum(one.points for one in found), sum(one.lab.points for one in found)
    whole = sum(one.passed for one in found)
    return [*lines, "", f"{whole} of {plural(len(found), 'lab')} passed, {points} of {plural(of, 'point')}"]
