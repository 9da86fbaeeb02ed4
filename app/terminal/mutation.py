"""The output of ``rpsim mutate`` for planted faults: the score by kind and by scheme, who survives and why."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from ...validation.mutation.fates import FaultOutcome
from ...validation.mutation.kinds import KINDS
from ...validation.mutation.score import Fate, stale
from .text import paragraph, plural, table

UNKNOWN = "nobody has looked into it yet"
SHARED, PRIMITIVES = "what schemes share", "flush primitives"


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
        """The share of faults found, among the faults that run at all; None if none does."""
        running = self.faults - self.broken
        return self.found / running if running else None

    def row(self) -> dict[str, object]:
        """The counts as JSON."""
        return {**asdict(self), "kill_rate": self.rate}


def count(fates: Iterable[Fate]) -> Count:
    """The counts of the fates by outcome."""
    known = list(fates)
    of = [fate.outcome for fate in known]
    found, broken, undecided = map(of.count, (FaultOutcome.FOUND, FaultOutcome.BROKEN, FaultOutcome.UNDECIDED))
    return Count(len(known), found, broken, undecided, round(sum(fate.cpu_s for fate in known), 1))


def by_kind(fates: Sequence[Fate]) -> dict[str, Count]:
    """Counts by kind, in the order of the catalogue; a kind that nothing could be planted of has no faults."""
    return {kind: count(fate for fate in fates if fate.kind == kind) for kind in KINDS}


def by_scheme(fates: Sequence[Fate]) -> dict[str, Count]:
    """Counts by the owner of the file: schemes by name, the code that they share, primitives."""
    homes = sorted({_home(fate) for fate in fates}, key=lambda home: (home in (SHARED, PRIMITIVES), home))
    return {home: count(fate for fate in fates if _home(fate) == home) for home in homes}


def _home(fate: Fate) -> str:
    if fate.module.endswith(".yaml"):
        return PRIMITIVES
    return ", ".join(fate.schemes) or SHARED


def document(names: list[str], fates: Sequence[Fate], quick: bool) -> dict[str, object]:
    """The answer as JSON: counts, then every fault."""
    whole = count(fates)
    return {
        "schemes": names,
        "quick": quick,
        "faults": whole.faults,
        "killed": whole.found,
        "broken": whole.broken,
        "undecided": whole.undecided,
        "kill_rate": whole.rate,
        "unexplained": sum(not fate.explained for fate in fates),
        "stale_reasons": [fate.fault for fate in stale(fates)],
        "kinds": {kind: one.row() for kind, one in by_kind(fates).items()},
        "by_scheme": {home: one.row() for home, one in by_scheme(fates).items()},
        "fates": [asdict(fate) for fate in fates],
    }


def text(name: str, fates: Sequence[Fate]) -> list[str]:
    """The score by kind and by scheme, then the survivors with their reasons, as lines of a terminal."""
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
        never = "is false in no trial" if fate.operator == "believe" else "no trial comes here"
        reached = "" if fate.reached else f" ({never})"
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
