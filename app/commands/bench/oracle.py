"""``rpsim bench oracle``: seconds by size, and steps beside those of the plain search."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from ...terminal.text import count, paragraph, table
from . import aims
from .aims import effort, progress

if TYPE_CHECKING:
    from ....validation.speed.oracle import OracleFigures

UNIQUE_SECONDS, HARD_MILLISECONDS = 0.2, 20
"""The aims (docs/limits.md, "Speed"): at most."""


def main(options: argparse.Namespace) -> int:
    """Measure, print; returns 1 where an aim is missed, else 0."""
    from ....validation.speed.oracle import HARD, measure
    from ...terminal.envelope import envelope

    with progress(HARD + 4) as on_step:
        figures = measure(effort(options), on_step)
    steps = sorted(case.steps for case in figures.hard)
    plain = sorted(case.plain_steps for case in figures.hard)
    beyond, middle = sum(case.given_up for case in figures.hard), len(steps) // 2
    found = judged(figures)
    if options.json:
        answer = {
            "unique_values": {
                name: {"seconds": {str(n): round(s, 4) for n, s in seconds.items()},
                       "growth_of_twice_as_many": round(figures.growth(name), 2)}
                for name, seconds in figures.seconds.items()
            },
            "hard_cas_histories": {
                "cases": [vars(case) for case in figures.hard], "steps_median": steps[middle],
                "plain_steps_median": plain[middle], "plain_given_up": beyond,
                "plain_over_ours_median": round(figures.ratio, 1),
                "slowest_milliseconds": round(figures.slowest_seconds * 1e3, 2),
            },
        }  # fmt: skip
        print(envelope(options, {**answer, **aims.document(found)}), end="")
        return aims.status(found)
    rows = [
        (name, *(f"{one:.3f}" for one in seconds.values()), f"{figures.growth(name):.1f}")
        for name, seconds in figures.seconds.items()
    ]
    sizes = [count(size) for size in figures.seconds["register"]]
    lines = ["one object, unique values: processor seconds by operations", ""]
    lines += [*table(["", *sizes, "twice as many"], rows), ""]
    lines += [f"{len(steps)} hard histories of a CAS register (90 operations, five clients, a tenth unknown)", ""]
    lines += table(
        ("steps", "least", "median", "most"),
        [
            (name, *(count(row[i]) for i in (0, middle, -1)))
            for name, row in (("ours", steps), ("plain Wing-Gong/Lowe", plain))
        ],
    )
    given_up = f"; it gave up on {beyond}, counted as they stood" if beyond else ""
    lines += ["", *paragraph(f"the plain search takes {figures.ratio:.0f} times more steps (median){given_up}", 2)]
    lines += [*paragraph(f"slowest answer of ours: {figures.slowest_seconds * 1e3:.1f} ms", 2)]
    print("\n".join([*lines, "", *aims.closing(found)]))
    return aims.status(found)


def judged(figures: OracleFigures) -> list[aims.Aimed]:
    """The figures that have an aim."""
    from ....validation.speed.oracle import SIZES

    took = round(figures.seconds["register"][SIZES[-1]], 4)
    slowest = round(figures.slowest_seconds * 1e3, 2)
    return [
        aims.Aimed(f"seconds of {count(SIZES[-1])} operations of a register", took, UNIQUE_SECONDS, less=True),
        aims.Aimed("milliseconds of the slowest hard history", slowest, HARD_MILLISECONDS, less=True),
    ]
