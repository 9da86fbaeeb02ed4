"""Faults planted in flush primitives: a step left out, two in the wrong order, an end that comes too early.

A primitive is data, so a fault is another primitive; one whose steps cannot be executed in its order is none. Each is
tried under elementary updates of the matrix (docs/matrix.md), on a few of its platforms.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from ...models.primitives.language import Primitive, Step
from ...models.primitives.plan import is_requester, problems
from ...models.primitives.vocabulary import UPDATE
from ...models.primitives.writer import dump_primitive
from ...protocols.primitives import primitive
from ...protocols.shapes import shape_name, shaped
from ...scenarios.run.experiment import run_variant
from ..crash.explorer import ASKED
from ..matrix.configurations import Configuration, configurations
from ..matrix.judging import BUDGET, VALUES, Interleaving, draft, pauses
from . import kinds
from .shown import Shown, Telling, ways

SHAPES = ("word", "pair")
"""A value in place, and an entry that must be durable before what points at it."""
PLATFORMS = ("adr, ddio on", "adr, ddio off", "eadr, ddio on", "pmr, barrier by read", "pmr, barrier by PMRSTS")
SCHEDULES = (Interleaving(away=True), Interleaving(2))


@dataclass(frozen=True)
class StepFault:
    """A primitive with a fault in it."""

    operator: str
    text: str
    line: int
    kind: str
    mutant: Primitive


@dataclass(frozen=True)
class TrialSetting:
    """A shape on a platform, under which a primitive is tried."""

    shape: str
    configuration: Configuration

    @property
    def name(self) -> str:
        return f"{self.shape}, {self.configuration.label}"


def settings(quick: bool = False) -> list[TrialSetting]:
    """All of them; for a quick look the first shape alone."""
    return [TrialSetting(shape, one) for shape in SHAPES[: 1 if quick else None] for one in configurations(PLATFORMS)]


def step_faults(name: str) -> Iterator[StepFault]:
    """All seeded faults of a shipped primitive, in the order of its steps."""
    whole = replace(primitive(name), options={}, chosen={}, name=name)
    for turn, step in enumerate(whole.steps):
        text = f"{step.id} ({step.place}: {step.do})"
        yield from _possible("drop", text, step, _kind(step), _without(whole, turn))
        if turn + 1 < len(whole.steps):
            behind = whole.steps[turn + 1]
            both = f"{step.id} <-> {behind.id}"
            yield from _possible("swap", both, step, _kind_of_order(step, behind), _swapped(whole, turn))
    if whole.complete != UPDATE:
        text, early = f"complete: {whole.complete} -> {UPDATE}", replace(whole, complete=UPDATE)
        yield from _possible("hasten", text, whole.steps[-1], kinds.FENCE, early)


def _possible(operator: str, text: str, step: Step, kind: str, mutant: Primitive) -> Iterator[StepFault]:
    if not problems(mutant):
        yield StepFault(operator, text, step.line or 0, kind, mutant)


def _without(whole: Primitive, turn: int) -> Primitive:
    gone = whole.steps[turn]
    rest = []
    for step in (*whole.steps[:turn], *whole.steps[turn + 1 :]):
        after = [name for each in step.after for name in (gone.after if each == gone.id else (each,))]
        rest.append(replace(step, after=tuple(dict.fromkeys(after))))
    before = whole.steps[turn - 1].id if turn else UPDATE
    return replace(whole, steps=tuple(rest), complete=before if whole.complete == gone.id else whole.complete)


def _swapped(whole: Primitive, turn: int) -> Primitive:
    first, second = whole.steps[turn : turn + 2]
    later = [
        replace(step, after=tuple(first.id if each == second.id else each for each in step.after))
        for step in whole.steps[turn + 2 :]
    ]
    both = replace(second, after=first.after), replace(first, after=(second.id,))
    posted = whole.complete == second.id and is_requester(second)  # a message ends it wherever it stands
    complete = first.id if posted else whole.complete
    return replace(whole, steps=(*whole.steps[:turn], *both, *later), complete=complete)


def _kind(step: Step) -> str:
    """What leaving out a step is, as an engineer would call it."""
    if step.do == "read" or step.parameters.get("verb") == "READ":
        return kinds.READ_BACK
    if step.do in ("flush", "write back", "invalidate") or step.parameters.get("verb") == "FLUSH":
        return kinds.FLUSH
    return kinds.FENCE if step.do in ("fence", "wait", "drain", "poll") else kinds.STEP


def _kind_of_order(first: Step, second: Step) -> str:
    publishes = [_publishes(step) for step in (first, second)]
    return kinds.SWAP if any(publishes) and not all(publishes) else kinds.ORDER


def _publishes(step: Step) -> bool:
    """Whether a step informs another agent: an answer, a reply, a flag."""
    signals = ("acknowledge", "notify", "reply", "complete", "write flag", "store flag")
    return step.do in signals or step.parameters.get("address") == "flag"


# the trials ---------------------------------------------------------------------------------------------------------
class Refused(Exception):
    """The primitive cannot be used there."""


def ask(one: Primitive, setting: TrialSetting, kept: Collection[str] = ()) -> Shown:
    """The broken ways of an elementary update over a shipped primitive, or over one with a fault in it, by its name.

    The first broken one of ``kept`` ends the trial. Messages that stay in their receive buffers are received in
    persistent memory. Raises :class:`Refused` where an adapter does not know its verbs.
    """
    broken: set[str] = set()
    exhaustive = True
    buffered = shaped(shape_name(setting.shape, one.name)).stays_in_buffers()
    device = "pm" if buffered else None  # elsewhere whatever stays there would be lost anyway
    with TemporaryDirectory() as folder:
        file = Path(folder) / f"{one.name}.yaml"
        file.write_text(dump_primitive(one), encoding="utf-8")
        scheme = shape_name(setting.shape, str(file), device=device)
        make = partial(draft, scheme, setting.configuration, VALUES[setting.shape])
        for schedule in itertools.chain(SCHEDULES, pauses(make)):
            scenario = make(schedule=schedule).build()
            result = run_variant(scenario, scenario.variants()[0])
            if refused := getattr(result.scheme, "refused", None):
                raise Refused(str(refused))
            explorer = Telling(result, ASKED)
            explorer.broken = broken
            found = explorer.walk(until=lambda _: not broken.isdisjoint(kept), budget=BUDGET if kept else 10 * BUDGET)
            exhaustive = exhaustive and found.exhaustive
            if not broken.isdisjoint(kept):
                break
    return Shown(frozenset(broken), exhaustive)


ALL_WAYS = ways(ASKED)
"""All ways in which an elementary update can be broken."""
