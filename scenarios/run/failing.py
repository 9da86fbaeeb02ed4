"""A run in which machines and processes fail at stated instants: availability, repair, re-sending.

Nothing is judged here. A machine that comes back finds in its memory what this timing had left there, one of the many
contents that exploration (``crash.fault``) tries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ...models.durability.views import LineKey, Views
from ...models.profiles.platform import Platform
from ...models.system import Node, System
from ...protocols.failures import Failing
from ...sim.bytespace import Snapshot
from ..schema.failures import Failure
from ..schema.schema import Scenario, Variant
from .experiment import AssembledVariant, run_variant
from .inject import Strike, run_struck
from .results import RunResult

INTERVALS = 20
"""Into so many equal parts the time of a run is divided to show how much was done in each."""


def performed(
    scenario: Scenario,
    variant: Variant,
    platform: Platform | None = None,
    *,
    recorded: bool = True,
    metered: bool = False,
) -> RunResult:
    """Run one scheme on one platform, with the failures of the scenario; without any as :func:`.run_variant` does."""
    if not scenario.failures:
        return run_variant(scenario, variant, platform=platform, recorded=recorded, metered=metered)
    experiment = AssembledVariant(scenario, variant, platform=platform, metered=metered)
    left = _Left(experiment.loaded)
    strikes = [
        Strike(one.at_ps, one.fault.parts, memory=left.behind(one.at_ps, one.fault.parts), down_ps=one.down_ps)
        for one in sorted(scenario.failures, key=lambda one: one.at_ps)
    ]
    result = run_struck(experiment, strikes)
    result.over_time = {
        "failures": [_event(one, result) for one in sorted(scenario.failures, key=lambda one: one.at_ps)],
        "intervals": _intervals(result),
        "waiting": sum(o.return_ps is None for o in result.history.operations),
    }
    return result


class _Left:
    """What failures have left in memory, each of them by device and line; what is no memory that lasts holds zeros."""

    def __init__(self, loaded: Mapping[int, Snapshot]) -> None:
        self._loaded = loaded
        self._views: dict[int, tuple[Views, int]] = {}
        """By the number of a device before a failure: how to look at it, and when it failed."""
        self._before: dict[int, int] = {}
        """The number that a device had before the failure before."""

    def behind(self, at_ps: int, parts: Iterable[Failing]) -> Callable[[System], Callable[[int, int], bytes]]:
        """What the memory of these machines holds behind a failure at ``at_ps``; called when their power is back."""

        def returned(system: System) -> Callable[[int, int], bytes]:
            for node in (system.nodes[part.role][part.index] for part in parts):
                self._note(system, node, at_ps)
            return lambda device, line: self._line((device, line))

        return returned

    def _note(self, system: System, node: Node, at_ps: int) -> None:
        lives = [*node.former, *node.devices]
        for old, new in zip(lives, lives[len(node.devices) :], strict=False):
            self._before[new.number] = old.number
        views = Views(
            system.trace,
            {device.number: device.domain for device in node.devices},
            self._at_first,
            whole_lines=system.platform.line_atomicity == "whole",
            iio_wc_survives=system.platform.iio_wc_survives,
        )
        for device in node.devices:
            self._views.setdefault(device.number, (views, at_ps))

    def _line(self, key: LineKey) -> bytes:
        """A line of a device whose machine has failed."""
        views, at_ps = self._views[key[0]]
        return views.timed(key, at_ps).data

    def _at_first(self, key: LineKey) -> bytes:
        """A line at the beginning of a device's life: as it was loaded, or as the failure before left it."""
        number, line = key
        old = self._before.get(number)
        return self._loaded[number].line(line) if old is None else self._line((old, line))


def _event(failure: Failure, result: RunResult) -> dict[str, Any]:
    """A failure in the results; it struck nobody who still had something to do if all had returned before."""
    back_ps = failure.at_ps + failure.down_ps if failure.comes_back else None
    return {
        "at_us": failure.at_ps / 1e6,
        "fault": str(failure.fault),
        "back_us": None if back_ps is None else back_ps / 1e6,
        "after_the_end": failure.at_ps > result.elapsed_ps and not _open(result),
    }


def _open(result: RunResult) -> bool:
    return any(o.return_ps is None for o in result.history.operations)


def _intervals(result: RunResult) -> list[dict[str, Any]]:
    """What returned in each interval, by its outcome; the last ends with the last return."""
    finished = [(o.return_ps, o.outcome) for o in result.history.operations if o.return_ps is not None]
    end_ps = max((at_ps for at_ps, _ in finished), default=0)
    step_ps = max(1, -(-(end_ps + 1) // INTERVALS))
    rows = [
        {"from_us": turn * step_ps / 1e6, "to_us": (turn + 1) * step_ps / 1e6, "ok": 0, "fail": 0, "info": 0}
        for turn in range(INTERVALS if finished else 0)
    ]
    for at_ps, outcome in finished:
        rows[at_ps // step_ps][str(outcome)] += 1
    return rows
