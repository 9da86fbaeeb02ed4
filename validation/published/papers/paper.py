"""Reads a paper's claims from ``validation/published/claims/NAME.yaml``: every mistake with its line.

Keys: ``paper, title, source, tolerances, scenario`` (what every run starts from), ``sweep`` (parameters of the platform
that no measurement of the paper determines), ``axes`` (name: what each of its values sets in the scenario), ``at``
(where a claim is made unless it says otherwise), ``figures`` and ``claims``. A claim has ``id, figure, status, words``,
``value`` with ``published`` (a number, a range, or ``{at_least: x}``), or ``check`` or ``trend``; ``over`` (an axis, or
``{axis: [values]}``) makes it one about several values of an axis.

The file records the outcome too: ``missed`` (``claims`` that are missed for one cause, and ``because``; all others are
met) and ``quick_differs`` (claims with the other outcome over the few points of a quick look).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path as FilePath
from typing import Any

from ....protocols.scheme import schemes
from ....sim.errors import InputError, Mistake, nearest
from ....sim.yaml_source import FieldPath, Source, describe, dotted, read_yaml
from ..scoreboard import Bound, ClaimStatus, Range
from .language import MEASURES, Expression

FOLDER = FilePath(__file__).parent.parent / "claims"

At = Mapping[str, str]
"""A value of every axis, by the axis' name."""

_PAPER = ("paper", "title", "source", "tolerances", "scenario", "sweep", "axes", "at", "figures", "claims")
_MISSED = ("claims", "because")
_CLAIM = (
    "id", "figure", "status", "words", "why", "at", "over", "value", "check", "trend", "least", "published",
    "tolerance", "unit", "counts",
)  # fmt: skip
_FIGURE = ("title", "y", "x", "at", "schemes", "operation")
_HOLDS = Bound(at_least=1.0)


@dataclass(frozen=True)
class Axis:
    """What varies between runs: by value, the fields of the scenario that it sets."""

    name: str
    values: Mapping[str, Mapping[str, Any]]
    quick: tuple[str, ...]


@dataclass(frozen=True)
class Figure:
    """One figure of the paper: a measure of several schemes over an axis."""

    name: str
    title: str
    y: str
    x: str
    at: At
    schemes: tuple[str, ...]
    operation: str | None


@dataclass(frozen=True)
class PaperClaim:
    """One claim: what is published, and the expression that says what it is about."""

    id: str
    figure: str
    status: ClaimStatus
    words: str
    why: str
    at: At
    over: Mapping[str, tuple[str, ...]]
    expression: Expression
    kind: str
    """``value``, ``check`` (true at every point) or ``trend`` (increasing along its axis)."""
    least: float
    """Of a trend: what its first value is at least."""
    published: float | Range | Bound
    tolerance: float
    unit: str
    counts: bool
    """Whether a claim that excludes another one counts as a prediction: one of them does."""
    gain: bool
    """Whether it compares two systems by a quotient, and so is judged as a gain or a loss."""
    missed: str
    """Why it is missed; empty if it is recorded as met."""
    quick_differs: bool
    """Whether its outcome over the few points of a quick look is the other one."""

    def recorded(self, *, quick: bool = False) -> bool:
        """Whether it is met as far as the paper's file has recorded it."""
        return (not self.missed) is not (quick and self.quick_differs)

    def points(self) -> Iterator[dict[str, str]]:
        """Where it is made: one point, or one for each value of what it is made over."""
        for values in product(*self.over.values()):
            yield {**self.at, **dict(zip(self.over, values, strict=True))}


@dataclass(frozen=True)
class Paper:
    """A paper: its claims, its figures and what the runs behind them are."""

    name: str
    title: str
    source: str
    about: str
    """How its tolerances are to be read."""
    scenario: Mapping[str, Any]
    axes: Mapping[str, Axis]
    figures: Mapping[str, Figure]
    claims: tuple[PaperClaim, ...]
    sweep: tuple[tuple[str, Any], ...]
    """What no measurement of the paper determines, each with a value at an end of what is known of it: parameters of
    the platform, fields of the scenario."""


def papers() -> list[str]:
    """The names of the papers whose claims are here."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load_paper(name: str) -> Paper:
    """A paper's claims. Raises InputError with all mistakes of its file, or the nearest name for an unknown paper."""
    if name not in papers():
        raise InputError(Mistake(f"'{name}'", f"a paper: {', '.join(papers())}", nearest=nearest(name, papers())))
    return read_paper(FOLDER / f"{name}.yaml")


def read_paper(path: FilePath) -> Paper:
    """The paper in a file."""
    return _Reader(read_yaml(path)).paper()


class _Reader:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.data = source.mapping("the claims of a paper")
        self.mistakes: list[Mistake] = []

    def paper(self) -> Paper:
        data = self.data
        self._keys((), data, (*_PAPER, "missed", "quick_differs"), _PAPER)
        if self.mistakes:
            raise InputError(self.mistakes)
        axes = {name: self._axis(name, value) for name, value in data["axes"].items()}
        self.axes = axes
        standard = {name: str(data["at"].get(name, next(iter(axis.values)))) for name, axis in axes.items()}
        self._at(("at",), data["at"], standard)
        figures = {name: self._figure(name, value, standard) for name, value in data["figures"].items()}
        self.missed = self._missed(data.get("missed", []), data["claims"])
        self.quick_differs = self._claims(("quick_differs",), data.get("quick_differs", []), data["claims"])
        claims = [self._claim(turn, value, figures, standard) for turn, value in enumerate(data["claims"])]
        if self.mistakes:
            raise InputError(self.mistakes)
        return Paper(
            data["paper"],
            data["title"],
            data["source"],
            " ".join(str(data["tolerances"].get("about", "")).split()),
            data["scenario"],
            axes,
            figures,
            tuple(claim for claim in claims if claim is not None),
            tuple((path, value) for path, values in data["sweep"].items() for value in values),
        )

    def _axis(self, name: str, data: Any) -> Axis:
        values = {str(value): dict(fields) for value, fields in data["values"].items()}
        quick = tuple(str(value) for value in data.get("quick", values))
        for turn, value in enumerate(quick):
            self._known(("axes", name, "quick", turn), value, values)
        return Axis(name, values, quick)

    def _figure(self, name: str, data: Any, standard: At) -> Figure:
        here: FieldPath = ("figures", name)
        self._keys(here, data, _FIGURE, ("title", "y", "x", "schemes"))
        self._known((*here, "x"), data.get("x"), self.axes)
        self._known((*here, "y"), data.get("y"), MEASURES)
        for turn, scheme in enumerate(data.get("schemes", ())):
            self._known((*here, "schemes", turn), scheme, schemes())
        at = self._at((*here, "at"), data.get("at", {}), standard)
        return Figure(
            name, str(data.get("title")), data.get("y"), data.get("x"), at, tuple(data.get("schemes", ())),
            data.get("operation"),
        )  # fmt: skip

    def _claim(self, turn: int, data: Any, figures: Mapping[str, Figure], standard: At) -> PaperClaim | None:
        here: FieldPath = ("claims", turn)
        if not isinstance(data, dict):
            self._wrong(here, describe(data), "a claim")
            return None
        before = len(self.mistakes)
        self._keys(here, data, _CLAIM, ("id", "figure", "status", "words"))
        self._known((*here, "figure"), str(data.get("figure")), {**figures, "none": None})
        self._known((*here, "status"), data.get("status"), {str(status): None for status in ClaimStatus})
        at = self._at((*here, "at"), data.get("at", {}), standard)
        over = self._over((*here, "over"), data.get("over", {}))
        kind = next((kind for kind in ("check", "trend", "value") if kind in data), None)
        text = data.get("check") or data.get("value")
        if kind is None or text is None:
            self._wrong(here, "no formula", "'value' with 'published', or 'check', or 'trend' with 'value'")
            return None
        expression = self._expression((*here, "check" if kind == "check" else "value"), str(text))
        published = self._published((*here, "published"), data.get("published")) if kind == "value" else _HOLDS
        if len(self.mistakes) > before or expression is None:
            return None
        gain = kind == "value" and expression.compares and not isinstance(published, Bound)
        return PaperClaim(
            id=data["id"],
            figure=str(data["figure"]),
            status=ClaimStatus(data["status"]),
            words=data["words"],
            why=data.get("why", ""),
            at=at,
            over=over,
            expression=expression,
            kind=kind,
            least=float(data.get("least", 0.0)),
            published=published,
            tolerance=float(data.get("tolerance", self._tolerance((*here, "published"), published, gain))),
            unit=data.get("unit", ""),
            counts=bool(data.get("counts", data["status"] == ClaimStatus.PREDICT)),
            gain=gain,
            missed=self.missed.get(data["id"], ""),
            quick_differs=data["id"] in self.quick_differs,
        )

    def _tolerance(self, here: FieldPath, published: float | Range | Bound, gain: bool) -> float:
        """The paper's own for such a number. A range of gains lies on one side of one."""
        name = "range" if isinstance(published, Range) else "value"
        if gain and published in (1, Range(1, 1)):
            name = "equal"
        elif gain and isinstance(published, Range) and published.low <= 1 <= published.high:
            self._wrong(here, str(published), "a range on one side of 1, so that it says which of the two is ahead")
        if name not in self.data["tolerances"]:
            self._wrong(("tolerances",), f"no '{name}'", "range, value and equal, as far as claims need them")
        return float(self.data["tolerances"].get(name, 0.0))

    def _missed(self, data: Any, claims: list[Any]) -> dict[str, str]:
        """Why claims are missed, by their names."""
        found = {}
        for turn, cause in enumerate(data):
            here: FieldPath = ("missed", turn)
            self._keys(here, cause, _MISSED, _MISSED)
            for name in self._claims((*here, "claims"), cause.get("claims", ()), claims):
                found[name] = " ".join(str(cause.get("because", "")).split())
        return found

    def _claims(self, here: FieldPath, names: Sequence[str], claims: list[Any]) -> Sequence[str]:
        known = {claim["id"]: None for claim in claims if isinstance(claim, dict) and "id" in claim}
        for number, name in enumerate(names):
            self._known((*here, number), name, known)
        return names

    def _expression(self, here: FieldPath, text: str) -> Expression | None:
        try:
            expression = Expression(text)
        except ValueError as error:
            self._wrong(here, str(error), "a formula such as thr[efactory] / thr[imm]")
            return None
        for term in expression.terms:
            if term.scheme:
                self._known(here, term.scheme, schemes())
            for axis, value in term.at:
                self._known(here, axis, self.axes)
                if axis in self.axes:
                    self._known(here, value, self.axes[axis].values)
        return expression

    def _published(self, here: FieldPath, data: Any) -> float | Range | Bound:
        match data:
            case bool():
                pass
            case int() | float():
                return float(data)
            case [int() | float() as low, int() | float() as high] if low <= high:
                return Range(float(low), float(high))
            case {"at_least": int() | float() as least, **rest} if not rest:
                return Bound(at_least=float(least))
            case {"at_most": int() | float() as most, **rest} if not rest:
                return Bound(at_most=float(most))
        self._wrong(here, describe(data), "a number, [low, high], {at_least: x} or {at_most: x}")
        return 0.0

    def _at(self, here: FieldPath, data: Any, standard: At) -> dict[str, str]:
        for axis, value in data.items():
            self._known((*here, axis), axis, self.axes)
            if axis in self.axes:
                self._known((*here, axis), str(value), self.axes[axis].values)
        return {**standard, **{axis: str(value) for axis, value in data.items()}}

    def _over(self, here: FieldPath, data: Any) -> dict[str, tuple[str, ...]]:
        if isinstance(data, str):
            self._known(here, data, self.axes)
            return {data: tuple(self.axes[data].values)} if data in self.axes else {}
        found = {axis: tuple(str(value) for value in values) for axis, values in data.items()}
        for axis, values in found.items():
            self._known((*here, axis), axis, self.axes)
            for value in values if axis in self.axes else ():
                self._known((*here, axis), value, self.axes[axis].values)
        return found

    def _keys(self, here: FieldPath, data: Mapping[str, Any], known: tuple[str, ...], needed: tuple[str, ...]) -> None:
        for key in data:
            self._known((*here, key), key, dict.fromkeys(known))
        missing = [key for key in needed if key not in data]
        if missing:
            self._wrong(here, f"no '{missing[0]}'", f"the keys {', '.join(needed)}")

    def _known(self, here: FieldPath, name: Any, known: Mapping[str, Any]) -> None:
        if name not in known:
            self._wrong(here, f"'{name}'", f"one of {', '.join(known)}", nearest(str(name), known))

    def _wrong(self, here: FieldPath, found: str, expected: str, near: str | None = None) -> None:
        place = self.source.line(here)
        self.mistakes.append(Mistake(found, expected, self.source.file, place, dotted(here) or None, near))
