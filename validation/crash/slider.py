"""The crash slider's data: a small run, and for every instant what may be where and what recovery would return."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace
from itertools import islice
from typing import Any

from ...models.durability.places import PLACES, Domain
from ...models.durability.views import LineKey
from ...protocols.guarantees import Condition, Verdict
from ...scenarios.build import Draft
from ...scenarios.history import Operation, Value, shown
from ...scenarios.run.experiment import run_variant
from ...scenarios.run.results import RunResult
from ...scenarios.run.workload import schedule_data
from ...scenarios.schema.load import scenario_from_data
from ...scenarios.schema.schema import Scenario, Variant
from ...sim.bytespace import LINE_BYTES
from ...sim.trace import NEVER, Stage
from .case import planned
from .explorer import Explorer
from .findings import CrashReport
from .subjects import Follower, Subject, by_object, concerned, follow, follower, label

IMAGES = 64
"""How many images of an object one position of the slider looks at, at most."""

VALUES = 5
"""How many values it lists."""


def slider_data(report: CrashReport, result: RunResult, scenario: Scenario, variant: Variant) -> dict[str, Any]:
    """What ``app``'s slider draws, as plain data; times in picoseconds."""
    example = next(
        (c for c in report.counterexamples if c.condition is Condition.NO_LOST_ACK),
        report.counterexamples[0] if report.counterexamples else None,
    )
    if example is not None:
        small = scenario_from_data(example.case["scenario"], scenario.name)
    else:
        small = _put_and_get(result, scenario)
    run = run_variant(small, variant)
    return _Slider(run, variant).data()


def _put_and_get(result: RunResult, scenario: Scenario) -> Scenario:
    """A scenario of just one update of the run and, once it has returned, one read of the same object."""
    operations = result.history.operations
    update = next((o for o in operations if o.f in result.history.updates), operations[0])
    read = next((o for o in operations if o.f not in result.history.updates and o.process != update.process), None)
    few = [replace(planned(update, result.history), not_before_ps=0, stamp=None)]
    if read is not None and update.return_ps is not None:
        again_ps = update.return_ps - update.invoke_ps
        few.append(replace(planned(read, result.history), object=few[0].object, not_before_ps=again_ps))
    return Draft.of(scenario).with_(workload=schedule_data(scenario.workload, few)).build()


class _Slider:
    def __init__(self, run: RunResult, variant: Variant) -> None:
        self.run = run
        self.variant = variant
        self.explorer = Explorer(run, only={operation.object for operation in run.history.operations})
        self.subjects = sorted(self.explorer.subjects(), key=lambda one: label(one.object))
        self.of = by_object(self.subjects)
        self.outcomes = {one.key: self.explorer.outcomes(one) for one in self.subjects}
        self.followers: dict[Hashable, Follower] = {one.key: follower(one, run) for one in self.subjects}
        written = sorted(self.explorer.views.pieces)
        self.lines: list[LineKey] = [key for key in written if self._changes(key)] or written

    def data(self) -> dict[str, Any]:
        steps = [self._step(at_ps, keys, events) for at_ps, keys, events in self._instants()]
        devices = self.run.system.devices()
        first = self.run.history.operations[0]
        return {
            "scheme": self.variant.scheme,
            "platform": self.variant.label,
            "title": f"{_words(first)} by client {first.process}, then a power failure",
            "domain": str(next(iter(self.explorer.restart.domains.values()), Domain.NONE)),
            "operations": [self._operation(operation) for operation in self.run.history.operations],
            "lines": [self._line(turn, key) for turn, key in enumerate(self.lines)],
            "steps": steps,
            "devices": sorted({f"{devices[key[0]][0].name} {devices[key[0]][1].name}" for key in self.lines}),
        }

    def _instants(self) -> list[tuple[int, list[LineKey], list[tuple[str, Operation]]]]:
        """Where something may change, and where in this timing a line went from one place to the next."""
        instants = {at_ps: (at_ps, keys, events) for at_ps, keys, events in self.explorer.instants()}
        for key in self.lines:
            for _, at_ps in self._journey(key):
                if at_ps is not None:
                    instants.setdefault(at_ps, (at_ps, [], []))
        return [instants[at_ps] for at_ps in sorted(instants)]

    @staticmethod
    def _operation(operation: Operation) -> dict[str, Any]:
        value = operation.argument if operation.argument is not None else operation.result
        return {
            "number": operation.number,
            "process": operation.process,
            "f": operation.f,
            "object": label(operation.object),
            "value": shown(value),
            "invoke_ps": operation.invoke_ps,
            "return_ps": operation.return_ps,
        }

    def _line(self, turn: int, key: LineKey) -> dict[str, Any]:
        node, device = self.run.system.devices()[key[0]]
        piece = self.explorer.views.pieces[key][-1]
        return {
            "id": turn,
            "node": node.name,
            "device": device.name,
            "address": key[1] * LINE_BYTES,
            "label": device.name_of(key[1] * LINE_BYTES),
            "writer": piece.chunk.writer,
            "places": self._journey(key),
        }

    def _changes(self, key: LineKey) -> bool:
        """Whether a write has other bytes than the line held at first: the rest of a page is often zeros, as before."""
        initial = self.explorer.restart.initial(key)
        pieces = self.explorer.views.pieces[key]
        return any(piece.data != initial[piece.start : piece.start + len(piece.data)] for piece in pieces)

    def _journey(self, key: LineKey) -> list[tuple[str, int | None]]:
        """When the last write of a line was where in this timing."""
        piece = self.explorer.views.pieces[key][-1]
        reached = [_or_none(ps) for ps in piece.chunk.reached_ps]
        for seen_ps, queued_ps, stored_ps in self.run.system.trace.write_backs.get(key, ()):
            if seen_ps >= piece.chunk.reached_ps[Stage.VISIBLE] and reached[Stage.QUEUED] is None:
                reached[Stage.QUEUED], reached[Stage.STORED] = queued_ps, stored_ps
        return [(str(place), ps) for place, ps in zip(PLACES[piece.chunk.path], reached, strict=True)]

    def _step(self, at_ps: int, keys: list[LineKey], events: list[tuple[str, Operation]]) -> dict[str, Any]:
        for kind, operation in events:
            for subject in concerned(self.of, operation):
                follow(self.followers[subject.key], kind, operation, at_ps)
        what = [f"{_words(operation)}: {kind}" for kind, operation in events]
        what += sorted({self._moved(key, at_ps) for key in keys})
        for key in self.lines:
            name = self._name(key)
            what += [f"{name} in {place}" for place, ps in self._journey(key)[1:] if ps == at_ps and key not in keys]
        return {
            "ps": at_ps,
            "what": "; ".join(what) or "before anything happens",
            "lines": [self._survival(turn, key, at_ps) for turn, key in enumerate(self.lines)],
            "objects": [self._object(one, at_ps) for one in self.subjects],
        }

    def _moved(self, key: LineKey, at_ps: int) -> str:
        entered = any(piece.enters_ps == at_ps for piece in self.explorer.views.pieces[key])
        return f"{self._name(key)} {'written' if entered else 'certainly durable'}"

    def _name(self, key: LineKey) -> str:
        """The line's name, with its machine's in front where lines of several machines are shown."""
        devices = self.run.system.devices()
        node, device = devices[key[0]]
        name = device.name_of(key[1] * LINE_BYTES)
        return f"{node.name} {name}" if len({devices[line[0]][0].name for line in self.lines}) > 1 else name

    def _survival(self, turn: int, key: LineKey, at_ps: int) -> dict[str, Any]:
        views = self.explorer.views
        entered = [piece for piece in views.pieces[key] if piece.enters_ps <= at_ps]
        if not entered:
            return {"id": turn, "may_be": [], "survives": "absent"}
        last = entered[-1]
        places = views.places(last.chunk, at_ps)
        may_be = [str(place) for place in dict.fromkeys(PLACES[last.chunk.path]) if place in places]
        return {"id": turn, "may_be": may_be, "survives": "yes" if last.must_ps <= at_ps else "maybe"}

    def _object(self, subject: Subject, at_ps: int) -> dict[str, Any]:
        follows, name = self.followers[subject.key], subject.object
        images = list(islice(self.outcomes[subject.key].at(at_ps), IMAGES + 1))
        all_made_it = self.explorer.newest(subject, at_ps)
        values = list(dict.fromkeys([*(outcome.value for outcome in images[:2]), all_made_it]))
        values = list(dict.fromkeys([*values, *(outcome.value for outcome in images[:IMAGES])]))
        written = [o.argument for o in self.run.history.operations if o.object == name and o.argument is not None]
        candidates = values if subject.from_scratch else [0, *written]
        allowed = [value for value in candidates if not follows.judge(value)]
        verdicts: dict[str, str] = {}
        note = ""
        for condition in sorted(subject.conditions):
            wrong: list[Value] = [value for value in values if condition in follows.judge(value)]
            verdicts[str(condition)] = str(Verdict.VIOLATED if wrong else Verdict.HOLDS)
            if wrong and not note:
                note = follows.explain(wrong[0], condition)
        listed = [shown(value) for value in values[:VALUES]]
        if len(values) > VALUES:
            more = "at least " if len(images) > IMAGES else ""
            listed.append(f"({more}{len(values) - VALUES} more)")
        return {
            "object": label(name),
            "recovered": listed,
            "allowed": [shown(value) for value in allowed],
            "verdicts": verdicts,
            "note": note,
        }


def _words(operation: Operation) -> str:
    return operation.text


def _or_none(at_ps: int) -> int | None:
    return at_ps if at_ps < NEVER else None
