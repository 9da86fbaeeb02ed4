"""Published curves, read from ``library/*.yaml``: what was measured, where it is printed, what it may show.

A file is ``{component, curves: [...]}``; a curve has ``id, title, source, condition, confidence, role, platform,
experiment, unit, points`` and may have ``settings`` (of the platform), ``with`` (keywords of the experiment), ``x``
(what x is), ``tolerance`` (default 25 %), ``quick`` (the x of ``--quick``) and ``missed`` (a reason for all points, or
one for each x). A point of a shape is ``{at_least: 2}`` or ``{at_most: 2}``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

from ....models.profiles.platform import load_platform, platform_names
from ....sim.errors import InputError, Mistake, nearest
from ....sim.yaml_source import FieldPath, Source, describe, dotted, read_yaml
from ..experiments.experiments import UNITS, Experiment, experiments
from ..scoreboard import Bound, ClaimStatus

FOLDER = FilePath(__file__).parent / "library"

TOLERANCE = 0.25
CONFIDENCE = ("high", "medium", "low")
_TEXTS = ("id", "title", "source", "condition", "confidence", "role", "platform", "experiment", "unit")
_KEYS = (*_TEXTS, "settings", "with", "x", "tolerance", "points", "quick", "missed")

X = float | str


@dataclass(frozen=True)
class Curve:
    """One published curve."""

    id: str
    component: str
    title: str
    source: str
    condition: str
    confidence: str
    role: ClaimStatus
    platform: str
    settings: Mapping[str, str]
    experiment: str
    given: Mapping[str, Any]
    x: str
    unit: str
    tolerance: float
    points: Mapping[X, float | Bound]
    quick: tuple[X, ...]
    missed: str | Mapping[X, str] = field(default="", repr=False)

    def reason(self, x: X) -> str:
        """Why the point is missed, as far as somebody has found out."""
        return self.missed if isinstance(self.missed, str) else self.missed.get(x, "")


def components() -> list[str]:
    """The components that have curves."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load_curves(component: str | None = None) -> list[Curve]:
    """The shipped curves, of one component or of all; raises InputError for an unknown component."""
    names = components()
    if component is not None and component not in names:
        close = nearest(component, names)
        raise InputError(
            Mistake(f"'{component}'", f"a component: {', '.join(names)}", None, None, "--component", close)
        )
    chosen = names if component is None else [component]
    return [curve for name in chosen for curve in read_curves(FOLDER / f"{name}.yaml")]


def read_curves(path: FilePath) -> list[Curve]:
    """The curves of one file. Raises InputError with every mistake at once."""
    source = read_yaml(path)
    data = source.mapping("a map with component and curves")
    reader = _Reader(source)
    component, entries = data.get("component"), data.get("curves")
    if not isinstance(component, str):
        reader.mistake(component, "the component's name", ("component",))
    if not isinstance(entries, list):
        reader.mistake(entries, "a list of curves", ("curves",))
        entries = []
    curves = [reader.curve(str(component), entry, ("curves", index)) for index, entry in enumerate(entries)]
    if reader.mistakes:
        raise InputError(reader.mistakes)
    return [curve for curve in curves if curve is not None]


class _Reader:
    def __init__(self, source: Source) -> None:
        self.source = source
        self.mistakes: list[Mistake] = []
        self._experiments = experiments()
        self._ids: set[str] = set()

    def mistake(self, found: Any, expected: str, path: FieldPath, close: str | None = None) -> None:
        place = self.source.line(path)
        self.mistakes.append(Mistake(describe(found), expected, self.source.file, place, dotted(path), close))

    def curve(self, component: str, data: Any, at: FieldPath) -> Curve | None:
        before = len(self.mistakes)
        if not isinstance(data, dict):
            self.mistake(data, "a curve: a map with id, title, points", at)
            return None
        for key in data.keys() - set(_KEYS):
            self.mistake(key, f"one of {', '.join(_KEYS)}", (*at, key), nearest(key, _KEYS))
        for key in _TEXTS:
            if not isinstance(data.get(key), str):
                self.mistake(data.get(key), f"the curve's {key}", (*at, key))
        if len(self.mistakes) > before:
            return None
        self._one_of(data["confidence"], CONFIDENCE, (*at, "confidence"))
        self._one_of(data["role"], [str(status) for status in ClaimStatus], (*at, "role"))
        self._one_of(data["platform"], platform_names(), (*at, "platform"))
        self._one_of(data["experiment"], self._experiments, (*at, "experiment"))
        self._one_of(data["unit"], UNITS, (*at, "unit"))
        if data["id"] in self._ids:
            self.mistake(data["id"], "an id that no other curve has", (*at, "id"))
        self._ids.add(data["id"])
        if len(self.mistakes) > before:
            return None
        role = ClaimStatus(data["role"])
        given, settings = self._map(data, "with", at), self._map(data, "settings", at)
        experiment = self._experiments[data["experiment"]]
        self._fits(experiment, given, data["unit"], at)
        points = {self._x(x): self._point(value, role, (*at, "points", x)) for x, value in self._points(data, at)}
        quick = self._some(data.get("quick", list(points)[:1]), points, (*at, "quick"))
        missed = data.get("missed", "")
        if isinstance(missed, dict):
            missed = {self._x(x): str(text) for x, text in missed.items()}
            self._some(list(missed), points, (*at, "missed"))
        if len(self.mistakes) > before:
            return None
        chosen = {key: _word(value) for key, value in settings.items()}
        load_platform(data["platform"], **chosen)  # refuses what the platform does not have
        return Curve(
            id=data["id"],
            component=component,
            title=data["title"],
            source=data["source"],
            condition=data["condition"],
            confidence=data["confidence"],
            role=role,
            platform=data["platform"],
            settings=chosen,
            experiment=data["experiment"],
            given=given,
            x=str(data.get("x", "size in B")),
            unit=data["unit"],
            tolerance=float(data.get("tolerance", TOLERANCE)),
            points=points,
            quick=quick,
            missed=missed,
        )

    def _one_of(self, found: str, known: Any, path: FieldPath) -> None:
        if found not in known:
            self.mistake(found, f"one of {', '.join(known)}", path, nearest(found, known))

    def _fits(self, experiment: Experiment, given: Mapping[str, Any], unit: str, at: FieldPath) -> None:
        known = experiment.arguments()
        for key in given.keys() - set(known):
            expected = f"an argument of {experiment.name}: {', '.join(known) or 'it has none'}"
            self.mistake(key, expected, (*at, "with", key), nearest(key, known))
        if UNITS[unit][0] != experiment.kind:
            units = [name for name, (kind, _) in UNITS.items() if kind == experiment.kind]
            self.mistake(unit, f"one of {', '.join(units)}, since {experiment.name} measures that", (*at, "unit"))

    def _map(self, data: Mapping[str, Any], key: str, at: FieldPath) -> dict[str, Any]:
        found = data.get(key, {})
        if not isinstance(found, dict):
            self.mistake(found, "a map", (*at, key))
            return {}
        return found

    def _points(self, data: Mapping[str, Any], at: FieldPath) -> list[tuple[Any, Any]]:
        found = data.get("points")
        if not isinstance(found, dict) or not found:
            self.mistake(found, "a map from x to what was measured", (*at, "points"))
            return []
        return list(found.items())

    def _point(self, value: Any, role: ClaimStatus, path: FieldPath) -> float | Bound:
        if role is ClaimStatus.SHAPE and isinstance(value, dict) and value and value.keys() <= {"at_least", "at_most"}:
            return Bound(**{key: float(bound) for key, bound in value.items()})
        if role is ClaimStatus.SHAPE or isinstance(value, bool) or not isinstance(value, int | float):
            expected = "{at_least: number} or {at_most: number}" if role is ClaimStatus.SHAPE else "a number"
            self.mistake(value, expected, path)
            return 1.0
        return float(value)

    def _some(self, found: Any, points: Mapping[X, Any], path: FieldPath) -> tuple[X, ...]:
        chosen = [self._x(x) for x in found] if isinstance(found, list) else []
        if not isinstance(found, list) or any(x not in points for x in chosen):
            self.mistake(found, f"x of some of the points: {', '.join(map(str, points))}", path)
        return tuple(chosen)

    @staticmethod
    def _x(x: Any) -> X:
        return _number(x)


def _number(x: Any) -> X:
    """Keys of a map are text: a number where it is one."""
    try:
        value = float(x)
    except ValueError:
        return str(x)
    return int(value) if value.is_integer() else value


def _word(value: Any) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)
