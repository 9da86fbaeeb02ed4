"""The scoreboard: published numbers beside the simulator's, and which of them count.

A *claim* is one published number, with the simulator's number beside it. Its status says what it may show: ``fit``
(a parameter was fitted to it), ``input`` (it is a model's input, or follows from one in closed form), ``predict`` (no
parameter knows it) and ``shape`` (a direction or a bound, no number). Only predictions count. The others say why a
paper's number is shown and does not count.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from statistics import median
from typing import Any

from typing_extensions import override

NOT_ANALYSED = "not analysed"
CHOSEN_BY = "chosen by"
"""What is said of a claim by which a reading of the paper was chosen."""
RESOLVED = 0.02
"""Two quotients that differ by less than this share count as the same: a run of 2,000 operations resolves no more."""


class ClaimStatus(StrEnum):
    """The evidence that a published number may be."""

    FIT = "fit"
    INPUT = "input"
    PREDICT = "predict"
    SHAPE = "shape"
    EITHER_OR = "either_or"
    """It excludes another claim of the paper: each is shown in its own variant."""
    CONDITION_MISSING = "condition_missing"
    """The paper does not say where it holds."""
    CONTRADICTED = "contradicted"
    """The paper contradicts it itself."""
    AMBIGUOUS_FACTOR = "ambiguous_factor"
    """It has two readings; either may be shown."""
    ARTIFACT_ONLY = "artifact_only"
    """It follows from the authors' public code, not from what the paper describes."""
    RELABEL = "relabel"
    """It is true of another system than the paper says, and shown of that one."""
    LOST_VALUE = "lost_value"
    """Its figure is lost: only an order is left."""
    LOST = "lost"
    """Nothing is left of it to compare with."""
    STRUCTURAL = "structural"
    """It follows from the protocol as written: a test of the implementation."""
    PARAMETER = "parameter"
    """An input of the paper's experiment."""
    ARITHMETIC = "arithmetic"
    """It follows from other numbers by a formula."""
    DUPLICATE = "duplicate"
    """Another claim says the same."""
    CIRCULAR = "circular"
    """A constant that stands for something else decides it."""
    EXTERNAL = "external"
    """The paper quotes it from elsewhere."""
    UNTESTABLE = "untestable"
    """It is asserted and not measured, or any result meets it."""


COUNTED = (ClaimStatus.PREDICT, ClaimStatus.FIT, ClaimStatus.SHAPE, ClaimStatus.INPUT)
"""The statuses that a summary counts by themselves; the others it only lists."""
UNGRADED = (
    ClaimStatus.LOST, ClaimStatus.STRUCTURAL, ClaimStatus.PARAMETER, ClaimStatus.ARITHMETIC, ClaimStatus.DUPLICATE,
    ClaimStatus.CIRCULAR, ClaimStatus.EXTERNAL, ClaimStatus.UNTESTABLE,
)  # fmt: skip
"""The statuses whose claims may be shown without a simulated number."""


@dataclass(frozen=True)
class Bound:
    """The bounds that a published direction sets to a number: at least, at most, or both. None: no bound on
    that side.
    """

    at_least: float | None = None
    at_most: float | None = None

    def met_by(self, value: float) -> bool:
        """Whether the number is within."""
        return (self.at_least is None or value >= self.at_least) and (self.at_most is None or value <= self.at_most)

    @override
    def __str__(self) -> str:
        parts = [("at least", self.at_least), ("at most", self.at_most)]
        return ", ".join(f"{words} {value:g}" for words, value in parts if value is not None)


@dataclass(frozen=True)
class Range:
    """The smallest and the largest of several numbers."""

    low: float
    high: float

    @override
    def __str__(self) -> str:
        return f"{self.low:.4g} to {self.high:.4g}"


@dataclass(frozen=True)
class Claim:
    """One published number and the simulator's."""

    id: str
    paper: str
    status: ClaimStatus
    published: float | Bound | Range
    simulated: float | Range
    """A range where the published number is one, or where a bound is on several numbers."""
    unit: str
    tolerance: float
    """How far off a number may be, as a share of the published one; of a gain, as a share of that gain."""
    reason: str = ""
    """Why it is missed, if that is known."""
    gain: bool = False
    """Whether the number compares two systems: a quotient that is one where they are equal (:func:`gain_met`)."""
    chosen: bool = False
    """Whether a reading of the paper was chosen by it: no evidence for that reading, so it is counted apart."""

    @property
    def error(self) -> float | None:
        """How far off the simulator is, as a share of the published number (at the worse end); None for a direction."""
        if isinstance(self.published, Bound):
            return None
        published, simulated = _ends(self.published), _ends(self.simulated)
        return max(((b - a) / a for a, b in zip(published, simulated, strict=True)), key=abs)

    @property
    def met(self) -> bool:
        """Whether the simulator is near enough."""
        if isinstance(self.published, Bound):
            return all(self.published.met_by(value) for value in _ends(self.simulated))
        near = gain_met if self.gain else _number_met
        pairs = zip(_ends(self.published), _ends(self.simulated), strict=True)
        return all(near(published, simulated, self.tolerance) for published, simulated in pairs)

    def row(self) -> dict[str, Any]:
        """The claim as a row of JSON data, in digits enough to judge it by them."""
        error = self.error
        ends = [f"{end:.6g}" for end in dict.fromkeys(_ends(self.simulated))]
        return {
            "id": self.id,
            "paper": self.paper,
            "status": str(self.status),
            "published": self.published if isinstance(self.published, float | int) else str(self.published),
            "simulated": " to ".join(ends) if isinstance(self.simulated, Range) else float(ends[0]),
            "unit": self.unit,
            "error": None if error is None else round(error, 4),
            "tolerance": self.tolerance,
            "met": self.met,
            "reason": "" if self.met else self.reason or NOT_ANALYSED,
            **({"reading": CHOSEN_BY} if self.chosen else {}),
        }


def gain_met(published: float, simulated: float, tolerance: float) -> bool:
    """Whether a simulated quotient of two systems shows the published gain or loss; both are positive.

    They are compared as logarithms, since a gain of 23 % is not met by one of 56 %, however near 1.23 is to 1.56. The
    system that is ahead has to be ahead. The tolerance is a share of the published gain, and never less than
    ``RESOLVED``. Where the published systems are equal it is a share of one.
    """
    if published <= 0 or simulated <= 0:
        return False
    gain, found = math.log(published), math.log(simulated)
    if gain == 0:
        return abs(found) <= math.log1p(tolerance)
    return gain * found > 0 and abs(found - gain) <= max(tolerance * abs(gain), math.log1p(RESOLVED))


def _number_met(published: float, simulated: float, tolerance: float) -> bool:
    return abs(simulated - published) <= tolerance * abs(published)


def _ends(number: float | Range) -> tuple[float, float]:
    return (number.low, number.high) if isinstance(number, Range) else (number, number)


@dataclass(frozen=True)
class Bar:
    """The bar for predictions: the share of them that has to be met, and their median error at most."""

    met_share: float = 0.9
    median_error: float = 0.1


@dataclass(frozen=True)
class Summary:
    """The counts of a scoreboard."""

    predicted: int
    predicted_met: int
    median_error: float
    fitted: int
    fitted_met: int
    fitted_median_error: float
    shapes: int
    shapes_met: int
    inputs: int
    bar: Bar
    chosen: int = 0
    """Predictions and shapes by which a reading was chosen; they are in none of the counts above."""
    chosen_met: int = 0
    others: Mapping[str, int] = field(default_factory=dict)
    """How many claims there are of each status that does not count."""

    @property
    def met(self) -> bool:
        """Whether the predictions reach the bar."""
        return self.predicted_met >= self.bar.met_share * self.predicted and self.median_error <= self.bar.median_error

    def counts(self) -> dict[str, Any]:
        """The summary as JSON data, where no bar has to be reached."""
        return {
            "predicted": self.predicted,
            "predicted_met": self.predicted_met,
            "median_error": round(self.median_error, 4),
            "fitted": self.fitted,
            "fitted_met": self.fitted_met,
            "fitted_median_error": round(self.fitted_median_error, 4),
            "shapes": self.shapes,
            "shapes_met": self.shapes_met,
            "inputs": self.inputs,
            **({"chosen": self.chosen, "chosen_met": self.chosen_met} if self.chosen else {}),
            **({"others": dict(self.others)} if self.others else {}),
        }

    def row(self) -> dict[str, Any]:
        """The summary as JSON data, with the bar."""
        bar = {"met_share": self.bar.met_share, "median_error": self.bar.median_error}
        return {**self.counts(), "bar": bar, "met": self.met}


def summarise(claims: Iterable[Claim], bar: Bar | None = None, ungraded: Iterable[ClaimStatus] = ()) -> Summary:
    """The scoreboard of these claims in short; ``ungraded`` are the statuses of those without a simulated number."""
    by_status: dict[ClaimStatus, list[Claim]] = {status: [] for status in ClaimStatus}
    chosen: list[Claim] = []
    for claim in claims:
        apart = claim.chosen and claim.status in (ClaimStatus.PREDICT, ClaimStatus.SHAPE)
        (chosen if apart else by_status[claim.status]).append(claim)
    without = Counter(ungraded)
    others = {str(status): len(by_status[status]) + without[status] for status in ClaimStatus if status not in COUNTED}
    predicted, fitted, shapes = by_status[ClaimStatus.PREDICT], by_status[ClaimStatus.FIT], by_status[ClaimStatus.SHAPE]
    return Summary(
        predicted=len(predicted),
        predicted_met=_met(predicted),
        median_error=_median_error(predicted),
        fitted=len(fitted),
        fitted_met=_met(fitted),
        fitted_median_error=_median_error(fitted),
        shapes=len(shapes),
        shapes_met=_met(shapes),
        inputs=len(by_status[ClaimStatus.INPUT]),
        bar=bar or Bar(),
        chosen=len(chosen),
        chosen_met=_met(chosen),
        others={status: count for status, count in others.items() if count},
    )


def _met(claims: Sequence[Claim]) -> int:
    return sum(claim.met for claim in claims)


def _median_error(claims: Sequence[Claim]) -> float:
    errors = [abs(claim.error) for claim in claims if claim.error is not None]
    return median(errors) if errors else 0.0
