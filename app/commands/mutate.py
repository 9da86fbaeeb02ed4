"""``rpsim mutate``: faults planted in a scheme's code, and how many of them the judge finds."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from ...protocols.primitives import known_primitives
from ...protocols.scheme import schemes
from ...sim.errors import InputError, Mistake, nearest
from ...validation.mutation.fates import FaultOutcome
from ...validation.mutation.kinds import KINDS
from ...validation.mutation.score import Fate, score, stale
from ...validation.mutation.step_score import score_primitives
from ...validation.mutation.work import Work
from ..terminal.output import as_json, writable
from ..terminal.progress import bar
from ..terminal.text import paragraph, plural, table

UNKNOWN = "nobody has looked into it yet"
KEPT = ".mutate-fates.jsonl"
SHARED, PRIMITIVES = "what schemes share", "flush primitives"


def main(options: argparse.Namespace) -> int:
    """Plant, judge, print; returns 0 if every fault that survives has a reason, else 1."""
    subject, primitives = options.subject, known_primitives()
    name = "all schemes and primitives" if subject is None else subject
    asked = [one for known, one in schemes().items() if subject in (None, known)]
    steps = [one for one in primitives if subject in (None, one)]
    if not asked and not steps:
        both = [*schemes(), *primitives]
        expected = f"a scheme ({', '.join(schemes())}) or a flush primitive (rpsim list primitives)"
        raise InputError(Mistake(f"'{subject}'", expected, nearest=nearest(subject, both)))
    kept = writable(options.out) / KEPT
    with bar("mutate", 0) as shown:

        def advance(number: int, total: int) -> None:
            shown.total = total
            shown.update(number - shown.n)

        work = Work(options.jobs, kept, advance)
        fates = score(asked, work, shared=options.shared or subject is None, quick=options.quick) if asked else []
        fates += score_primitives(steps, work, quick=options.quick)
    if options.json:
        print(as_json(_document([*(one.name for one in asked), *steps], fates, options.quick)), end="")
    else:
        print("\n".join(text(name + (", a sample" if options.quick else ""), fates)))
    return int(any(not fate.told for fate in fates))


@dataclass(frozen=True)
class Count:
    """How many faults there are, what became of them, and for how long they were tried."""

    faults: int
    found: int
    broken: int
    undecided: int
    cpu_s: float

    @property
    def rate(self) -> float | None:
        """How many are found, of those that run at all; None if none does."""
        running = self.faults - self.broken
        return self.found / running if running else None

    def row(self) -> dict[str, object]:
        """For JSON."""
        return {**asdict(self), "kill_rate": self.rate}


def count(fates: Iterable[Fate]) -> Count:
    """Count outcomes."""
    known = list(fates)
    of = [fate.outcome for fate in known]
    found, broken, undecided = map(of.count, (FaultOutcome.FOUND, FaultOutcome.BROKEN, FaultOutcome.UNDECIDED))
    return Count(len(known), found, broken, undecided, round(sum(fate.cpu_s for fate in known), 1))


def by_kind(fates: Sequence[Fate]) -> dict[str, Count]:
    """In the order of the catalogue; what is nowhere to plant has no faults."""
    return {kind: count(fate for fate in fates if fate.kind == kind) for kind in KINDS}


def by_scheme(fates: Sequence[Fate]) -> dict[str, Count]:
    """By whose file they are in: schemes by name, what they share, primitives."""
    homes = sorted({_home(fate) for fate in fates}, key=lambda home: (home in (SHARED, PRIMITIVES), home))
    return {home: count(fate for fate in fates if _home(fate) == home) for home in homes}


def _home(fate: Fate) -> str:
    if fate.module.endswith(".yaml"):
        return PRIMITIVES
    return ", ".join(fate.schemes) or SHARED


def _document(names: list[str], fates: Sequence[Fate], quick: bool) -> dict[str, object]:
    whole = count(fates)
    return {
        "schemes": names,
        "quick": quick,
        "faults": whole.faults,
        "killed": whole.found,
        "broken": whole.broken,
        "undecided": whole.undecided,
        "kill_rate": whole.rate,
        "unexplained": sum(not fate.told for fate in fates),
        "stale_reasons": [fate.fault for fate in stale(fates)],
        "kinds": {kind: one.row() for kind, one in by_kind(fates).items()},
        "by_scheme": {home: one.row() for home, one in by_scheme(fates).items()},
        "fates": [asdict(fate) for fate in fates],
    }


def text(name: str, fates: Sequence[Fate]) -> list[str]:
    """What is printed: the score by kind and by scheme, then the survivors with their reasons."""
    kinds, whole = by_kind(fates), count(fates)
    lines = [f"{name}: faults planted in the code, one at a time", ""]
    lines += [*_rows("fault", {**{kind: one for kind, one in kinds.items() if one.faults}, "all": whole}), ""]
    nowhere = [kind for kind, one in kinds.items() if not one.faults]
    if nowhere:
        lines += [*paragraph(f"nowhere to plant: {', '.join(nowhere)}", 0, 2), ""]
    schemes_ = by_scheme(fates)
    if len(schemes_) > 1:
        lines += [*_rows("in the code of", schemes_), ""]
    if whole.broken:
        words = "broken: the code fails by itself, and anybody sees it; not in the score"
        lines += [*paragraph(words, 0, 2), ""]
    for fate in (fate for fate in fates if fate.outcome is FaultOutcome.UNDECIDED):
        lines += [*_fault(fate), *paragraph(f"undecided, the judge fails: {fate.how}", indent=6), ""]
    survivors = [fate for fate in fates if fate.outcome is FaultOutcome.SURVIVES]
    if survivors:
        known = sum(bool(fate.reason) for fate in survivors)
        lines += [f"not found: {plural(len(survivors), 'fault')}, {known} with a known reason", ""]
    for fate in survivors:
        reached = "" if fate.reached else " (no trial comes here)"
        lines += [*_fault(fate), *paragraph((fate.reason or UNKNOWN) + reached, indent=6), ""]
    if old := stale(fates):
        lines += ["found, though there is a reason why not: take it out of reasons.yaml", ""]
    for fate in old:
        lines += [*_fault(fate), *paragraph(f"{fate.outcome}: {fate.how}", indent=6), ""]
    return lines[:-1]


def _fault(fate: Fate) -> list[str]:
    file = fate.module if fate.module.endswith(".yaml") else f"{fate.module}.py"
    return paragraph(f"{file}:{fate.line}  {fate.fault}", indent=2, hang=4)


def _rows(head: str, counts: Mapping[str, Count]) -> list[str]:
    rows = [
        (name, str(one.faults), str(one.found), str(one.broken or ""), _share(one.rate)) for name, one in counts.items()
    ]
    return list(table((head, "planted", "found", "broken", "score"), rows))


def _share(rate: float | None) -> str:
    return "" if rate is None else f"{rate:.0%}"
