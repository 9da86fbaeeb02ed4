"""Reads a paper's claims from ``validation/published/claims/NAME.yaml``: every mistake with its line.

Keys: ``paper, title, source, tolerances, scenario`` (what every run starts from), ``sweep`` (parameters of the platform
that no measurement of the paper determines), ``axes`` (name: what each of its values sets in the scenario), ``at``
(where a claim is made unless it says otherwise), ``figures`` and ``claims``. A claim has ``id, figure, status, words``,
``value`` with ``published`` (a number, a range, or ``{at_least: x}``), or ``check`` or ``trend``; ``over`` (an axis, or
``{axis: [values]}``) makes it one about several values of an axis; ``{$x: [schemes]}`` has ``$x`` in its formula stand
for each of them; a list of such maps is all of their points. ``reading: chosen by`` marks a claim by which a reading of
the paper was chosen. A claim whose status says that there is nothing to compare may have ``why`` alone. ``explore`` are
the fields that make a run small enough for ``holds``.

``readings`` says how what the paper leaves open is read (``of``, ``taken``, ``beside``: what else it could be,
``why``). ``systems`` gives schemes short names, ``families`` names lists of them, for ``over`` (``{$x: senders}``);
``quick_operations`` is how many operations the runs of a quick look have at most, ``sweep_operations`` those of a
sweep.

The file records the outcome too: ``missed`` (``claims`` that are missed for one cause, and ``because``; all others are
met) and ``quick_differs`` (claims with the other outcome over the few points of a quick look).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product
from pathlib import Path as FilePath
from typing import Any

from ....models.profiles.platform import load_platform
from ....models.profiles.vary import value_of
from ....protocols.guarantees import Condition
from ....protocols.registry import scheme
from ....sim.cursor import Cursor
from ....sim.errors import InputError, unknown
from ....sim.yaml_source import read_yaml
from ..scoreboard import CHOSEN_BY, UNGRADED, Bound, ClaimStatus, Range
from .language import VARIABLE, Expression, Term
from .measures import ALONG, DRAWN, MEASURES, OF_MACHINES, PRICED

FOLDER = FilePath(__file__).parent.parent / "claims"

SIZE = "size"
"""The axis that says of how many bytes a checksum is."""

At = Mapping[str, str]
"""A value of every axis, by the axis' name."""
Over = Mapping[str, tuple[str, ...]]
"""Several values of axes, or schemes by the name that stands for them."""
QUICK_OPERATIONS = 1000
"""How many operations the runs of a quick look have at most, unless a paper's file says otherwise."""
SWEEP_OPERATIONS = 400
"""The same of the runs of a sweep."""

_PAPER = ("paper", "title", "source", "tolerances", "scenario", "sweep", "axes", "at", "figures", "claims")
_OPTIONAL = (
    "explore",
    "readings",
    "systems",
    "families",
    "quick_operations",
    "sweep_operations",
    "missed",
    "quick_differs",
)
_MISSED = ("claims", "because")
_READING = ("of", "taken", "beside", "why")
_CLAIM = (
    "id", "figure", "status", "words", "why", "at", "over", "value", "check", "trend", "least", "published",
    "tolerance", "unit", "counts", "reading",
)  # fmt: skip
_FIGURE = ("title", "y", "x", "values", "at", "schemes", "operation")
_HOLDS = Bound(at_least=1.0)


@dataclass(frozen=True)
class Axis:
    """A setting that varies between runs: by value, the fields of the scenario that it sets."""

    name: str
    values: Mapping[str, Mapping[str, Any]]
    quick: tuple[str, ...]
    title: str
    """Its words below a figure."""


@dataclass(frozen=True)
class Figure:
    """One figure of the paper: a measure of several schemes over an axis."""

    name: str
    title: str
    y: str
    x: str
    values: tuple[str, ...]
    """Those of the axis ``x`` that it is drawn over."""
    at: At
    schemes: tuple[str, ...]
    operation: str | None


@dataclass(frozen=True)
class Reading:
    """How something is read that the paper leaves open."""

    of: str
    taken: str
    beside: str
    """What else it could be."""
    why: str


@dataclass(frozen=True)
class PaperClaim:
    """One claim: the published number, and the expression that the simulator has in its place."""

    id: str
    figure: str
    status: ClaimStatus
    words: str
    why: str
    at: At
    over: tuple[Over, ...]
    """The values that it is about, by axis, or the schemes by ``$x``: every combination, of one map after the other."""
    expression: Expression | None
    """None: there is nothing to compare, the claim is only shown."""
    kind: str
    """``value``, ``check`` (true at every point) or ``trend`` (increasing along its axis); empty without a formula."""
    least: float
    """Of a trend: what its first value is at least."""
    published: float | Range | Bound
    tolerance: float
    unit: str
    counts: bool
    """Whether a claim that excludes another one counts as a prediction: one of them does."""
    chosen: bool
    """Whether a reading of the paper was chosen by it."""
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
        """The points at which it is made: one, or one for each value of the axes in ``over``."""
        for over in self.over:
            for values in product(*over.values()):
                yield {**self.at, **dict(zip(over, values, strict=True))}


@dataclass(frozen=True)
class Paper:
    """A paper: its claims, its figures and the runs behind them."""

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
    """Parameters of the platform and fields of the scenario that no measurement of the paper determines, each with a
    value at an end of the range in which it is known to lie.
    """
    explore: Mapping[str, Any]
    """The fields that make a scenario small enough to be explored."""
    readings: tuple[Reading, ...]
    systems: Mapping[str, str]
    """Schemes by the short names that the file has for them."""
    quick_operations: int
    sweep_operations: int
    """Of the runs of a sweep, at most: fewer than a batch has would measure nothing."""

    def label(self, scheme: str) -> str:
        """The file's own name of a scheme, or the scheme's."""
        return next((name for name, known in self.systems.items() if known == scheme), scheme)


def papers() -> list[str]:
    """The names of the papers whose claims are here."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load_paper(name: str) -> Paper:
    """A paper's claims. Raises InputError with all mistakes of its file, or the nearest name for an unknown paper."""
    if name not in papers():
        raise InputError(unknown(name, papers(), "a paper: {}"))
    return read_paper(FOLDER / f"{name}.yaml")


def read_paper(path: FilePath) -> Paper:
    """The paper in a file. Raises InputError with every mistake at once."""
    at = Cursor.over(read_yaml(path), "the claims of a paper")
    at.keys((*_PAPER, *_OPTIONAL), _PAPER, "a paper")
    at.finish()
    paper = _PaperReader(at).paper()
    at.finish()
    return paper


class _PaperReader:
    def __init__(self, at: Cursor) -> None:
        self.root = at
        self.axes = {name: _axis(name, one) for name, one in at["axes"].fields("axes by their names", least=1).items()}
        if not self.axes or not all(axis.values for axis in self.axes.values()):
            at.finish()  # without axes nothing else can be judged
        self.standard = {name: next(iter(axis.values)) for name, axis in self.axes.items()}
        self.standard = self._at(at["at"])
        self.listed = at["claims"].items("a list of claims", least=1)
        self.systems: dict[str, str] = {}
        self.systems = {
            name: self._scheme(one) for name, one in at.get("systems", {}).fields("schemes by name").items()
        }
        self.families = {
            name: tuple(self._scheme(each) for each in one.items("a list of schemes", least=1))
            for name, one in at.get("families", {}).fields("lists of schemes by name").items()
        }
        self.figures = {name: self._figure(name, one) for name, one in at["figures"].fields("figures by name").items()}
        self.explore = at.get("explore", {}).map("fields of the scenario") if "explore" in at else {}
        self.missed: dict[str, str] = {}
        for cause in at.get("missed", []).items("a list of causes"):
            if cause.is_map(f"a map with {' and '.join(_MISSED)}"):
                cause.keys(_MISSED, _MISSED, "a cause")
                because = " ".join(str(cause.get("because", "").data).split())
                self.missed |= dict.fromkeys(self._claims(cause.get("claims", [])), because)
        self.quick_differs = self._claims(at.get("quick_differs", []))

    def paper(self) -> Paper:
        root = self.root
        sweep = {path: one.items("a list of values") for path, one in root["sweep"].fields("values by path").items()}
        return Paper(
            name=root["paper"].text("the paper's name"),
            title=root["title"].text("the paper's title"),
            source=root["source"].text("the paper's source"),
            about=" ".join(str(root["tolerances"].get("about", "").data).split()),
            scenario=root["scenario"].map("a scenario"),
            axes=self.axes,
            figures=self.figures,
            claims=tuple(found for claim in self.listed for found in self._claim(claim)),
            explore=self.explore,
            sweep=tuple((path, value.data) for path, values in sweep.items() for value in values),
            readings=tuple(self._reading(one) for one in root.get("readings", []).items("a list of readings")),
            systems=self.systems,
            quick_operations=root.get("quick_operations", QUICK_OPERATIONS).whole(least=1),
            sweep_operations=root.get("sweep_operations", SWEEP_OPERATIONS).whole(least=1),
        )

    @staticmethod
    def _reading(at: Cursor) -> Reading:
        if not at.is_map(f"a map with {', '.join(_READING)}"):
            return Reading("", "", "", "")
        at.keys(_READING, _READING, "a reading")
        return Reading(*(str(at.get(key, "").data) for key in _READING))

    def _figure(self, name: str, at: Cursor) -> Figure:
        if not at.is_map(f"a map with {', '.join(_FIGURE)}"):
            return Figure(name, "", "", "", (), {}, (), None)
        at.keys(_FIGURE, ("title", "y", "x", "schemes"), "a figure")
        return Figure(
            name,
            str(at["title"].data),
            at["y"].choice(DRAWN),
            x := at["x"].choice(self.axes),
            self._values(x, at["values"]) if "values" in at else tuple(self.axes[x].values),
            self._at(at.get("at", {})),
            self._schemes(at.get("schemes", [])),
            at["operation"].data,
        )

    def _claim(self, at: Cursor) -> list[PaperClaim]:
        """The claim at a place; none where something is wrong with it."""
        if not at.is_map("a claim"):
            return []
        at.keys(_CLAIM, ("id", "figure", "status", "words"), "a claim")
        figure = replace(at["figure"], data=str(at.get("figure", "none").data)).choice([*self.figures, "none"])
        status = at.get("status", ClaimStatus.PREDICT).choice(ClaimStatus)
        place, over = self._at(at.get("at", {})), self._over(at.get("over", {}))
        kind = next((kind for kind in ("check", "trend", "value") if kind in at), None)
        formula = at["check"] if at["check"].data else at["value"]
        shown = status in UNGRADED and kind is None
        if not shown and (kind is None or formula.data is None):
            at.wrong("'value' with 'published', or 'check', or 'trend' with 'value'", "no formula")
            return []
        if shown:
            at["why"].text("why there is nothing to compare", blank=False)
        expression = None if shown else self._expression(formula, over)
        published = _published(at["published"]) if kind == "value" else _HOLDS
        least, tolerance = at.get("least", 0.0).number(), at.get("tolerance", 0.0).number()
        chosen = "reading" in at and at["reading"].choice([CHOSEN_BY]) == CHOSEN_BY
        id, words, why, unit = (at.get(key, "").word(f"the claim's {key}") for key in ("id", "words", "why", "unit"))
        if not at.sound() or (expression is None and not shown):
            return []
        compares = expression is not None and expression.compares
        gain = kind == "value" and compares and not isinstance(published, Bound)
        if "tolerance" not in at and not shown:
            tolerance = self._tolerance(at["published"], published, gain)
        return [
            PaperClaim(
                id=id,
                figure=figure,
                status=status,
                words=words,
                why=why,
                at=place,
                over=over,
                expression=expression,
                kind=kind or "",
                least=least,
                published=published,
                tolerance=tolerance,
                unit=unit,
                counts=bool(at.get("counts", status is ClaimStatus.PREDICT).data),
                chosen=chosen,
                gain=gain,
                missed=self.missed.get(id, ""),
                quick_differs=id in self.quick_differs,
            )
        ]

    def _tolerance(self, at: Cursor, published: float | Range | Bound, gain: bool) -> float:
        """The paper's own for such a number. A range of gains lies on one side of one."""
        name = "range" if isinstance(published, Range) else "value"
        if gain and published in (1, Range(1, 1)):
            name = "equal"
        elif gain and isinstance(published, Range) and published.low <= 1 <= published.high:
            at.wrong("a range on one side of 1, so that it says which of the two is ahead", str(published))
        tolerances = self.root["tolerances"]
        if name not in tolerances:
            tolerances.wrong("range, value and equal, as far as claims need them", f"no '{name}'")
        return tolerances.get(name, 0.0).number()

    def _claims(self, at: Cursor) -> list[str]:
        """The names of claims in a list, each checked."""
        known = [str(claim["id"].data) for claim in self.listed] or [""]
        return [name.choice(known) for name in at.items("a list of claims")]

    def _expression(self, at: Cursor, over: tuple[Over, ...]) -> Expression | None:
        try:
            expression = Expression(str(at.data), self.systems)
        except ValueError as error:
            at.wrong("a formula such as thr[efactory] / thr[imm]", str(error))
            return None
        for term in expression.terms:
            self._term(at, term, over)
        return expression

    def _term(self, at: Cursor, term: Term, over: tuple[Over, ...]) -> None:
        """Check the words of a term."""
        if term.scheme.startswith(VARIABLE):
            for each in over:
                replace(at, data=term.scheme).choice([name for name in each if name.startswith(VARIABLE)] or [VARIABLE])
        elif term.scheme:
            self._scheme(replace(at, data=term.scheme))
        schemes = [name for each in over for name in each.get(term.scheme, (term.scheme,))]
        for name in dict.fromkeys(schemes) if term.scheme else ():
            self._words(at, term, name)
        if (needs := PRICED.get(term.measure)) is not None:
            for platform in self._platforms():
                if not (value_of(load_platform(platform), needs) or ("", 0))[1]:
                    at.wrong(f"a platform that states '{needs}'", f"'{term}' on {platform}, which states none")
        if term.measure == "holds":
            replace(at, data=term.of).choice(Condition)
            if not self.explore:
                at.wrong("'explore', the fields that make a run small enough for it", "no 'explore' in the file")
        elif term.measure == "crc" and SIZE not in self.axes:
            at.wrong(f"an axis '{SIZE}' whose values are the bytes of a value", "none")
        elif term.measure in ALONG:
            along = self.axes[replace(at, data=term.of).choice(self.axes)]
            if not all(_is_number(value) for value in along.values):
                replace(at, data=along.name).wrong("an axis whose values are numbers")
        for axis, value in term.at:
            self._value(at, axis, value)

    @staticmethod
    def _words(at: Cursor, term: Term, name: str) -> None:
        """Check that a scheme has the operation and the roles that a term of it names."""
        try:
            kind = scheme(name)
        except InputError:  # noted already, where the name stands
            return
        for what, word in zip(MEASURES[term.measure].words, (term.of, term.second), strict=False):
            if word is not None and what == "operation":
                replace(at, data=word).choice(kind.operations)
            elif word is not None and what in OF_MACHINES:
                replace(at, data=word.partition("[")[0]).choice(kind.role_types)

    def _platforms(self) -> set[str]:
        """The platforms that the file's runs are on."""
        fields = [self.root["scenario"].data, *(each for axis in self.axes.values() for each in axis.values.values())]
        return {str(each["platform"]) for each in fields if "platform" in each}

    def _scheme(self, at: Cursor) -> str:
        """The name of a scheme, with options or composed of several if need be; or a short name of the file's."""
        name = self.systems.get(str(at.data), str(at.data))
        try:
            scheme(name)
        except InputError as error:
            at.adopt(error)
        return name

    def _value(self, at: Cursor, axis: str, value: Any) -> str:
        """A value of an axis."""
        if replace(at, data=axis).choice(self.axes) == axis:
            return replace(at, data=str(value)).choice(self.axes[axis].values)
        return str(value)

    def _schemes(self, at: Cursor) -> tuple[str, ...]:
        """A list of schemes, or the family of a name."""
        if isinstance(at.data, str) and self.families:
            return self.families.get(at.choice(self.families), ())
        return tuple(self._scheme(one) for one in at.items("a list of schemes"))

    def _at(self, at: Cursor) -> dict[str, str]:
        given = at.fields("values by axis")
        return {**self.standard, **{axis: self._value(one, axis, one.data) for axis, one in given.items()}}

    def _over(self, at: Cursor) -> tuple[Over, ...]:
        if isinstance(at.data, str):
            axis = at.choice(self.axes)
            return ({axis: tuple(self.axes[axis].values)},)
        maps = at.items("a list of maps", least=1) if isinstance(at.data, list) else [at]
        return tuple(
            {axis: self._values(axis, values) for axis, values in one.fields("lists of values by axis").items()}
            for one in maps
        )

    def _values(self, axis: str, at: Cursor) -> tuple[str, ...]:
        """The values of an axis; for a name with ``$`` schemes, or a family of them."""
        if axis.startswith(VARIABLE):
            return self._schemes(at)
        return tuple(self._value(value, axis, value.data) for value in at.items("a list of values of the axis"))


def _axis(name: str, at: Cursor) -> Axis:
    values = {value: one.map("fields of the scenario") for value, one in at["values"].fields("values", least=1).items()}
    quick = at.get("quick", list(values)).items("a list of some of the values")
    title = at["title"].text("its words below a figure") if "title" in at else name
    return Axis(name, values, tuple(replace(one, data=str(one.data)).choice(values or [name]) for one in quick), title)


def _is_number(text: str) -> bool:
    try:
        return float(text) > 0
    except ValueError:
        return False


def _published(at: Cursor) -> float | Range | Bound:
    match at.data:
        case bool():
            pass
        case int() | float():
            return float(at.data)
        case [int() | float() as low, int() | float() as high] if low <= high:
            return Range(float(low), float(high))
        case {"at_least": int() | float() as least, **rest} if not rest:
            return Bound(at_least=float(least))
        case {"at_most": int() | float() as most, **rest} if not rest:
            return Bound(at_most=float(most))
    at.wrong("a number, [low, high], {at_least: x} or {at_most: x}")
    return 0.0
