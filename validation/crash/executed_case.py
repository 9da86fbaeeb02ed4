"""A run in which a fault was executed, as evidence: at which instant, and which bytes had arrived by then.

Such a case is a scenario of its own: it is run without the fault for its instants, and then with the fault at each of
them, until the violation shows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Self

from typing_extensions import override

from ...scenarios.build import Draft
from ...scenarios.history import History, Operation, Value
from ...scenarios.run.experiment import describe
from ...scenarios.run.inject import Aftermath, arrived
from ...scenarios.run.results import RunResult
from ...scenarios.schema.fields import exact_duration
from ...scenarios.schema.schema import Scenario, Variant
from ...sim.trace import Stage
from .case import Case, Evidence, Sought, performed
from .executed import Breach, judge_state, walk_of
from .findings import LineFate, TimelineRow
from .subjects import label as named


@dataclass(frozen=True)
class ExecutedFault(Evidence[Breach]):
    """The earliest instant at which the fault breaks the condition, and the run without the fault."""

    before: RunResult
    violation: Breach
    result: RunResult
    pauses_move: ClassVar[bool] = False

    @property
    def aftermath(self) -> Aftermath:
        """What became of the run after the fault."""
        return self.violation.aftermath

    @property
    @override
    def recovered(self) -> Value:
        unread = self.aftermath.unread.get(self.violation.object)
        if unread is not None:
            return unread
        operations = self.violation.flaw.operations
        read = operations[0] if operations else None
        return None if read is None or read.f in self.result.history.updates else read.result

    @classmethod
    @override
    def find(cls, scenario: Scenario, variant: Variant, sought: Sought, *, telling: bool = False) -> Self | None:
        """Execute the fault at one instant after the other until the condition breaks at the object of that name.

        If ``telling``, the first that cuts a message in the middle, if there is one: it tells more than a message of
        which nothing has come.
        """
        walk, _ = walk_of(scenario, variant)
        first = None
        for state in walk.states(walk.instants):
            breach = judge_state(state, [sought.condition]).get(sought.condition)
            if breach is None or named(breach.object) != named(sought.object):
                continue
            if breach.acknowledged < sought.acknowledged:
                continue
            evidence = cls(walk.whole.result, breach, breach.aftermath.result)
            if not telling or any(there for *_, there, _ in evidence.cut_messages()):
                return evidence
            first = first or evidence
        return first

    @classmethod
    @override
    def attempts(
        cls, scenario: Scenario, result: RunResult, violation: Breach
    ) -> Iterator[tuple[Scenario, list[Operation]]]:
        one_schedule = Draft.of(scenario).set({"crash.schedules": 1, "crash.instants": "all"}).build()
        every = performed(scenario, result.history)
        same_object = [operation for operation in every if operation.object == violation.object]
        for chosen in (_named(every, result.history, violation), same_object, every):
            yield one_schedule, chosen

    def cut_messages(self) -> list[tuple[str, str, int, int, int, int]]:
        """The messages of which not all arrives: (whose, then as ``arrived`` has it)."""
        labels = map(describe, self._cut_short())
        return [(label, *row) for label in labels for row in arrived(self.before, self.result, label)]

    def _cut_short(self) -> list[Operation]:
        """The updates that were under way when the fault came, of those whom it killed or cut off."""
        at_ps, history = self.violation.instant_ps, self.result.history
        crashed = {crash.process for crash in history.crashes}
        return [
            o
            for o in history.operations
            if o.f in history.updates
            and (o.process in crashed or None in crashed)
            and o.invoke_ps <= at_ps
            and (o.return_ps is None or o.return_ps > at_ps)
        ]

    @override
    def fates(self, case: Case) -> list[LineFate]:
        """The messages of which not all arrives: which bytes do, and why the rest never will."""
        fault, found = case.scenario.crash.fault, []
        for label, name, number, address, there, length in self.cut_messages():
            node, device = self.before.system.devices()[number]
            had = f"bytes 0 to {there - 1} of {length} arrive" if there else f"none of {length} bytes arrives"
            why = f"{fault.in_words} before the rest has left" if fault.client else "the rest finds no queue pair"
            found.append(LineFate(node.name, device.name, address, name, f"WRITE, {label}", "wire", f"{had}; {why}"))
        return found

    @override
    def timeline(self, case: Case, lost: Sequence[LineFate]) -> list[TimelineRow]:
        at_ps, fault = self.violation.instant_ps, case.scenario.crash.fault
        own = {operation.number for operation in case.performed()}
        rows = [row for o in case.history.operations for row in self._rows(o, fresh=o.number not in own)]
        rows += self._acceptances()
        if self.aftermath.recovered_ps is not None:
            where = fault.part.place
            rows.append(TimelineRow(self.aftermath.recovered_ps, where, "recovered, listens again"))
        for outage in case.scenario.outages:
            node, core = outage.core.split(" ", 1)
            rows.append(TimelineRow(outage.at_ps, node, f"{core} pauses for {exact_duration(outage.for_ps)}"))
        rows.sort(key=lambda row: row.time_ps)
        crash = [TimelineRow(at_ps, "", fault.in_words, "CRASH")]
        crash += [TimelineRow(at_ps, fate.node, f"{fate.label}: {fate.reason}", "LOST") for fate in lost]
        return [*(r for r in rows if r.time_ps <= at_ps), *crash, *(r for r in rows if r.time_ps > at_ps)]

    def _rows(self, operation: Operation, *, fresh: bool) -> list[TimelineRow]:
        """What a client did; of a fresh one only what it read of the object."""
        side = "fresh client" if fresh else f"client {operation.process}"
        what = operation.text
        if fresh and named(operation.object) != named(self.violation.object):
            return []
        rows = [TimelineRow(operation.invoke_ps, side, f"{what}  invoke")]
        if operation.return_ps is not None:
            found = operation.found if self.result.history.returns(operation.f) else ""
            rows.append(TimelineRow(operation.return_ps, side, f"{what}{found}  {operation.outcome}"))
        return rows

    def _acceptances(self) -> list[TimelineRow]:
        """When the last that arrived of each WRITE was taken in by the server's adapter."""
        found: dict[str, tuple[int, int, int, int]] = {}
        for chunk in self.result.system.trace.chunks:
            if chunk.writer.startswith("WRITE, "):
                first = found.get(chunk.writer, (chunk.device, chunk.address, 0, 0))
                accepted_ps = chunk.reached_ps[Stage.ACCEPTED]
                found[chunk.writer] = (first[0], min(first[1], chunk.address), first[2] + len(chunk.data), accepted_ps)
        devices = self.before.system.devices()
        rows = []
        for number, address, n_bytes, at_ps in found.values():
            node, device = devices[number]
            rows.append(TimelineRow(at_ps, node.name, f"{device.name_of(address)}: {n_bytes} bytes staged in the NIC"))
        return rows


def _named(every: Sequence[Operation], history: History, breach: Breach) -> list[Operation]:
    """What the flaw names, who wrote what was read there, and what the crash cut short on the object."""
    named = {operation.number for operation in breach.flaw.operations}
    read = {o.result for o in breach.flaw.operations if isinstance(o.result, int)}
    crashed = {crash.process for crash in history.crashes}
    return [
        o
        for o in every
        if o.number in named
        or (o.object == breach.object and o.f in history.updates and o.argument in read)
        or (o.object == breach.object and o.outcome != "ok" and (o.process in crashed or None in crashed))
    ]
