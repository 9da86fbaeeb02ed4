"""A violation after an executed fault, made small and told: fewest operations, and which bytes had arrived.

A case is a scenario of its own: it is run without the fault for its instants, and then with the fault at each of them,
until the violation shows. Every candidate is simulated and executed anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product

from ...protocols.guarantees import Condition
from ...scenarios.arguments import OutageFields
from ...scenarios.build import Draft
from ...scenarios.history import History, Operation, written
from ...scenarios.run.experiment import describe
from ...scenarios.run.inject import Aftermath, arrived, instants
from ...scenarios.run.perfetto import trace_events
from ...scenarios.run.results import RunResult
from ...scenarios.run.workload import Planned, schedule_data
from ...scenarios.schema.fields import exact_duration
from ...scenarios.schema.schema import Scenario, Variant
from ...sim.trace import Stage
from .executed import Breach, breaches
from .findings import Counterexample, LineFate, TimelineRow, marks_of
from .story import CASE_FORMAT, show


@dataclass(frozen=True)
class FaultCase:
    """A scenario, its run without the fault, and the earliest instant at which the fault breaks the condition."""

    scenario: Scenario
    variant: Variant
    before: RunResult
    breach: Breach

    @property
    def aftermath(self) -> Aftermath:
        return self.breach.aftermath


def find(
    scenario: Scenario, variant: Variant, condition: Condition, name: object, acknowledged: bool, *, any_will_do: bool
) -> FaultCase | None:
    """Execute a scenario's fault at one instant after the other until the condition breaks at the object of that name.

    The first instant, or if not ``any_will_do`` the first that cuts a message in the middle, if there is one: it tells
    more than a message of which nothing has come.
    """
    before, every = instants(scenario, variant)
    first = None
    for at_ps in every:
        breach = breaches(scenario, variant, at_ps, [condition])[1].get(condition)
        if breach is None or str(breach.object) != str(name) or breach.acknowledged < acknowledged:
            continue
        case = FaultCase(scenario, variant, before, breach)
        if any_will_do or any(there for *_, there, _ in _cut_messages(case)):
            return case
        first = first or case
    return first


def shrink(scenario: Scenario, variant: Variant, breach: Breach) -> FaultCase:
    """The smallest case found for a breach: no operation can be left out."""
    history = breach.aftermath.history
    outages = [(outage.core, outage.at_ps, outage.for_ps) for outage in scenario.outages]
    outages += breach.aftermath.result.outages
    performed = [o for o in history.operations if o.process < _processes(scenario)]

    room: int | None = None

    def attempt(chosen: Iterable[Planned], *, any_will_do: bool = True) -> FaultCase | None:
        planned = list(chosen)
        if not planned:
            return None
        listed: list[OutageFields] = [
            {"core": core, "at": exact_duration(at), "for": exact_duration(ps)} for core, at, ps in outages
        ]
        workload = schedule_data(scenario.workload, planned, room)
        draft = Draft.of(scenario.from_schedule(breach.schedule), f"{scenario.name} (shrunk)")
        draft = draft.with_(workload=workload, outages=listed)
        small = draft.set({"crash.schedules": 1, "crash.instants": "all"}).build()
        like = (breach.condition, breach.object, breach.acknowledged)
        return find(small, variant, *like, any_will_do=any_will_do)

    best = None
    ways = (_named(history, breach, performed), [o for o in performed if o.object == breach.object], performed)
    for as_large, chosen in product((None, breach.aftermath.result.scheme.sizes.updates), ways):
        room = as_large  # where a log is cleaned when it is full, its size matters
        best = attempt(_planned(operation, history) for operation in chosen)
        if best is not None:
            break
    assert best is not None, f"the violation of {breach.condition} does not show again in its own run"
    turn = 0
    planned = _of(best)
    while turn < len(planned):
        smaller = attempt(planned[:turn] + planned[turn + 1 :])
        if smaller is None:
            turn += 1
        else:
            best, planned = smaller, _of(smaller)
    first_ps = min(operation.not_before_ps for operation in planned)
    if not outages:
        shifted = [replace(o, not_before_ps=o.not_before_ps - first_ps, stamp=None) for o in planned]
        planned = _of(attempt(shifted) or best)
    return attempt(planned, any_will_do=False) or best


def _processes(scenario: Scenario) -> int:
    clients = scenario.role("client")
    return clients.machines * clients.processes


def _named(history: History, breach: Breach, performed: Sequence[Operation]) -> list[Operation]:
    """What the flaw names, who wrote what was read there, and what the crash cut short on the object."""
    named = {operation.number for operation in breach.flaw.operations}
    read = {o.result for o in breach.flaw.operations if isinstance(o.result, int)}
    crashed = {crash.process for crash in history.crashes}
    return [
        o
        for o in performed
        if o.number in named
        or (o.object == breach.object and o.f in history.updates and o.argument in read)
        or (o.object == breach.object and o.outcome != "ok" and (o.process in crashed or None in crashed))
    ]


def _planned(operation: Operation, history: History) -> Planned:
    stamp = operation.argument if isinstance(operation.argument, int) else None
    is_update = operation.f in history.updates
    return Planned(operation.process, operation.f, str(operation.object), is_update, operation.invoke_ps, stamp)


def _of(case: FaultCase) -> list[Planned]:
    history = case.aftermath.history
    return [_planned(o, history) for o in history.operations if o.process < _processes(case.scenario)]


# telling it --------------------------------------------------------------------------------------------------------


def tell(case: FaultCase) -> Counterexample:
    """The counterexample that a case is."""
    breach, history = case.breach, case.aftermath.history
    lost = tuple(_fates(case))
    read = breach.flaw.operations[0] if breach.flaw.operations else None
    rows = _timeline(case, lost)
    return Counterexample(
        condition=breach.condition,
        instant_ps=breach.at_ps,
        operations=len(_of(case)),
        object=breach.object,
        lost=lost,
        recovered=None if read is None or read.f in history.updates else read.result,
        explanation=breach.flaw.explanation,
        timeline=tuple(rows),
        trace=trace_events(case.aftermath.result, marks=marks_of(rows)),
        case={
            "case": CASE_FORMAT,
            "scheme": case.variant.scheme,
            "platform": case.variant.label,
            "condition": str(breach.condition),
            "object": str(breach.object),
            "instant_ps": breach.at_ps,
            "acknowledged": breach.acknowledged,
            "lines_lost": [f"{fate.node} {fate.device} {fate.label}" for fate in lost],
            "scenario": case.scenario.resolved(),
        },
    )


def _cut_short(case: FaultCase) -> list[Operation]:
    """The updates that were under way when the fault came, of those whom it killed or cut off."""
    at_ps, crashed = case.breach.at_ps, {crash.process for crash in case.aftermath.history.crashes}
    history = case.aftermath.history
    return [
        o
        for o in history.operations
        if o.f in history.updates
        and (o.process in crashed or None in crashed)
        and o.invoke_ps <= at_ps
        and (o.return_ps is None or o.return_ps > at_ps)
    ]


def _cut_messages(case: FaultCase) -> list[tuple[str, str, int, int, int, int]]:
    """The messages of which not all arrives: (whose, then as ``arrived`` has it)."""
    labels = map(describe, _cut_short(case))
    return [(label, *row) for label in labels for row in arrived(case.before, case.aftermath.result, label)]


def _fates(case: FaultCase) -> list[LineFate]:
    """The messages of which not all arrives: which bytes do, and why the rest never will."""
    fault, found = case.scenario.crash.fault, []
    for label, name, number, address, there, length in _cut_messages(case):
        node, device = case.before.system.devices()[number]
        had = f"bytes 0 to {there - 1} of {length} arrive" if there else f"none of {length} bytes arrives"
        why = f"{fault.in_words} before the rest has left" if fault.client else "the rest finds no queue pair"
        found.append(LineFate(node.name, device.name, address, name, f"WRITE, {label}", "wire", f"{had}; {why}"))
    return found


def _timeline(case: FaultCase, lost: Sequence[LineFate]) -> list[TimelineRow]:
    at_ps, aftermath, fault = case.breach.at_ps, case.aftermath, case.scenario.crash.fault
    rows = [row for operation in aftermath.history.operations for row in _rows(case, operation)]
    rows += _acceptances(case)
    if aftermath.recovered_ps is not None:
        rows.append(TimelineRow(aftermath.recovered_ps, f"{fault.role}[{fault.index}]", "recovered, listens again"))
    for outage in case.scenario.outages:
        node, core = outage.core.split(" ", 1)
        rows.append(TimelineRow(outage.at_ps, node, f"{core} pauses for {exact_duration(outage.for_ps)}"))
    rows.sort(key=lambda row: row.time_ps)
    crash = [TimelineRow(at_ps, "", fault.in_words, "CRASH")]
    crash += [TimelineRow(at_ps, fate.node, f"{fate.label}: {fate.reason}", "LOST") for fate in lost]
    return [*(r for r in rows if r.time_ps <= at_ps), *crash, *(r for r in rows if r.time_ps > at_ps)]


def _rows(case: FaultCase, operation: Operation) -> list[TimelineRow]:
    fresh = operation.process >= _processes(case.scenario)
    side = "fresh client" if fresh else f"client {operation.process}"
    what = f"{operation.f} {operation.object}{written(operation.argument)}"
    if fresh and operation.object != case.breach.object:
        return []
    rows = [TimelineRow(operation.invoke_ps, side, f"{what}  invoke")]
    if operation.return_ps is not None:
        found = f" -> {show(operation.result)}" if operation.f not in case.aftermath.history.updates else ""
        rows.append(TimelineRow(operation.return_ps, side, f"{what}{found}  {operation.outcome}"))
    return rows


def _acceptances(case: FaultCase) -> list[TimelineRow]:
    """When the last that arrived of each WRITE was taken in by the server's adapter."""
    found: dict[str, tuple[int, int, int, int]] = {}
    chunks = case.aftermath.result.system.trace.chunks
    for chunk in chunks:
        if chunk.writer.startswith("WRITE, "):
            first = found.get(chunk.writer, (chunk.device, chunk.address, 0, 0))
            accepted_ps = chunk.reached_ps[Stage.ACCEPTED]
            found[chunk.writer] = (first[0], min(first[1], chunk.address), first[2] + len(chunk.data), accepted_ps)
    devices = case.before.system.devices()
    rows = []
    for number, address, n_bytes, at_ps in found.values():
        node, device = devices[number]
        rows.append(TimelineRow(at_ps, node.name, f"{device.name_of(address)}: {n_bytes} bytes staged in the NIC"))
    return rows
