"""``rpsim bench sweep``: wall time of a sweep by one process over that by two."""

from __future__ import annotations

import argparse

from ...terminal.text import paragraph, table
from . import aims
from .aims import effort, progress

AIM = 1.9
"""Two processes over one, for runs of a second or more (docs/limits.md, "Speed")."""


def main(options: argparse.Namespace) -> int:
    """Measure, print; returns 1 where the aim is missed, else 0."""
    from ....validation.speed.sweep import PROCESSES, measure
    from ...terminal.envelope import envelope

    with progress(2) as on_step:
        figures = measure(effort(options), on_step)
    answer = {
        "runs": figures.runs,
        "seconds": {str(n): round(seconds, 2) for n, seconds in figures.seconds.items()},
        "processor_seconds": {str(n): round(seconds, 2) for n, seconds in figures.processor_seconds.items()},
        "two_processes_over_one": round(figures.ratio, 2),
    }
    found = [aims.Aimed("two processes over one", round(figures.ratio, 2), AIM)]
    if options.json:
        print(envelope(options, {**answer, **aims.document(found)}), end="")
        return aims.status(found)
    rows = [(str(n), f"{seconds:.1f}", f"{figures.processor_seconds[n]:.1f}") for n, seconds in figures.seconds.items()]
    lines = [f"a sweep of {figures.runs} runs, by so many processes, their start included", ""]
    lines += table(["processes", "seconds", "processor seconds"], rows)
    lines += ["", f"{PROCESSES} over 1: {figures.ratio:.2f} times as fast"]
    lines += paragraph(
        f"Two processes take {figures.overhead:+.0%} of processor time: more is their start, and cores that share "
        "caches, a clock, or their time with other programs."
    )
    print("\n".join([*lines, "", *aims.closing(found)]))
    return aims.status(found)
