"""Published curves, read from ``library/*.yaml``: the quantity, where it is printed, and whether a fit may use it.

A file is ``{component, curves: [...]}``; a curve has ``id, title, source, condition, confidence, role, platform,
experiment, unit, points`` and may have ``settings`` (of the platform), ``with`` (keywords of the experiment), ``x``
(what x is), ``tolerance`` (default 25 %), ``quick`` (the x of ``--quick``) and ``missed`` (a reason for all points, or
one for each x). A point of a shape is ``{at_least: 2}`` or ``{at_most: 2}``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path as FilePath
from typing import Any

from ....models.profiles.platform import load_platform, platform_names
from ....sim.cursor import Cursor
from ....sim.errors import InputError, nearest, unknown
from ....sim.yaml_source import describe, read_yaml
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
    """One published curve with its source and its experiment."""

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
        """Why the point is missed, as far as that is known."""
        return self.missed if isinstance(self.missed, str) else self.missed.get(x, "")


def components() -> list[str]:
    """The components that have curves."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load_curves(component: str | None = None) -> list[Curve]:
    """The shipped curves, of one component or of all; raises InputError for an unknown component."""
    names = components()
    if component is not None and component not in names:
        raise InputError(unknown(component, names, "a component: {}", field="--component"))
    chosen = names if component is None else [component]
    return [curve for name in chosen for curve in read_curves(FOLDER / f"{name}.yaml")]


def read_curves(path: FilePath) -> list[Curve]:
    """The curves of one file. Raises InputError with every mistake at once."""
    at = Cursor.over(read_yaml(path), "a map with component and curves")
    component = at["component"].text("the component's name")
    ids: set[str] = set()
    curves = [found for one in at["curves"].items("a list of curves") for found in _curve(component, one, ids)]
    at.finish()
    return curves


def _curve(component: str, at: Cursor, ids: set[str]) -> list[Curve]:
    """The curve at a place; none where something is wrong with it."""
    if not at.is_map("a curve: a map with id, title, points"):
        return []
    at.keys(_KEYS)
    texts = {key: at[key].text(f"the curve's {key}") for key in _TEXTS}
    if not at.sound():
        return []
    at["confidence"].choice(CONFIDENCE)
    role = at["role"].choice(ClaimStatus)
    at["platform"].choice(platform_names())
    at["experiment"].choice(experiments())
    at["unit"].choice(UNITS)
    if texts["id"] in ids:
        at["id"].wrong("an id that no other curve has")
    ids.add(texts["id"])
    if not at.sound():
        return []
    given, settings = (at.get(key, {}).fields("a map") for key in ("with", "settings"))
    _fits(at, experiments()[texts["experiment"]], given)
    points = {
        _number(x): _point(point, role)
        for x, point in at["points"].fields("a map from x to what was measured", 1).items()
    }
    quick = _some(at.get("quick", [str(x) for x in points][:1]), points)
    missed = at.get("missed", "").data
    if isinstance(missed, dict):
        missed = {_number(x): str(text) for x, text in missed.items()}
        _some(replace(at["missed"], data=list(missed)), points)
    if not at.sound():
        return []
    chosen = {key: _word(setting.data) for key, setting in settings.items()}
    load_platform(texts["platform"], **chosen)  # refuses what the platform does not have
    return [
        Curve(
            id=texts["id"],
            component=component,
            title=texts["title"],
            source=texts["source"],
            condition=texts["condition"],
            confidence=texts["confidence"],
            role=role,
            platform=texts["platform"],
            settings=chosen,
            experiment=texts["experiment"],
            given={key: value.data for key, value in given.items()},
            x=str(at.get("x", "size in B").data),
            unit=texts["unit"],
            tolerance=at.get("tolerance", TOLERANCE).number(),
            points=points,
            quick=quick,
            missed=missed,
        )
    ]


def _fits(at: Cursor, experiment: Experiment, given: Mapping[str, Cursor]) -> None:
    """Check that the experiment takes the given arguments, and that the unit fits its kind of number."""
    known, kind = experiment.arguments(), experiment.kind
    for key, value in given.items():
        if key not in known:
            expected = f"an argument of {experiment.name}: {', '.join(known) or 'it has none'}"
            value.wrong(expected, describe(key), nearest(key, known))
    if UNITS[at["unit"].data][0] != kind:
        units = [name for name, (measured, _) in UNITS.items() if measured == kind]
        at["unit"].wrong(f"one of {', '.join(units)}, since {experiment.name} measures that")


def _point(at: Cursor, role: ClaimStatus) -> float | Bound:
    if role is not ClaimStatus.SHAPE:
        return at.number()
    if isinstance(at.data, dict) and at.data and at.data.keys() <= {"at_least", "at_most"}:
        return Bound(**{key: at[key].number() for key in at.data})
    at.wrong("{at_least: number} or {at_most: number}")
    return 1.0


def _some(at: Cursor, points: Mapping[X, Any]) -> tuple[X, ...]:
    chosen = [_number(x) for x in at.data] if isinstance(at.data, list) else []
    if not isinstance(at.data, list) or any(x not in points for x in chosen):
        at.wrong(f"x of some of the points: {', '.join(map(str, points))}")
    return tuple(chosen)


def _number(x: Any) -> X:
    """Keys of a map are text: a number where it is one."""
    try:
        value = float(x)
    except (TypeError, ValueError):
        return str(x)
    return int(value) if value.is_integer() else value


def _word(value: Any) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)
