"""The mutation score of flush primitives: as that of schemes, with faults in their steps."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from ...models.primitives.writer import dump_primitive
from ...protocols.primitives import primitive
from .fates import SECONDS, FateVerdict, FaultOutcome, guarded
from .score import Fate, reasons
from .shown import Shown
from .steps import ALL_WAYS, Refused, StepFault, TrialSetting, ask, settings, step_faults
from .store import digest
from .work import Work

SHAPES = ["word over no-flush"]
"""The scheme whose modules every shape over a primitive is made of."""
_Task = tuple[str, int, tuple[tuple[str, tuple[str, ...]], ...]]
"""A primitive, the number of the fault, and by setting what is kept there without it."""


def score_primitives(names: Sequence[str], work: Work, *, quick: bool = False) -> list[Fate]:
    """The fate of every seeded fault of shipped primitives; of a ``quick`` look one of each kind."""
    chosen = settings(quick)
    planted = {name: list(_sample(name, quick)) for name in names}
    pairs = [(name, setting.name) for name in names if planted[name] for setting in chosen]
    work.expect(len(pairs) + sum(map(len, planted.values())))
    shown = work.do(pairs, [digest(SHAPES, _text(name), setting) for name, setting in pairs], _shown)
    tasks = [(name, number, _kept(name, chosen, shown)) for name in names for number in planted[name]]
    digests = [digest(SHAPES, _text(name), number, dump_primitive(_fault(name, number).mutant), kept)
               for name, number, kept in tasks]  # fmt: skip
    verdicts = work.do(tasks, digests, _fate)
    return [_told(task, verdicts[task]) for task in tasks]


def _sample(name: str, quick: bool) -> Iterator[int]:
    kinds = set()
    for number, fault in enumerate(_faults(name)):
        if not quick or fault.kind not in kinds:
            kinds.add(fault.kind)
            yield number


def _shown(pair: tuple[str, str]) -> dict[str, Any]:
    """What is broken of a primitive as it is. Plain data."""
    try:
        found = ask(primitive(pair[0]), _setting(pair[1]))
    except Refused:
        return {"broken": sorted(ALL_WAYS), "exhaustive": False}
    return {"broken": sorted(found.broken), "exhaustive": found.exhaustive}


def _kept(
    name: str, chosen: Sequence[TrialSetting], shown: Mapping[tuple[str, str], Any]
) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """By setting: the ways of breaking conditions that it does not show there."""
    found = []
    for setting in chosen:
        row = shown[name, setting.name]
        if row["exhaustive"] and (kept := ALL_WAYS.difference(row["broken"])):
            found.append((setting.name, tuple(sorted(kept))))
    return tuple(found)


def _fate(task: _Task) -> dict[str, Any]:
    name, number, keeps = task
    found, mutant = FateVerdict(), _fault(name, number).mutant
    for setting, kept in keeps:
        one, began = Shown(frozenset()), time.process_time()
        with guarded(found, name, setting):
            try:
                one = ask(mutant, _setting(setting), kept)
            except Refused as error:
                found.note(FaultOutcome.BROKEN, name, f"{setting}: {error}")
        broken = sorted(one.broken.intersection(kept))
        if broken:
            return {"outcome": str(FaultOutcome.FOUND), "how": f"{setting}: {broken[0]}", "scheme": name}
        if time.process_time() - began >= 0.9 * SECONDS:
            break
    ended = found.ended()
    return {"outcome": str(ended.outcome), "how": ended.how, "scheme": ended.scheme}


def _told(task: _Task, row: Mapping[str, Any]) -> Fate:
    name, number, keeps = task
    fault, outcome = _fault(name, number), FaultOutcome(row["outcome"])
    what = f"{fault.operator} {fault.text}"
    reason = reasons().get(f"{name} {what}", "")
    told = (fault.kind, fault.operator, what, outcome, row["how"], row["scheme"])
    return Fate(f"primitives/{name}.yaml", fault.line, (name,), *told, bool(keeps), reason, row.get("cpu_s", 0.0))


def _setting(name: str) -> TrialSetting:
    return {setting.name: setting for setting in settings()}[name]


@cache
def _faults(name: str) -> tuple[StepFault, ...]:
    return tuple(step_faults(name))


def _fault(name: str, number: int) -> StepFault:
    return _faults(name)[number]


@cache
def _text(name: str) -> str:
    return dump_primitive(primitive(name))
