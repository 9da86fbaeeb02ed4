"""Rows of the matrix of primitives: a job for each, and its findings (plain data that pickles)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ...protocols.guarantees import Condition, Verdict, claimed
from ...protocols.shapes import shaped
from ...sim.errors import InputError, Mistake, nearest
from .configurations import Configuration
from .judging import FAULT, VALUES, CellFinding, judge
from .timing import QUEUE_PAIRS, SIZES, Costs, measure


@dataclass(frozen=True)
class RowJob:
    """A primitive on a configuration: the shapes that are judged, the sizes and queue pairs that are timed."""

    primitive: str
    configuration: Configuration
    shapes: tuple[str, ...] = tuple(VALUES)
    sizes: tuple[int, ...] = SIZES
    queue_pairs: tuple[int, ...] = QUEUE_PAIRS
    seed: int = 1


@dataclass
class PrimitiveRow:
    """The findings of a job."""

    primitive: str
    configuration: Configuration
    claimed: dict[str, str]
    """Condition -> ``holds``, where the primitive's source claims it."""
    findings: dict[str, CellFinding] = field(default_factory=dict)
    """By shape."""
    costs: Costs = field(default_factory=Costs)

    @property
    def found(self) -> dict[str, str]:
        """The verdict of each condition over all shapes but the ones that split the primitive between queue pairs."""
        worst: dict[str, str] = {}
        for finding in self.whole.values():
            for condition, verdict in finding.verdicts.items():
                worst[condition] = max(worst.get(condition, Verdict.HOLDS), verdict, key=_SEVERITY.index)
        return worst

    @property
    def whole(self) -> dict[str, CellFinding]:
        """The findings of the shapes that the primitive itself answers for: one run of it makes one update durable."""
        return {shape: finding for shape, finding in self.findings.items() if shape not in ("other-qp", "log")}

    @property
    def refuted(self) -> list[str]:
        """Conditions that its source claims here and that are violated."""
        return [condition for condition in self.claimed if self.found.get(condition) == Verdict.VIOLATED]


_SEVERITY = [str(Verdict.HOLDS), str(Verdict.UNDECIDED), str(Verdict.VIOLATED)]


def row(job: RowJob) -> PrimitiveRow:
    """Judge and measure the primitive of a job."""
    words, claims = job.configuration.words(), shaped(f"word over {job.primitive}").primitive.claims
    said = {Condition(name): where for name, where in claims.items()}
    answer = PrimitiveRow(
        job.primitive,
        job.configuration,
        {str(name): str(Verdict.HOLDS) for name in said if claimed(said, name, words, FAULT)},
    )
    for shape in job.shapes:
        answer.findings[shape] = judge(f"{shape} over {job.primitive}", job.configuration, seed=job.seed)
    if not any(finding.refused for finding in answer.findings.values()):
        sizes, pairs = job.sizes, job.queue_pairs
        answer.costs = measure(job.primitive, job.configuration, sizes=sizes, queue_pairs=pairs, seed=job.seed)
    return answer


def shapes(names: Sequence[str]) -> tuple[str, ...]:
    """Checked names of shapes; raises InputError with the nearest."""
    for name in names:
        if name not in VALUES:
            expected, close = f"a shape: {', '.join(VALUES)}", nearest(name, VALUES)
            raise InputError(Mistake(f"'{name}'", expected, field="--shapes", nearest=close))
    return tuple(dict.fromkeys(names))
