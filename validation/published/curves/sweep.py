"""The scoreboard again and again, each time with one badly known parameter at an end of its range."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from ....models.profiles.platform import load_platform
from ....models.profiles.vary import ends, uncertain
from ....sim.jobs.kept import Kept
from ....sim.jobs.runner import Workers
from ..experiments.experiments import experiments
from ..scoreboard import ClaimStatus, Summary
from .board import Board, OnStep, PointTask, Result, perform, tasks
from .curves import Curve


@dataclass(frozen=True)
class Variation:
    """The scoreboard with one parameter set otherwise, on the platforms that have it at all."""

    path: str
    text: str
    platforms: tuple[str, ...]
    summary: Summary
    lost: tuple[str, ...] = ()
    """Predicted points that are met as it is and not so."""
    won: tuple[str, ...] = ()
    """Predicted points that are met only so."""


def variations(curves: Sequence[Curve]) -> dict[tuple[str, str], tuple[str, ...]]:
    """(parameter, value) to set, and the platforms whose curves that concerns."""
    found: dict[tuple[str, str], list[str]] = {}
    for name in dict.fromkeys(curve.platform for curve in curves):
        for end in ends(uncertain(load_platform(name))):
            found.setdefault(end, []).append(name)
    return {end: tuple(names) for end, names in found.items()}


def touches(path: str, curve: Curve) -> bool:
    """Whether a parameter may take part in the curve's experiment: in its groups, and in the memory it is given."""
    group, *rest = path.split(".")
    if group in experiments()[curve.experiment].without:
        return False
    memory = curve.given.get("memory")
    if group != "media" or memory is None:
        return True
    return load_platform(curve.platform, **curve.settings).memory[memory].device == rest[0]


def again(curves: Sequence[Curve]) -> dict[tuple[str, str], list[PointTask]]:
    """The predicted points to run for each (parameter, value): those on its platforms that it may touch."""
    predicted = [curve for curve in curves if curve.role is ClaimStatus.PREDICT]
    return {
        (path, text): tasks(
            [curve for curve in predicted if curve.platform in platforms and touches(path, curve)], {path: text}
        )
        for (path, text), platforms in variations(curves).items()
    }


def sweep(
    curves: Sequence[Curve],
    board: Board,
    jobs: int | Workers = 1,
    on_step: OnStep | None = None,
    kept: Kept | None = None,
) -> list[Variation]:
    """A scoreboard of the predicted points for each; curves that cannot be touched are not run again."""
    curves = [curve for curve in curves if curve.role is ClaimStatus.PREDICT]
    known = {result.curve.id: result for result in board.results}
    platforms, before = variations(curves), _met(board)
    answer = []
    wanted = again(curves)
    found = iter(perform([task for todo in wanted.values() for task in todo], jobs, on_step, kept))
    for (path, text), todo in wanted.items():
        simulated = {curve.id: dict(known[curve.id].simulated) for curve in curves}
        for task, value in islice(found, len(todo)):
            simulated[task.curve.id][task.x] = value
        swept = Board([Result(curve, simulated[curve.id]) for curve in curves])
        after = _met(swept)
        lost = tuple(point for point in before if point not in after)
        won = tuple(point for point in after if point not in before)
        answer.append(Variation(path, text, platforms[path, text], swept.summary(), lost, won))
    return answer


def _met(board: Board) -> list[str]:
    return [claim.id for claim in board.claims() if claim.met and claim.status is ClaimStatus.PREDICT]
