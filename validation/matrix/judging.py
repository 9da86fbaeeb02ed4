"""One cell of the matrix: a shape over a primitive on one configuration, judged by exploring what power failures leave.

One client updates one object: once; once while the server's core is away, so that nothing may lean on its being quick;
three times; where there is a second queue pair, once while the responder's adapter holds up the first; and once for
each instant at which the server's core has stored, fenced or posted, with the core away from there on. A schedule is
tried only for conditions that the ones before have left open. All instants of a run and all images that the ordering
rules admit are judged, as in ``rpsim crash``; the first violation of each condition is kept as it is, since a run of
one update has nothing to leave out.

Where a shape checks its words itself (``line``, ``page``) or reads an entry only through a pointer (``pair``), lines
tear as wholes: a line that is torn within is no better there than a missing one, and images are 2**8 times fewer.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

from ...models.durability.places import IN_WORDS, Place
from ...protocols.guarantees import Condition, Verdict
from ...protocols.shapes import SHAPES
from ...scenarios.arguments import OperationFields
from ...scenarios.build import Draft
from ...scenarios.run.experiment import run_variant
from ...scenarios.run.results import RunResult
from ...scenarios.schema.schema import Scenario, Variant
from ..crash.case import Case, tell
from ..crash.derived import LeftState
from ..crash.explore import explore
from ..crash.explorer import ASKED, Exploration, Explorer
from ..crash.findings import Counterexample
from .configurations import Configuration

FAULT = "server[0] power"
VALUES = {"word": "8 B", "line": "48 B", "page": "3072 B", "log": "64 B", "pair": "64 B", "other-qp": "8 B"}
"""The size of a value for each shape, so that messages are as large as the shape says."""
AWAY = "100 us"
"""How long the server's core is away, or its adapter holds up a queue pair: longer than any primitive takes else."""


class Interleaving(NamedTuple):
    """How many updates, and who is slow."""

    updates: int = 1
    away: bool = False
    """The server's core is away at first."""
    held: bool = False
    """The server's adapter holds up the first queue pair."""
    paused: tuple[str, int] | None = None
    """A core that is away from an instant on."""


SCHEDULES = (Interleaving(), Interleaving(away=True), Interleaving(3))
SHOWN = (Condition.NO_LOST_ACK, Condition.DURABLE, Condition.COMMITTED)
"""Conditions in the order in which the counterexample to show is looked for."""
BUDGET = 600
"""States of a schedule after which a condition without a violation is undecided."""


@dataclass
class CellFinding:
    """The verdicts and counterexamples of a cell."""

    verdicts: dict[str, str] = field(default_factory=dict)
    """Condition -> verdict; empty where the primitive cannot be used."""
    states: int = 0
    exhaustive: bool = True
    refused: str = ""
    """Why the primitive cannot be used here."""
    examples: dict[str, Counterexample] = field(default_factory=dict)
    """By violated condition."""

    def add(self, condition: Condition, verdict: Verdict) -> None:
        """The verdict of one more schedule: the worst of all counts."""
        before = self.verdicts.get(condition, Verdict.HOLDS)
        if before == Verdict.HOLDS or verdict == Verdict.VIOLATED:
            self.verdicts[str(condition)] = str(verdict)

    @property
    def durable(self) -> bool:
        """Whether no condition is violated or open."""
        return bool(self.verdicts) and all(verdict == Verdict.HOLDS for verdict in self.verdicts.values())

    @property
    def counterexample(self) -> Counterexample | None:
        """The counterexample to show: of the first violated condition of ``SHOWN``."""
        return next((self.examples[str(name)] for name in SHOWN if str(name) in self.examples), None)

    @property
    def why(self) -> str:
        """In a phrase, why it is not durable; empty where it is."""
        if self.refused:
            return self.refused
        example = self.counterexample
        if example is None:
            undecided = [name for name, verdict in self.verdicts.items() if verdict == Verdict.UNDECIDED]
            return f"undecided: {', '.join(undecided)}" if undecided else ""
        return phrase(example)


def phrase(example: Counterexample) -> str:
    """A counterexample in a phrase: the lost bytes, where they may have been, and the verbs that did not force
    them on.
    """
    if not example.lost:
        return example.explanation
    first = example.lost[0]
    return f"{first.label} may still be in {IN_WORDS[Place(first.place)]}: {first.reason}"


def draft(
    scheme: str,
    configuration: Configuration,
    value: str,
    schedule: Interleaving = SCHEDULES[0],
    seed: int = 1,
    *,
    fault: str = FAULT,
    away: Sequence[str] = ("server[0]",),
) -> Draft:
    """The scenario of a cell: one client, one object, a few updates one after the other; ``away`` are the machines of
    which a core is away where the schedule has one away.
    """
    gone = [(f"{one} core 0", 0) for one in away if schedule.away] + ([schedule.paused] if schedule.paused else [])
    shape = scheme.partition(" over ")[0]
    atomicity = "word" if shape in ("word", "log", "other-qp") else "whole"
    operation: OperationFields = {"process": 0, "f": "put", "object": "k0"}
    return Draft.new(
        "matrix",
        scenario="matrix",
        title=f"{scheme} on {configuration.label}",
        seed=seed,
        vary=configuration.vary(line_atomicity=atomicity),
        schemes=[scheme],
        workload={"kind": "schedule", "keys": 1, "value": value, "operations": [operation] * schedule.updates},
        crash={"fault": fault},
        outages=[{"core": core, "at": f"{at_ps} ps", "for": AWAY} for core, at_ps in gone],
        held=[{"machine": "server[0]", "queue_pair": 1, "for": AWAY}] if schedule.held else None,
    )


def judge(
    scheme: str,
    configuration: Configuration,
    *,
    value: str | None = None,
    seed: int = 1,
    schedules: tuple[Interleaving, ...] = SCHEDULES,
    fault: str = FAULT,
    away: Sequence[str] = ("server[0]",),
    budget: int = BUDGET,
) -> CellFinding:
    """Explore a cell; ``scheme`` is the name of a shape or of a group (``line over read-after-write``)."""
    found = CellFinding()
    shape = scheme.partition(" over ")[0]
    size = value or VALUES.get(shape, VALUES["line"])
    if shape in SHAPES and SHAPES[shape].queue_pairs > 1:
        schedules = (*schedules, Interleaving(held=True))
    make = partial(draft, scheme, configuration, size, seed=seed, fault=fault, away=away)
    for schedule in itertools.chain(schedules, pauses(make)):
        open_ = [c for c in ASKED if found.verdicts.get(str(c)) != Verdict.VIOLATED]
        if not open_ or found.refused:
            break
        _explore(make(schedule=schedule).build(), open_, found, budget)
    return found


def pauses(make: Callable[..., Draft]) -> Iterator[Interleaving]:
    """One update, once for each instant at which a server's core has stored, fenced or posted, with the core away from
    there on: the requester may not lean on what it does behind that. ``make`` drafts the scenario of a schedule.

    None where somebody survives the fault: there each instant is a run.
    """
    scenario = make(schedule=Interleaving()).build()
    if not scenario.crash.fault.executed:
        for core, at_ps in dict.fromkeys(run_variant(scenario, scenario.variants()[0], watched=True).may_pause):
            yield Interleaving(paused=(core, at_ps))


def _explore(scenario: Scenario, conditions: list[Condition], found: CellFinding, budget: int) -> None:
    variant = scenario.variants()[0]
    result = run_variant(scenario, variant)
    refused = getattr(result.scheme, "refused", None)
    if refused:
        found.verdicts, found.refused = {}, str(refused)
        return
    if scenario.crash.fault.executed:
        _execute(scenario, variant, result, conditions, found)
        return
    explorer = Explorer(result, conditions=conditions)

    def all_violated(now: Exploration) -> bool:
        return all(now.loses(condition, acknowledged=True) for condition in conditions)

    exploration = explorer.walk(until=all_violated, budget=budget)
    found.states += exploration.states
    for condition in conditions:
        found.add(condition, exploration.verdict(condition))
        if condition in exploration.first:
            evidence = LeftState(result, explorer, exploration.first[condition])
            found.examples[str(condition)] = tell(Case(scenario, variant, evidence))
    found.exhaustive = Verdict.UNDECIDED not in found.verdicts.values()


def _execute(
    scenario: Scenario, variant: Variant, result: RunResult, conditions: Sequence[Condition], found: CellFinding
) -> None:
    """The same for a fault that somebody survives: each instant is a run of its own."""
    report = explore(result, scenario, variant, also=conditions)
    found.states += report.states
    for condition in conditions:
        found.add(condition, report.verdicts[condition])
    found.examples |= {str(example.condition): example for example in report.counterexamples}
    found.exhaustive = found.exhaustive and report.exhaustive
