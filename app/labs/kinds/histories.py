"""Histories of the student's: the oracle judges them."""

from __future__ import annotations

from ...terminal.check import text
from ..task import LabFinding, LabTask


def judged(task: LabTask) -> LabFinding:
    """The history has every verdict of ``wanted``, in at most so many operations."""
    from ....validation.histories.check import check_history
    from ....validation.histories.read import read_history

    path, wanted = task.file(task.given("file")), task.given("wanted")
    history = read_history(path)
    most = task.given("most")
    if most is not None and len(history.entries) > most:
        otherwise = "{count} operations; {most} are enough."
        return LabFinding(False, (task.say(["long"], otherwise, count=len(history.entries), most=most),))
    report = check_history(history, None, [])
    found = {str(name): str(one.verdict) for name, one in report.verdicts.items()}
    for condition, verdict in wanted.items():
        if found.get(condition) == verdict:
            continue
        why = next((why for name, why in report.not_judged.items() if str(name) == condition), "")
        given = found.get(condition, "not judged")
        otherwise = "{condition}: {found}, where it should be {wanted}. {why}"
        names = [f"{condition} {given}", condition]
        said = task.say(names, otherwise, condition=condition, found=given, wanted=verdict, why=why)
        return LabFinding(False, (said,), tuple(text(report)))
    return LabFinding(True)
