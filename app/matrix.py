"""``rpsim.matrix`` from Python: flush primitives x platforms, as ``rpsim matrix`` has them, as fields and records."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from typing_extensions import override

from ..protocols.guarantees import Verdict
from ..protocols.primitives import known_primitives
from ..protocols.shapes import shaped
from ..sim.errors import InputError, Mistake
from ..sim.units import parse_bytes
from ..validation.crash.findings import Counterexample
from ..validation.matrix.configurations import configurations
from ..validation.matrix.judging import FAULT
from ..validation.matrix.rows import PrimitiveRow, RowJob, row
from ..validation.matrix.rows import shapes as checked_shapes
from .arguments import listed, whole
from .terminal import matrix as matrix_text
from .terminal.progress import performed
from .terminal.timeline import timeline

SHAPES = ("word", "line", "pair", "log", "other-qp")
"""The shapes that are judged unless others are given."""


@dataclass(frozen=True)
class MatrixCase:
    """A counterexample: one lost update of a primitive on a platform."""

    primitive: str
    platform: str
    shape: str
    condition: str
    explanation: str
    example: Counterexample = field(repr=False, compare=False)

    def timeline(self) -> str:
        """The actions of each side and the losses: a picture in text of 80 columns."""
        head = f"{self.shape} over {self.primitive} on {self.platform}: {self.condition} VIOLATED"
        return "\n".join([head, "", *timeline(self.example)])


@dataclass(frozen=True)
class MatrixAnswer:
    """The guarantees and costs of primitives on platforms; ``print`` shows the tables of ``rpsim matrix``."""

    rows: tuple[PrimitiveRow, ...] = field(repr=False)
    """A row for each primitive and platform."""
    seed: int

    @property
    def verdicts(self) -> dict[str, dict[str, str]]:
        """By primitive and platform the worst verdict of all conditions; refused: it cannot be used there."""
        worst: dict[str, dict[str, str]] = {}
        for one in self.rows:
            found = one.found.values()
            order = (Verdict.VIOLATED, Verdict.UNDECIDED, Verdict.HOLDS)
            worst.setdefault(one.primitive, {})[one.configuration.label] = next(
                (str(verdict) for verdict in order if verdict in found), "refused"
            )
        return worst

    @property
    def cases(self) -> tuple[MatrixCase, ...]:
        """A counterexample for each primitive, platform and shape that is not durable."""
        found = []
        for one in self.rows:
            for shape, cell in one.findings.items():
                if (example := cell.counterexample) is not None:
                    place = one.primitive, one.configuration.label, shape
                    found.append(MatrixCase(*place, str(example.condition), cell.why, example))
        return tuple(found)

    def records(self) -> list[dict[str, Any]]:
        """One dict for each primitive, platform, shape and condition: for pandas or polars."""
        return [
            {
                "primitive": one.primitive,
                "platform": one.configuration.label,
                "fault": FAULT,
                "seed": self.seed,
                "shape": shape,
                "condition": condition,
                "verdict": verdict,
                "claimed": condition in one.claimed,
                "states": cell.states,
                "exhaustive": cell.exhaustive,
                "why": cell.why,
            }
            for one in self.rows
            for shape, cell in one.findings.items()
            for condition, verdict in cell.verdicts.items()
        ]

    def costs(self) -> list[dict[str, Any]]:
        """One dict for each primitive, platform and size: latency, the responder's CPU time, bytes on the wire."""
        return [
            {
                "primitive": one.primitive,
                "platform": one.configuration.label,
                "size_bytes": size,
                "p50_ns": cost.p50_ns,
                "p99_ns": cost.p99_ns,
                "responder_cpu_ns": cost.cpu_ns,
                "wire_bytes": cost.wire_bytes,
            }
            for one in self.rows
            for size, cost in one.costs.latency.items()
        ]

    @override
    def __str__(self) -> str:
        return "\n".join([*matrix_text.lines(self.rows, {}), "", *matrix_text.closing(self.rows)])

    def _repr_html_(self) -> str:
        from .pages import matrix, notebook

        entries = {"seed": self.seed, "rows": matrix_text.document(self.rows, {})}
        return notebook.frame(matrix.page(self.rows, entries), notebook.TALL)


def matrix(
    primitives: Sequence[str] | None = None,
    *,
    platforms: Sequence[str] = ("quick",),
    shapes: Sequence[str] = SHAPES,
    sizes: Sequence[str] = ("64 B",),
    queue_pairs: Sequence[int] = (1,),
    seed: int = 1,
    jobs: int = 1,
) -> MatrixAnswer:
    """Judge flush primitives on platforms by exploring power failures, and measure what they cost.

    ``primitives`` are names or paths of files (default: all shipped ones). ``platforms`` are ``quick`` (ADR and eADR,
    DDIO on and off), ``usual``, ``every``, labels such as ``"adr, ddio on"``, or platforms. ``shapes`` say what is
    persisted, ``sizes`` are those of the updates that are timed (``"64 B"``), ``queue_pairs`` the numbers of queue
    pairs that throughput is measured with. Raises InputError with all mistakes at once.
    """
    names = list(known_primitives()) if primitives is None else listed("primitives", primitives, str, "primitives")
    platforms = listed("platforms", platforms, str, "platforms")
    shapes = listed("shapes", shapes, str, "shapes")
    sizes = listed("sizes", sizes, str, "sizes with their units, as in '64 B'")
    pairs = tuple(
        whole("queue_pairs", number, "whole numbers of queue pairs")
        for number in listed("queue_pairs", queue_pairs, int, "whole numbers of queue pairs")
    )
    whole("seed", seed, "a whole number", 0)
    whole("jobs", jobs, "a whole number of processes")
    mistakes: list[Mistake] = []
    for name in names:
        try:
            shaped(f"word over {name}")
        except InputError as error:
            mistakes += error.mistakes
    try:
        where = configurations(platforms)
    except InputError as error:
        mistakes += error.mistakes
    try:
        judged = checked_shapes(shapes)
    except InputError as error:
        mistakes += error.mistakes
    timed = []
    for text in sizes:
        try:
            timed.append(parse_bytes(text))
        except ValueError:
            mistakes.append(Mistake(f"{text!r}", "sizes with their units, as in '64 B'", field="argument sizes"))
    if mistakes:
        raise InputError([replace(one, field=re.sub("^--", "argument ", one.field or "")) for one in mistakes])
    todo = [RowJob(name, one, judged, tuple(timed), pairs, seed) for name in names for one in where]
    return MatrixAnswer(tuple(performed("matrix", row, todo, jobs)), seed)
