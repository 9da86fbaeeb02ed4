"""``rpsim bench``: the speed of the simulator and the checker on this machine."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from ..options import Command, Option
from ..terminal.text import count, paragraph, table

if TYPE_CHECKING:
    from ...validation.speed.bench import Figures
    from ...validation.speed.operations import Operation, OperationFigures

COMMAND = Command(
    "how fast the simulator and the checker are on this machine",
    options=(
        Option("--quick", "a tenth of the work: rough figures in seconds"),
        Option("--components", "instead: what each component costs", without=("--oracle", "--operations", "--sweep")),
        Option("--oracle", "instead: the oracle, beside the plain search", without=("--operations", "--sweep")),
        Option("--operations", "instead: what each verb and each store's operation costs", without=("--sweep",)),
        Option("--sweep", "instead: how many times as fast two processes do a sweep as one"),
    ),
)

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
SWEEP_AIM = 1.9
"""Two processes over one, for runs of a second or more (docs/limits.md, "Speed")."""


def main(options: argparse.Namespace) -> int:
    """Measure and print; returns 0: how fast a machine is cannot be wrong."""
    if options.components:
        return _components(options)
    if options.oracle:
        return _oracle(options)
    if options.operations:
        return _operations(options)
    if options.sweep:
        return _sweep(options)
    from ...validation.speed.bench import SIZES, measure, where_time_goes
    from ...validation.speed.operations import ROUNDS, RPCS, STORES, VERBS
    from ..terminal.output import as_json

    with _progress(2 * ROUNDS + len(VERBS) + len(STORES) + len(RPCS) + 3) as on_step:
        figures = measure(_effort(options), on_step)
    profile = {size: where_time_goes(size, 2_000) for size in SIZES}
    answer = document(figures, profile)
    if options.json:
        print(as_json(answer), end="")
    else:
        print("\n".join(text(answer)))
    return 0


@contextmanager
def _progress(total: int) -> Iterator[Callable[[str], None]]:
    """A bar on standard error of so many steps; yields the function that is called with the name of each."""
    from ..terminal.progress import bar

    with bar("bench", total) as shown:

        def on_step(what: str) -> None:
            shown.set_description(what)
            shown.update()

        yield on_step


def _effort(options: argparse.Namespace) -> float:
    return 0.1 if options.quick else 1.0


def _operations(options: argparse.Namespace) -> int:
    """Only the cost of each verb and of each operation of a store."""
    from ...validation.speed.operations import RPCS, STORES, VERBS, measure_all
    from ..terminal.output import as_json

    with _progress(len(VERBS) + len(STORES) + len(RPCS)) as on_step:
        verbs, stores, rpcs = measure_all(_effort(options), on_step)
    answer = operations_document(verbs, stores, rpcs)
    print(as_json(answer) if options.json else "\n".join(operations_text(answer)) + "\n", end="")
    return 0


def _sweep(options: argparse.Namespace) -> int:
    """Only a sweep: wall time of one process over that of two."""
    from ...validation.speed.sweep import PROCESSES, measure
    from ..terminal.output import as_json

    with _progress(2) as on_step:
        figures = measure(_effort(options), on_step)
    answer = {
        "runs": figures.runs,
        "seconds": {str(n): round(seconds, 2) for n, seconds in figures.seconds.items()},
        "processor_seconds": {str(n): round(seconds, 2) for n, seconds in figures.processor_seconds.items()},
        "two_processes_over_one": round(figures.ratio, 2),
    }
    if options.json:
        print(as_json(answer), end="")
        return 0
    rows = [(str(n), f"{seconds:.1f}", f"{figures.processor_seconds[n]:.1f}") for n, seconds in figures.seconds.items()]
    lines = [f"a sweep of {figures.runs} runs, by so many processes, their start included", ""]
    lines += table(["processes", "seconds", "processor seconds"], rows)
    missed = "" if figures.ratio >= SWEEP_AIM else ": missed"
    lines += ["", f"{PROCESSES} over 1: {figures.ratio:.2f} times as fast, aim at least {SWEEP_AIM}{missed}"]
    lines += paragraph(
        f"Two processes take {figures.overhead:+.0%} of processor time: more is their start, and cores that share "
        "caches, a clock, or their time with other programs."
    )
    print("\n".join(lines))
    return 0


def _oracle(options: argparse.Namespace) -> int:
    """Only the oracle: seconds by size, and steps beside those of the plain search."""
    from ...validation.speed.oracle import HARD, measure
    from ..terminal.output import as_json

    with _progress(HARD + 4) as on_step:
        figures = measure(_effort(options), on_step)
    steps = sorted(case.steps for case in figures.hard)
    plain = sorted(case.plain_steps for case in figures.hard)
    beyond, middle = sum(case.given_up for case in figures.hard), len(steps) // 2
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
        print(as_json(answer), end="")
        return 0
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
    print("\n".join(lines))
    return 0


def _components(options: argparse.Namespace) -> int:
    """Only the cost of each component, in shares and ratios."""
    from ...validation.speed.bench import SIZES
    from ...validation.speed.components import of_component, of_feature, with_everything
    from ..terminal.output import as_json

    count_of = {size: (500 if options.quick else 4_000) * SIZES[0] // size + 200 for size in SIZES}
    shares = {size: of_component(size, count_of[size]) for size in SIZES}
    everything = {size: with_everything(size, count_of[size]) for size in SIZES}
    ratios = {size: of_feature(size, count_of[size]) for size in SIZES}
    if options.json:
        answer = {
            "components": {str(size): _rounded(shares[size]) for size in SIZES},
            "components_with_everything": {str(size): _rounded(everything[size]) for size in SIZES},
            "features": {str(size): {name: round(ratio, 3) for name, ratio in ratios[size].items()} for size in SIZES},
        }
        print(as_json(answer), end="")
        return 0
    head = [f"{size} B" for size in SIZES]
    lines = ["where the time of a WRITE goes, by component (under the profiler)"]
    lines += _by_component(shares)
    lines += ["", "the same traced, into Optane, with DDIO off: every component has to work"]
    lines += _by_component(everything)
    lines += ["", "a WRITE with it takes so many times as long to simulate"]
    lines += table(
        ["feature", *head], [[name, *(f"{ratios[size][name]:.2f}" for size in SIZES)] for name in ratios[SIZES[0]]]
    )
    print("\n".join(lines))
    return 0


def _by_component(shares: Mapping[int, Mapping[str, float]]) -> list[str]:
    from ...validation.speed.bench import SIZES

    names = dict.fromkeys(name for size in SIZES for name in shares[size])
    rows = [[name, *(f"{shares[size].get(name, 0.0):.1%}" for size in SIZES)] for name in names]
    return table(["component", *(f"{size} B" for size in SIZES)], rows)


def _rounded(shares: Mapping[str, float]) -> dict[str, float]:
    return {name: round(share, 4) for name, share in shares.items()}


def operations_document(
    verbs: Mapping[str, OperationFigures],
    stores: Mapping[str, OperationFigures],
    rpcs: Mapping[str, OperationFigures],
) -> dict[str, dict[str, dict[str, float]]]:
    """The cost of each verb, of each operation of a store, and of each call, as JSON."""

    def rows(figures: Mapping[str, OperationFigures], one: str) -> dict[str, dict[str, float]]:
        return {
            key: {
                f"{one}s_per_second": round(figure.per_second),
                f"timeouts_per_{one}": round(figure.timeouts, 1),
                f"calls_per_{one}": round(figure.counts.calls, 2),
                f"bytecodes_per_{one}": round(figure.counts.bytecodes, 1),
            }
            for key, figure in figures.items()
        }

    return {"verbs": rows(verbs, "verb"), "stores": rows(stores, "operation"), "rpcs": rows(rpcs, "operation")}


def operations_text(answer: Mapping[str, Any]) -> list[str]:
    """The answer of :func:`operations_document` as lines of a terminal."""
    from ...validation.speed.operations import RPCS, STORES, VERBS

    return [
        *_rows("verb", VERBS, answer["verbs"]),
        "",
        *_rows("store", STORES, answer["stores"]),
        "",
        *_rows("call", RPCS, answer["rpcs"]),
        "",
        *paragraph(
            "timeouts: as many raw SimPy timeouts take as long. calls: Python frames entered. calls and bytecodes are "
            f"exact, on Python {sys.version_info.major}.{sys.version_info.minor}. Stores: an operation of YCSB A, "
            "values of 256 B, 16 clients, traced. Calls: one client, writes and reads in turn, metered."
        ),
    ]


def _rows(title: str, operations: Mapping[str, Operation], found: Mapping[str, Mapping[str, float]]) -> list[str]:
    rows = []
    for key, operation in operations.items():
        per_second, timeouts, calls, bytecodes = found[key].values()
        aim = operation.aim
        missed = "missed" if aim is not None and timeouts > aim else ""
        aimed = "" if aim is None else _figure(aim)
        figures = [count(round(per_second)), _figure(timeouts), aimed, missed, f"{calls:,.1f}", count(round(bytecodes))]
        rows.append([operation.name, *figures])
    return table([title, "a second", "timeouts", "aim", "", "calls", "bytecodes"], rows)


def document(figures: Figures, profile: dict[int, list[tuple[str, str, float, float]]]) -> dict[str, Any]:
    """The answer as JSON: the figures at 64 B at the top, those of each size under ``sizes``."""
    from ...validation.speed.bench import SIZES
    from ...validation.speed.components import by_component

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
        **operations_document(figures.verbs, figures.stores, figures.rpcs),
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
        "components": {str(size): _rounded(by_component(rows)) for size, rows in profile.items()},
    }


def text(answer: dict[str, Any]) -> list[str]:
    """The answer as lines of a terminal."""
    from ...validation.speed.bench import SIZES
    from ...validation.speed.operations import ROUNDS, WINDOW

    rows = []
    for name, path, aim in AIMS:
        found = answer
        for part in path.split("."):
            found = found[part]
        value = float(found)  # type: ignore[arg-type]
        less = path in LESS_IS_BETTER
        met = value <= aim if less else value >= aim
        rows.append(
            [name, _figure(value), ("at most " if less else "at least ") + _figure(aim), "" if met else "missed"]
        )
    lines = table(["", "here", "aim", ""], rows)
    lines += ["", f"raw SimPy timeouts a second: {count(answer['raw_timeouts_per_second'])}"]
    lines += paragraph(
        f"One client, {WINDOW} WRITEs outstanding, each signalled and polled; medians of {ROUNDS} rounds."
    )
    lines += ["", *operations_text(answer)]
    lines += ["", "where the time of a WRITE goes, by component (under the profiler)"]
    lines += _by_component({size: answer["components"][str(size)] for size in SIZES})
    for size, functions in answer["profile"].items():
        lines += ["", f"where the time of a {size} B WRITE goes (under the profiler, its cost included)"]
        rows = [
            [row["file"], row["function"], f"{row['calls_per_verb']:.2f}", f"{row['share']:.1%}"] for row in functions
        ]
        lines += table(["file", "function", "calls", "share"], rows, left=2)
    return lines


def _figure(value: float) -> str:
    return count(round(value)) if value >= 100 else f"{value:.2f}".rstrip("0").rstrip(".")
