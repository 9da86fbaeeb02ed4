"""Scenarios of the student's that have to reach a stated performance."""

from __future__ import annotations

from ..observations import performed, taken
from ..task import LabFinding, LabTask
from .crashes import changed


def bounded(task: LabTask) -> LabFinding:
    """Each of ``bounds`` (take, and least or most) is kept by the first variant; ``keep`` as in a crash check."""
    refused = changed(task)
    if refused:
        return refused
    performed.cache_clear()  # the file may be another than before
    outcome = performed(str(task.file(task.given("scenario"))), ())
    said = []
    for one in task.given("bounds"):
        found = taken(outcome, one["take"])
        assert isinstance(found, float)
        if one.get("least", found) <= found <= one.get("most", found):
            continue
        bound = f"at least {one['least']:,}" if "least" in one else f"at most {one['most']:,}"
        otherwise = "{take} is {found}, and should be {bound}."
        values = {"take": one["take"], "found": f"{found:,.1f}", "bound": bound}
        said.append(task.say([one["take"]], otherwise, **values))
    return LabFinding(not said, tuple(said))
