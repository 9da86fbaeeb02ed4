"""``rpsim measure``: a plan of measurements on a simulated platform; the same document as of a real adapter."""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from ...sim.errors import InputError, Mistake
from ...validation.measuring.calibrate.profile import check_target, write_whole
from ...validation.measuring.calibrate.runner import Base, Runner
from ...validation.measuring.conditions import series_names
from ...validation.measuring.documents import Document
from ...validation.measuring.plan import MeasurementPlan, read_plan
from ..terminal.output import as_json
from ..terminal.progress import bar
from ..terminal.text import paragraph, plural, table

if TYPE_CHECKING:
    from ...validation.measuring.conditions import Measurement

PLANS = Path(__file__).resolve().parents[2] / "validation" / "verbs_bench" / "plans"
MOST_ITERATIONS = 200
"""Simulated operations repeat themselves: more of them say nothing new, unless asked for (``--iterations``)."""


def main(options: argparse.Namespace) -> int:
    """Run, print, write; returns 0, or 1 if the platform can do nothing of the plan."""
    plan = read_plan(plan_path(options.subject))
    base = base_of(options)
    platform = base.platform()
    if options.out is not None:
        check_target(Path(options.out), options.force)
    most = options.iterations or MOST_ITERATIONS
    points = [
        replace(point, iterations=min(point.iterations, most), warmup=min(point.warmup, most)) for point in plan.points
    ]
    what = f"measure {plan.name} on {platform.name}"
    with bar(what, len(points)) as shown, Runner(base, options.jobs) as runner:
        found = runner.measurements(points, lambda _: shown.update())
    answer = document(plan, platform.name, dict(platform.settings), found).as_data()
    if options.out is not None:
        write_whole(Path(options.out), as_json(answer))
    if options.json:
        print(as_json(answer), end="")
    else:
        lines = [f"{what}: {plural(len(points), 'measurement')}", "", *text(found)]
        print("\n".join(lines + (["", f"written: {options.out}"] if options.out else [])))
    return 0 if any(not one.skipped for one in found) else 1


def plan_path(subject: str) -> Path:
    """The path of a plan, or of a shipped one by its name."""
    shipped = PLANS / f"{subject}.yaml"
    return shipped if "/" not in subject and not Path(subject).exists() and shipped.exists() else Path(subject)


def base_of(options: argparse.Namespace) -> Base:
    """The platform that the options name, with its settings. Raises InputError."""
    if options.platform is None:
        expected = "the name of a platform (rpsim list platforms), or the path of a profile"
        raise InputError(Mistake("no --platform", expected, field=f"rpsim {options.command}"))
    settings = dict(item.split("=", 1) for item in options.settings)
    return Base(options.platform, tuple(settings.items()))


def document(
    plan: MeasurementPlan, platform: str, settings: Mapping[str, str], found: Sequence[Measurement]
) -> Document:
    """The answer in the format of measurements."""
    from ... import __version__

    program = {"name": "rpsim", "version": __version__}
    return Document("simulated", tuple(found), program, {"platform": platform, "settings": settings}, plan.name)


def text(found: Sequence[Measurement]) -> list[str]:
    """A table for each series, and what was skipped."""
    lines: list[str] = []
    measured = [one for one in found if not one.skipped]
    if measured:
        names = series_names([replace(one.conditions, mtu_bytes=None) for one in measured])
        rows = [_row(name, one) for name, one in zip(names, measured, strict=True)]
        lines += table(["", "size B", "p50 us", "p99 us", "kop/s", "Gb/s"], rows)
    skipped: dict[str, int] = {}
    for one in found:
        if one.skipped:
            skipped[one.skipped] = skipped.get(one.skipped, 0) + 1
    if skipped:
        lines += ["", "skipped"]
        for reason, count in skipped.items():
            lines += paragraph(f"{count}: {reason}", 2, 2)
    return lines


def _row(name: str, one: Measurement) -> list[str]:
    about, rate = one.conditions, one.rate or 0.0
    return [
        name if len(name) <= 30 else f"{name[:27]}...",
        f"{about.size_bytes:,}",
        f"{one.latency_ns['p50'] / 1e3:,.3f}",
        f"{one.latency_ns['p99'] / 1e3:,.3f}",
        f"{rate / 1e3:,.1f}",
        f"{rate * about.size_bytes * 8 / 1e9:,.2f}",
    ]
