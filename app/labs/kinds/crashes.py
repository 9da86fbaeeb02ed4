"""Scenarios and schemes of the student's: every power failure is explored, and the verdicts are compared."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ....protocols.guarantees import Condition
from ....sim.yaml_source import read_yaml
from ...terminal.expected import expected
from ...terminal.text import count, plural
from ...terminal.timeline import heading, timeline
from ...terminal.work import Job, perform
from ..task import LabFinding, LabTask

if TYPE_CHECKING:
    from ....validation.crash.findings import CrashReport


def crashed(task: LabTask) -> LabFinding:
    """Every wanted verdict comes out.

    ``scenario`` is the student's file, or ``judge`` one of the lab's own. ``schemes`` (``{desk}`` stands for the
    student's folder) and ``set`` change fields. ``wanted`` maps conditions to verdicts. ``faults``
    are faults to explore one after the other. ``keep`` names fields that must
    be as in the starter.
    """
    refused = changed(task)
    if refused:
        return refused
    overrides = [f"{key}={json.dumps(value)}" for key, value in (task.given("set") or {}).items()]
    if task.given("schemes"):
        overrides.append(f"schemes={json.dumps([_at_desk(task, name) for name in task.given('schemes')])}")
    path = task.file(task.given("scenario")) if task.given("scenario") else task.material(task.given("judge"))
    for fault in task.given("faults") or [None]:
        more = () if fault is None else (f"crash.fault={fault}",)
        for report in reports(str(path), (*overrides, *more)):
            found = {str(condition): str(verdict) for condition, verdict in report.verdicts.items()}
            for condition, verdict in task.given("wanted").items():
                if found.get(condition) != verdict:
                    return _missed(task, report, condition, verdict, found.get(condition, "not judged"))
    return LabFinding(True)


def _at_desk(task: LabTask, name: str) -> str:
    """A scheme's name with the student's folder in it; the file has to be there."""
    if "{desk}" not in name:
        return name
    task.file(name.partition("{desk}/")[2].partition(":")[0].partition("[")[0])
    return name.replace("{desk}", task.desk.as_posix())


def as_expected(task: LabTask) -> LabFinding:
    """The student's ``expect`` names each of ``conditions`` for each variant, and each is what comes out."""
    refused = changed(task)
    if refused:
        return refused
    from ....scenarios.schema.load import load_scenario

    path = str(task.file(task.given("scenario")))
    scenario = load_scenario(path)
    for variant in scenario.variants():
        said = expected(scenario.expect, variant.scheme, variant.label)
        for condition in task.given("conditions"):
            if condition not in said:
                where = f"{variant.scheme} on {variant.label}"
                otherwise = "{where}: expect says nothing of {condition}."
                return LabFinding(False, (task.say(["silent"], otherwise, where=where, condition=condition),))
    for report in reports(path, ()):
        said = expected(scenario.expect, report.scheme, report.platform)
        found = {str(condition): str(verdict) for condition, verdict in report.verdicts.items()}
        for condition in task.given("conditions"):
            if said[condition] != found.get(condition):
                return _missed(task, report, condition, said[condition], found.get(condition, "not judged"))
    return LabFinding(True)


def reports(scenario: str, overrides: tuple[str, ...]) -> Iterator[CrashReport]:
    """What power failures leave, of one variant of a scenario after the other."""
    from ....scenarios.schema.load import load_scenario

    for index in range(len(load_scenario(scenario, overrides).variants())):
        found = perform(Job(scenario, overrides, None, index, True, slider=False), lambda done: None).crash
        assert found is not None
        yield found


def changed(task: LabTask) -> LabFinding | None:
    """The finding that a field was changed that is to stay, so that nobody passes with a run of nothing."""
    for name in task.given("keep") or ():
        mine = read_yaml(task.file(task.given("scenario"))).mapping("a scenario").get(name)
        theirs = read_yaml(task.material(task.given("scenario"))).mapping("a scenario").get(name)
        if mine != theirs:
            otherwise = "{field} is not what it was in the starter: this question is about the others."
            return LabFinding(False, (task.say([f"changed {name}", "changed"], otherwise, field=name),))
    return None


def _missed(task: LabTask, report: CrashReport, condition: str, wanted: str, found: str) -> LabFinding:
    """The message for a verdict that is another one, with the smallest counterexample if there is one."""
    example = next((one for one in report.counterexamples if str(one.condition) == condition), None)
    places = sorted({fate.place for fate in example.lost}) if example else []
    where = f"{report.scheme} on {report.platform}"
    where = where.replace(f"{task.desk.as_posix()}/", "")
    names = [f"{condition} {found} {report.platform}", *(f"{condition} lost in {place}" for place in places)]
    names += [f"{condition} {found}", found]
    otherwise = "{where}: {condition} {found}, where it should be {wanted}."
    text = task.say(names, otherwise, where=where, condition=condition, found=found, wanted=wanted)
    bad = report.violating_states.get(Condition(condition), 0)
    states = f"{count(bad)} of {plural(report.states, 'crash state')}" if bad else plural(report.states, "crash state")
    head = f"{where}, {report.fault} at every instant: {condition} {found} ({states})."
    if example is None:
        return LabFinding(False, (head, text))
    lines = [*heading(report, example), "", *timeline(example)]
    return LabFinding(False, (head, text), tuple(lines), dict(example.case))
