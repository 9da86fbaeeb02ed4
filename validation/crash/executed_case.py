"""A run in which a fault was executed, as evidence: at which instant, and which bytes had arrived by then.

Such a case is a scenario of its own: it is run without the fault for its instants, and then with the fault at each of
them, until the violation shows.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, Self

from typing_extensions import override

from ...models.durability.places import IN_WORDS, Place
from ...protocols.failures import LOST, POWER, PROCESS
from ...protocols.guarantees import Condition
from ...scenarios.build import Draft
from ...scenarios.history import History, Operation, Value
from ...scenarios.run.clients import describe
from ...scenarios.run.inject import Aftermath
from ...scenarios.run.results import RunResult
from ...scenarios.schema.fields import exact_duration
from ...scenarios.schema.schema import Scenario, Variant
from ...sim.trace import Stage
from ...sim.units import format_us
from .case import Case, Evidence, Sought, find, performed
from .executed import Breach, judge_state, walk_of
from .findings import LineFate, TimelineRow
from .story import lost_lines
from .subjects import label as named

TRIED_AT_MOST = 400
"""After how many runs of smaller scenarios, of all conditions, no more of these are tried: a choice, half a minute.
Where each of thirty operations is needed it would take three thousand."""
WIRE = "wire"
"""In the place of a line's place: the message has not come so far."""
_FAILS = {POWER: "loses power", PROCESS: "its process dies", LOST: "is lost for good"}


class CutMessage(NamedTuple):
    """A one-sided message of an operation that the fault cut short: not all of its bytes arrive."""

    label: str
    """Whose message it is."""
    name: str
    """What begins at its address."""
    device: int
    address: int
    arrived_bytes: int
    n_bytes: int


class _Tried:
    """A scenario's fault at one instant after the other, executed as far as somebody has asked."""

    def __init__(self, scenario: Scenario, variant: Variant, conditions: Sequence[Condition], since_ps: int) -> None:
        self.walk, _ = walk_of(scenario, variant)
        self._conditions = conditions
        instants = (at_ps for at_ps in self.walk.instants if at_ps >= since_ps)
        self._states = self.walk.states(instants, lambda _: None)  # a repeated state violates what the one before does
        self._found: dict[Sought, Breach] = {}
        """The first of each kind, in the order of their states."""

    def first(self, sought: Sought) -> Breach | None:
        """The earliest violation that is one of what is sought; states that are known by now are not executed again."""
        known = (breach for kind, breach in self._found.items() if _is(kind, sought))
        return next(known, None) or next(self.each(sought), None)

    def each(self, sought: Sought) -> Iterator[Breach]:
        """The violations of what is sought in the states that have not been looked at, in their order."""
        for state in self._states:
            for breach in judge_state(state, self._conditions).values():
                kind = Sought(breach.condition, named(breach.object), breach.acknowledged)
                self._found.setdefault(kind, breach)
                if _is(kind, sought):
                    yield breach
                del breach
            del state


def _is(kind: Sought, sought: Sought) -> bool:
    return kind[:2] == (sought.condition, named(sought.object)) and kind.acknowledged >= sought.acknowledged


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
    def find(
        cls, scenario: Scenario, variant: Variant, sought: Sought, *, telling: bool = False, since_ps: int = 0
    ) -> Self | None:
        """Execute the fault at one instant after the other until the condition breaks at the object of that name.

        If ``telling``, and no memory comes back, the first that cuts a message in the middle, if there is one: it tells
        more than a message of which nothing has come.
        """
        tried = _Tried(scenario, variant, [sought.condition], since_ps)
        return cls._told(tried, sought) if telling and not tried.walk.returns else cls.first(tried, sought)

    @classmethod
    def first(cls, tried: _Tried, sought: Sought) -> Self | None:
        """The evidence at the earliest instant."""
        breach = tried.first(sought)
        return None if breach is None else cls(tried.walk.whole.result, breach, breach.aftermath.result)

    @classmethod
    def _told(cls, tried: _Tried, sought: Sought) -> Self | None:
        first = None
        for breach in tried.each(sought):
            evidence = cls(tried.walk.whole.result, breach, breach.aftermath.result)
            if any(message.arrived_bytes for message in evidence.cut_messages()):
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

    def cut_messages(self) -> list[CutMessage]:
        """The messages of which not all arrives. Where a machine without clients fails these are the ones to it: what
        its peers do not send any more is their choice.
        """
        labels = map(describe, self._cut_short())
        found = [message for label in labels for message in _cut_short(self.before, self.result, label)]
        parts = [part for strike in self.violation.state.strikes for part in strike.parts]
        if not parts or any(part.client for part in parts):
            return found
        struck, devices = {part.place for part in parts}, self.before.system.devices()
        return [message for message in found if devices[message.device][0].name in struck]

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
        """The messages of which not all arrives, and the lines that memory has lost which came back."""
        fault, found = case.scenario.crash.fault, []
        for label, name, number, address, there, length in self.cut_messages():
            node, device = self.before.system.devices()[number]
            had = f"bytes 0 to {there - 1} of {length} arrive" if there else f"none of {length} bytes arrives"
            why = f"{fault.in_words} before the rest has left" if fault.client else "the rest finds no queue pair"
            found.append(LineFate(node.name, device.name, address, name, f"WRITE, {label}", WIRE, f"{had}; {why}"))
        for image in self.violation.state.images:
            found += lost_lines(self.result.system, image.example.items(), image.back_ps)
        return found

    @override
    def timeline(self, case: Case, lost: Sequence[LineFate]) -> list[TimelineRow]:
        at_ps, fault = self.violation.instant_ps, case.scenario.crash.fault
        own = {operation.number for operation in case.performed()}
        rows = [row for o in case.history.operations for row in self._rows(o, fresh=o.number not in own)]
        rows += self._acceptances()
        rows += self._machines(case.scenario)
        for outage in case.scenario.outages:
            node, core = outage.core.split(" ", 1)
            rows.append(TimelineRow(outage.at_ps, node, f"{core} pauses for {exact_duration(outage.for_ps)}"))
        strikes = self.violation.state.strikes
        first = replace(fault, parts=strikes[0].parts, everyone=False, then=None)
        crash = [TimelineRow(at_ps, "", first.in_words, "CRASH")]
        cut_ps = {part.place: strike.at_ps for strike in strikes for part in strike.parts if part.kind == POWER}
        for fate in lost:
            where = "" if fate.place == WIRE else f" may still be in {IN_WORDS[Place(fate.place)]}"
            lost_ps = at_ps if fate.place == WIRE else cut_ps.get(fate.node, at_ps)
            row = TimelineRow(lost_ps, fate.node, f"{fate.label}{where}: {fate.reason}", "LOST")
            (crash if lost_ps == at_ps else rows).append(row)
        rows.sort(key=lambda row: row.time_ps)
        crash += [TimelineRow(at_ps, *packets, "LOST") for packets in self._packets()]
        return [*(r for r in rows if r.time_ps <= at_ps), *crash, *(r for r in rows if r.time_ps > at_ps)]

    def _packets(self) -> Iterator[tuple[str, str]]:
        """The packets that were on their way from a machine that failed and did not arrive: its name, and which."""
        for strike in self.violation.state.strikes:
            for machine, by_number in strike.last_ps.items():
                for number, until_ps in by_number.items():
                    when = f"queue pair {number}: packets behind {format_us(until_ps)} us"
                    yield machine, f"{when} may not have left yet, and never arrive"

    def _machines(self, scenario: Scenario) -> list[TimelineRow]:
        """What becomes of the machines that fail: those behind the first fail then, and some come back."""
        state, aftermath = self.violation.state, self.aftermath
        rows = []
        for strike in state.strikes[1:]:
            for part in strike.parts:
                rows.append(TimelineRow(strike.at_ps, part.place, _FAILS[part.kind]))
        for strike in state.strikes:
            back_ps = strike.at_ps + scenario.crash.away_ps
            for part in strike.parts if back_ps <= self.result.system.clock.now_ps else ():
                if self.result.scheme.comes_back(part):
                    rows.append(TimelineRow(back_ps, part.place, "power is back"))
        if aftermath.recovered_ps is not None:
            scheme = self.result.scheme
            for part in state.strikes[-1].parts:
                if not part.client and not scheme.roles[part.role][part.index].passive:
                    rows.append(TimelineRow(aftermath.recovered_ps, part.place, "recovered, listens again"))
        return rows

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
        found: dict[tuple[str, int], tuple[int, int, int, int]] = {}
        for chunk in self.result.system.trace.chunks:
            if chunk.writer.startswith("WRITE, "):
                message = chunk.writer, chunk.device
                first = found.get(message, (chunk.device, chunk.address, 0, 0))
                accepted_ps = chunk.reached_ps[Stage.ACCEPTED]
                found[message] = (first[0], min(first[1], chunk.address), first[2] + len(chunk.data), accepted_ps)
        devices = self.result.system.devices()
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


def _cut_short(before: RunResult, after: RunResult, label: str) -> list[CutMessage]:
    """The one-sided messages of an operation that the run without the fault wrote, and the one with it not whole."""
    found = []
    for key, whole in _messages(before, label).items():
        came = _messages(after, label).get(key, {})
        n_bytes, arrived_bytes = sum(map(len, whole.values())), sum(map(len, came.values()))
        if arrived_bytes < n_bytes:
            device, address = min(whole)
            name = before.system.devices()[device][1].name_of(address)
            found.append(CutMessage(label, name, device, address, arrived_bytes, n_bytes))
    return found


def _messages(result: RunResult, label: str) -> dict[tuple[str, int], dict[tuple[int, int], bytes]]:
    """By verb and device: what arrived of the messages of an operation, by device and address."""
    found: dict[tuple[str, int], dict[tuple[int, int], bytes]] = {}
    for chunk in result.system.trace.chunks:
        verb, _, whose = chunk.writer.partition(", ")
        if whose == label and not verb.startswith(("store", "ntstore")):
            found.setdefault((verb, chunk.device), {})[chunk.device, chunk.address] = chunk.data
    return found


class ExecutedOnce:
    """Looks through scenarios as :func:`.case.find` does, and executes each state of one once for all conditions."""

    def __init__(self, conditions: Iterable[Condition]) -> None:
        self._conditions = tuple(conditions)
        self._tried: dict[tuple[str, int], _Tried] = {}

    def enough(self, scenario: Scenario) -> bool:
        """Whether a scenario is not worth its runs: so many have been made, and none of it."""
        many = sum(tried.walk.runs for tried in self._tried.values()) >= TRIED_AT_MOST
        return many and _name(scenario, 0) not in self._tried

    def __call__(
        self,
        kind: type[Evidence[Any]],
        scenario: Scenario,
        variant: Variant,
        sought: Sought,
        *,
        telling: bool = False,
        since_ps: int = 0,
    ) -> Case | None:
        name = _name(scenario, since_ps)
        tried = self._tried.get(name)
        if tried is None:
            tried = self._tried[name] = _Tried(scenario, variant, self._conditions, since_ps)
        if telling and not tried.walk.returns:
            return find(kind, scenario, variant, sought, telling=True, since_ps=since_ps)
        evidence = ExecutedFault.first(tried, sought)
        return None if evidence is None else Case(scenario, variant, evidence)


def _name(scenario: Scenario, since_ps: int) -> tuple[str, int]:
    return json.dumps(scenario.resolved(), sort_keys=True), since_ps
