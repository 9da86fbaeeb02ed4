"""``rpsim bench speed``: verbs, crash states, executed faults and the oracle, beside the aims."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...terminal.text import count, paragraph, table
from . import aims, operations
from .aims import effort, figure, progress
from .components import by_component_rows, rounded

if TYPE_CHECKING:
    from ....validation.speed.bench import Figures

AIMS: tuple[tuple[str, str, float], ...] = (
    ("64 B WRITEs a second", "verbs_per_second", 100_000),
    ("  raw timeouts a verb", "timeouts_per_verb", 12),
    ("  traced over untraced", "traced_over_untraced", 0.7),
    ("  over the naive model", "arithmetic_over_naive", 10),
    ("4 KiB WRITEs a second", "sizes.4096.verbs_per_second", 10_000),
    ("  traced over untraced", "sizes.4096.traced_over_untraced", 0.6),
    ("  over the naive model", "sizes.4096.arithmetic_over_naive", 15),
    ("MiB per million traced WRITEs", "mebibytes_per_million_traced_verbs", 1024),
    ("crash states a second, in units", "crash_states_per_second", 40_000),
    ("crash states a second, opaque", "crash_states_per_second_opaque", 1_000),
    ("crash states a second, redo log", "crash_states_per_second_redo_log", 200),
    ("executed faults a second", "executed_faults_per_second", 40),
    ("  raw timeouts a fault", "timeouts_per_executed_fault", 30_000),
    ("oracle operations a second", "oracle_operations_per_second", 200_000),
    ("milliseconds of rpsim --help", "help_milliseconds", 300),
)
"""The aims (docs/limits.md, "Speed"): at least, or at most where less is better."""
LESS_IS_BETTER = frozenset(
    {"timeouts_per_verb", "timeouts_per_executed_fault", "mebibytes_per_million_traced_verbs", "help_milliseconds"}
)
PROFILE_ROWS = 12


def main(options: argparse.Namespace) -> int:
    """Measure, print; returns 1 where an aim is missed, else 0."""
    from ....validation.speed.bench import SIZES, measure, where_time_goes
    from ....validation.speed.operations import ROUNDS, RPCS, STORES, VERBS
    from ...terminal.envelope import envelope

    with progress(2 * ROUNDS + len(VERBS) + len(STORES) + len(RPCS) + 3) as on_step:
        figures = measure(effort(options), on_step)
    profile = {size: where_time_goes(size, 2_000) for size in SIZES}
    answer = document(figures, profile)
    found = judged(answer)
    if options.json:
        print(envelope(options, {**answer, **aims.document(found)}), end="")
    else:
        print("\n".join([*text(answer), "", *aims.closing(found)]))
    return aims.status(found)


def own_aims(answer: Mapping[str, Any]) -> list[aims.Aimed]:
    """The figures of ``AIMS``, by their names there."""
    found = []
    for name, path, aim in AIMS:
        value: Any = answer
        for part in path.split("."):
            value = value[part]
        found.append(aims.Aimed(name, float(value), aim, path in LESS_IS_BETTER))
    return found


def judged(answer: Mapping[str, Any]) -> list[aims.Aimed]:
    """Every figure that has an aim, those of operations too; an indented name is of the figure above it."""
    found, above = [], ""
    for one in own_aims(answer):
        whole = f"{above}: {one.name.strip()}" if one.name.startswith(" ") else one.name
        above = above if one.name.startswith(" ") else one.name
        found.append(one._replace(name=whole))
    return [*found, *operations.judged(answer)]


def document(figures: Figures, profile: dict[int, list[tuple[str, str, float, float]]]) -> dict[str, Any]:
    """The answer as JSON: the figures at 64 B at the top, those of each size under ``sizes``."""
    from ....validation.speed.bench import SIZES
    from ....validation.speed.components import by_component

    sizes = {
        str(size): {
            "verbs_per_second": round(one.verbs_per_second),
            "verbs_per_second_traced": round(one.verbs_per_second_traced),
            "timeouts_per_verb": round(one.timeouts_per_verb, 2),
            "traced_over_untraced": round(one.traced_over_untraced, 3),
            "arithmetic_over_naive": round(one.arithmetic_over_naive, 2),
            "events_per_verb": round(one.events_per_verb, 2),
        }
        for size, one in figures.sizes.items()
    }
    return {
        **sizes[str(SIZES[0])],
        "sizes": sizes,
        **operations.operations_document(figures.verbs, figures.stores, figures.rpcs),
        "raw_timeouts_per_second": round(figures.raw_timeouts_per_second),
        "mebibytes_per_million_traced_verbs": round(figures.mebibytes_per_million_traced_verbs),
        "crash_states_per_second": round(figures.crash_states_per_second),
        "crash_states_per_second_opaque": round(figures.crash_states_per_second_opaque),
        "crash_states_per_second_redo_log": round(figures.crash_states_per_second_redo_log),
        "executed_faults_per_second": round(figures.executed_faults_per_second, 1),
        "timeouts_per_executed_fault": round(figures.timeouts_per_executed_fault),
        "oracle_operations_per_second": round(figures.oracle_operations_per_second),
        "help_milliseconds": round(figures.help_milliseconds),
        "profile": {
            str(size): [
                {"file": file, "function": function, "calls_per_verb": round(calls, 2), "share": round(share, 4)}
                for file, function, calls, share in rows[:PROFILE_ROWS]
            ]
            for size, rows in profile.items()
        },
        "components": {str(size): rounded(by_component(rows)) for size, rows in profile.items()},
    }


def text(answer: dict[str, Any]) -> list[str]:
    """The answer as lines of a terminal."""
    from ....validation.speed.bench import SIZES
    from ....validation.speed.operations import ROUNDS, WINDOW

    rows = [[one.name, figure(one.here), one.words, "" if one.met else "missed"] for one in own_aims(answer)]
    lines = table(["", "here", "aim", ""], rows)
    lines += ["", f"raw SimPy timeouts a second: {count(answer['raw_timeouts_per_second'])}"]
    lines += paragraph(
        f"One client, {WINDOW} WRITEs outstanding, each signalled and polled; medians of {ROUNDS} rounds."
    )
    lines += ["", *operations.operations_text(answer)]
    lines += ["", "where the time of a WRITE goes, by component (under the profiler)"]
    lines += by_component_rows({size: answer["components"][str(size)] for size in SIZES})
    for size, functions in answer["profile"].items():
        lines += ["", f"where the time of a {size} B WRITE goes (under the profiler, its cost included)"]
        rows = [
            [row["file"], row["function"], f"{row['calls_per_verb']:.2f}", f"{row['share']:.1%}"] for row in functions
        ]
        lines += table(["file", "function", "calls", "share"], rows, left=2)
    return lines
