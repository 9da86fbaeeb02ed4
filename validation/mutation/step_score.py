"""The mutation score of flush primitives: as that of schemes, with faults in their steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...models.primitives.writer import dump_primitive
from ...sim.jobs.code import digest
from .fates import FaultOutcome
from .score import Fate, reasons
from .step_fates import StepTask, fate_of, faults_of, shown_of, step_fault, text_of
from .steps import ALL_WAYS, TrialSetting, settings
from .work import Work


def score_primitives(names: Sequence[str], work: Work, *, quick: bool = False) -> list[Fate]:
    """The fate of every seeded fault of shipped primitives; of a ``quick`` look one of each kind."""
    chosen = settings(quick)
    planted = {name: list(_sample(name, quick)) for name in names}
    pairs = [(name, setting.name) for name in names if planted[name] for setting in chosen]
    work.expect(len(pairs) + sum(map(len, planted.values())))
    shown = work.do(pairs, [digest(shown_of, [text_of(name), setting]) for name, setting in pairs], shown_of)
    tasks = [(name, number, _kept(name, chosen, shown)) for name in names for number in planted[name]]
    digests = [
        digest(fate_of, [*task, text_of(task[0]), dump_primitive(step_fault(*task[:2]).mutant)]) for task in tasks
    ]
    verdicts = work.do(tasks, digests, fate_of)
    return [_fate(task, verdicts[task]) for task in tasks]


def _sample(name: str, quick: bool) -> Iterator[int]:
    kinds = set()
    for number, fault in enumerate(faults_of(name)):
        if not quick or fault.kind not in kinds:
            kinds.add(fault.kind)
            yield number


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


def _fate(task: StepTask, row: Mapping[str, Any]) -> Fate:
    name, number, keeps = task
    fault, outcome = step_fault(name, number), FaultOutcome(row["outcome"])
    what = f"{fault.operator} {fault.text}"
    reason = reasons().get(f"{name} {what}", "")
    labels = (fault.kind, fault.operator, what, outcome, row["how"], row["scheme"])
    return Fate(f"primitives/{name}.yaml", fault.line, (name,), *labels, bool(keeps), reason, row.get("cpu_s", 0.0))
