"""The scoreboard without one mechanism of the models: which curves need it. ``mechanisms.yaml`` is the list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from ....models.profiles.platform import Platform, load_platform
from ....models.profiles.vary import varied
from ....sim.cursor import Cursor
from ....sim.errors import InputError, unknown
from ....sim.jobs.kept import Kept
from ....sim.jobs.runner import Workers
from ....sim.yaml_source import read_yaml
from ..scoreboard import ClaimStatus
from .board import Board, OnStep, PointTask, Result, perform, tasks
from .curves import Curve, components
from .sweep import touches

FILE = Path(__file__).parent / "mechanisms.yaml"
EVERY = "every"


@dataclass(frozen=True)
class Mechanism:
    """Something that the models do, and the values of platforms with which they do not."""

    name: str
    title: str
    off: Mapping[str, str]
    """By path (``media.optane.controller.buffer``): the parameter's value, as a profile writes it."""
    components: tuple[str, ...] = ()
    """The components whose curves it may touch; none: all."""


@dataclass(frozen=True)
class Without:
    """The scoreboard of the curves that a mechanism may touch, with it and without."""

    mechanism: Mechanism
    board: Board
    """As it is."""
    without: Board

    def lost(self) -> list[str]:
        """Points that are met as it is and missed without it."""
        return [point for point in _met(self.board) if point not in _met(self.without)]

    def won(self) -> list[str]:
        """Points that are met only without it."""
        return [point for point in _met(self.without) if point not in _met(self.board)]

    def needed_by(self) -> list[tuple[str, int, int, int]]:
        """The curves that lose points: (id, points, how many are met as it is, how many without it)."""
        found = []
        for with_it, without in zip(self.board.results, self.without.results, strict=True):
            before, after = _met(Board([with_it])), _met(Board([without]))
            if set(before) - set(after):
                found.append((with_it.curve.id, len(with_it.simulated), len(before), len(after)))
        return found


def read_mechanisms(path: Path = FILE) -> list[Mechanism]:
    """The mechanisms of a file. Raises InputError with every mistake at once."""
    at = Cursor.over(read_yaml(path), "a map with mechanisms")
    found = []
    for one in at["mechanisms"].items("a list of mechanisms"):
        one.keys(("name", "title", "off", "components"))
        name, title = one["name"].text("the mechanism's name"), one["title"].text("what it is, in one line")
        off = one["off"].fields("a map from parameters to the values that turn it off", 1)
        touched = one["components"].items("a list of components") if "components" in one else []
        for component in touched:
            component.choice(components())
        if one.sound():
            values = {key: str(value.data) for key, value in off.items()}
            found.append(Mechanism(name, title, values, tuple(str(component.data) for component in touched)))
    at.finish()
    return found


def chosen_mechanisms(names: Sequence[str]) -> list[Mechanism]:
    """The mechanisms of these names, or all of them for ``every``. Raises InputError for an unknown name."""
    known = {mechanism.name: mechanism for mechanism in read_mechanisms()}
    for name in names:
        if name not in known and name != EVERY:
            raise InputError(unknown(name, [*known, EVERY], "a mechanism: {}", field="--without"))
    return list(known.values()) if EVERY in names else [known[name] for name in dict.fromkeys(names)]


def off_on(mechanism: Mechanism, platform: Platform) -> dict[str, str]:
    """The parameters that a platform states and that turn the mechanism off there; none where it is off already."""
    stated = {parameter.path for parameter in platform.parameters()}
    values = {path: text for path, text in mechanism.off.items() if path in stated}
    return values if varied(platform, values) != platform else {}


def touched(curves: Sequence[Curve], mechanism: Mechanism) -> dict[str, list[PointTask]]:
    """The points to run again, by curve: of curves that it may touch, on platforms that have it."""
    found: dict[str, list[PointTask]] = {}
    for curve in curves:
        if mechanism.components and curve.component not in mechanism.components:
            continue
        if curve.role is ClaimStatus.INPUT:
            continue
        values = off_on(mechanism, load_platform(curve.platform, **curve.settings))
        if any(touches(path, curve) for path in values):
            found[curve.id] = tasks([curve], values)
    return found


def without(
    curves: Sequence[Curve],
    board: Board,
    mechanisms: Sequence[Mechanism],
    jobs: int | Workers = 1,
    on_step: OnStep | None = None,
    kept: Kept | None = None,
) -> list[Without]:
    """Each mechanism off on its own, on the curves that it may touch."""
    known = {result.curve.id: result for result in board.results}
    wanted = [touched(curves, mechanism) for mechanism in mechanisms]
    todo = [task for by_curve in wanted for points in by_curve.values() for task in points]
    values = iter(perform(todo, jobs, on_step, kept))
    answer = []
    for mechanism, by_curve in zip(mechanisms, wanted, strict=True):
        before = [known[name] for name in by_curve]
        after: list[Result] = []
        for result in before:
            ran = islice(values, len(by_curve[result.curve.id]))
            after.append(replace(result, simulated={task.x: value for task, value in ran}))
        answer.append(Without(mechanism, Board(before), Board(after)))
    return answer


def _met(board: Board) -> list[str]:
    return [claim.id for claim in board.claims() if claim.met]
