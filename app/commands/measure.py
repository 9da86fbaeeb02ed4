"""``rpsim measure``: a plan of measurements on a simulated platform; the same document as of a real adapter."""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ...sim.errors import InputError, Mistake
from ..options import OF_PLATFORM, OF_PLATFORM_ONCE, Command, Field, Option

if TYPE_CHECKING:
    from ...validation.measuring.calibrate.runner import Base

COMMAND = Command(
    "a plan of measurements, run on a simulated platform",
    "PLAN",
    "a plan of measurements (docs/calibration.md)",
    options=(
        *OF_PLATFORM,
        Option("--iterations", "at most so many of each measurement (default: 200)", "N", least=1),
    ),
    answer=(
        Field("format", "string", "the format of the measurements, which `rpsim calibrate` reads"),
        Field("origin", "string", "simulated"),
        Field("program", "object", "what made them"),
        Field("plan", "string", "the plan's name"),
        Field("machine", "object", "the platform and its settings"),
        Field("results", "array", "every measurement (validation/verbs_bench/measurements.schema.json)"),
    ),
    moved=OF_PLATFORM_ONCE,
)

PLANS = Path(__file__).resolve().parents[2] / "validation" / "verbs_bench" / "plans"
MOST_ITERATIONS = 200
"""Simulated operations repeat themselves: more of them say nothing new (``--iterations`` allows them)."""


def main(options: argparse.Namespace) -> int:
    """Run, print, write; returns 0, or 1 if the platform can do nothing of the plan."""
    from ... import __version__
    from ...validation.measuring.calibrate.profile import check_target, write_whole
    from ...validation.measuring.calibrate.runner import Runner
    from ...validation.measuring.documents import Document
    from ...validation.measuring.plan import read_plan
    from ..terminal.envelope import envelope
    from ..terminal.measurements import text
    from ..terminal.output import as_json
    from ..terminal.progress import bar
    from ..terminal.text import plural

    plan = read_plan(plan_path(options.subject))
    base = base_of(options)
    platform = base.platform()
    if options.write is not None:
        check_target(Path(options.write), options.force)
    most = options.iterations or MOST_ITERATIONS
    points = [
        replace(point, iterations=min(point.iterations, most), warmup=min(point.warmup, most)) for point in plan.points
    ]
    what = f"measure {plan.name} on {platform.name}"
    with bar(what, len(points)) as shown, Runner(base, options.jobs) as runner:
        found = runner.measurements(points, lambda _: shown.update())
    program = {"name": "rpsim", "version": __version__}
    where = {"platform": platform.name, "settings": dict(platform.settings)}
    answer = Document("simulated", tuple(found), program, where, plan.name).as_data()
    if options.write is not None:
        write_whole(Path(options.write), as_json(answer))
    if options.json:
        print(envelope(options, answer), end="")
    else:
        lines = [f"{what}: {plural(len(points), 'measurement')}", "", *text(found)]
        print("\n".join(lines + (["", f"written: {options.write}"] if options.write else [])))
    return 0 if any(not one.skipped for one in found) else 1


def plan_path(subject: str) -> Path:
    """The path of a plan, or of a shipped one by its name."""
    shipped = PLANS / f"{subject}.yaml"
    return shipped if "/" not in subject and not Path(subject).exists() and shipped.exists() else Path(subject)


def base_of(options: argparse.Namespace) -> Base:
    """The platform that the options name, with its settings. Raises InputError."""
    from ...validation.measuring.calibrate.runner import Base

    if options.platform is None:
        expected = "the name of a platform (rpsim list platforms), or the path of a profile"
        raise InputError(Mistake("no --platform", expected, field=f"rpsim {options.command}"))
    settings = dict(item.split("=", 1) for item in options.settings)
    return Base(options.platform, tuple(settings.items()))
