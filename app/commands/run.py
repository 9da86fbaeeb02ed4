"""``rpsim run``: simulate every variant of a scenario; and the part of ``rpsim crash`` that does the same."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ...sim.errors import InputError, Mistake
from ..options import OF_SCENARIO, OF_SCENARIOS_ANSWER, SCENARIO, Command, Field

if TYPE_CHECKING:
    from ...scenarios.schema.schema import Scenario
    from ..terminal.work import JobOutcome

COMMAND = Command(
    "simulate: latency, throughput, where the time goes",
    "SCENARIO",
    SCENARIO,
    options=OF_SCENARIO,
    answer=(
        *OF_SCENARIOS_ANSWER,
        Field("schemes", "array", "of each scheme and platform: `throughput_ops_per_s`, `latency_ns`, costs"),
    ),
)

EXPLORED_KEYS = 100_000
"""Crash states are explored object by object."""


def simulate(options: argparse.Namespace, crash: bool) -> tuple[Scenario, list[JobOutcome], Path]:
    """Load the scenario and perform all its variants; raises InputError before anything is computed or written."""
    from ...scenarios.schema.load import explored, load_scenario
    from ...sim.jobs.cluster import workers
    from ..terminal.output import folder
    from ..terminal.work import Job, perform_all

    overrides = tuple(options.overrides)
    if crash and options.nested is not None:
        overrides += (f"crash.nested={options.nested}",)
    scenario = load_scenario(options.subject, overrides, options.seed)
    if crash:
        scenario = explored(scenario)
        check_size(scenario, options.subject)
    target = folder(options.out, scenario.name, scenario.resolved(), scenario.seed, options.command)
    variants = len(scenario.variants())
    spare = 1 if options.dask else max(1, options.jobs // variants)
    brute = crash and options.brute_force
    if brute and (scenario.crash.fault.executed or scenario.crash.view == "timed" or scenario.crash.instants != "all"):
        expected = "a failure of a server's power, the adversarial view and all instants"
        raise InputError(Mistake("a scenario that does not explore all images", expected, field="--brute-force"))
    jobs = [
        Job(options.subject, overrides, options.seed, index, crash, spare, brute, options.trace)
        for index in range(variants)
    ]
    with workers(options.jobs, options.dask) as found:
        return scenario, perform_all(jobs, found, f"{options.command} {scenario.name}"), target


def answer(options: argparse.Namespace, scenario: Scenario, result: Mapping[str, Any]) -> str:
    """The answer of a command that runs a scenario as ``--json`` prints it."""
    from ..terminal.envelope import envelope

    inputs = {"scenario": scenario.resolved(), "seed": scenario.seed}
    if options.command == "crash":
        inputs["brute_force"] = options.brute_force
    return envelope(options, result, scenario.seed, inputs)


def check_size(scenario: Scenario, subject: str | None = None) -> None:
    """Raises InputError if a scenario has too many objects for an exploration; ``subject`` is what messages call it."""
    if scenario.workload.kind == "pagerank":
        expected = "ycsb, mix or schedule, whose values say who wrote them"
        raise InputError(Mistake("'pagerank'", expected, subject, field="workload.kind"))
    if scenario.workload.keys > EXPLORED_KEYS:
        found = f"{scenario.workload.keys:,} objects, each of which would be recovered in every crash state"
        raise InputError(Mistake(found, f"at most {EXPLORED_KEYS:,}", subject, field="workload.keys"))


def title(scenario: Scenario) -> list[str]:
    """What the output begins with: name, title if there is one, and seed."""
    from ..terminal.text import paragraph

    named = ": ".join(filter(None, (scenario.name, scenario.title)))
    return [*paragraph(f"{named}   (seed {scenario.seed})", 0, 2), ""]


def write(
    target: Path,
    options: argparse.Namespace,
    scenario: Scenario,
    outcomes: Sequence[JobOutcome],
    summary: dict[str, Any],
    began: float,
    more: Callable[[Path], None] = lambda draft: None,
) -> None:
    """Write the results folder; ``more`` writes what only one command has."""
    from ..terminal.output import as_trace, manifest, replacing, states_per_second, write_json, write_operations

    found: dict[str, object] = {
        "scenario": scenario.resolved(),
        "seed": scenario.seed,
        "platforms": list(dict.fromkeys(outcome.platform for outcome in outcomes)),
        "states_per_second": [
            {"scheme": o.scheme, "platform": o.platform, "states_per_second": states_per_second(o)}
            for o in outcomes
            if o.crash is not None
        ],
    }
    with replacing(target) as draft:
        write_json(draft / "summary.json", summary)
        write_operations(draft / "operations.csv", outcomes)
        if options.trace:
            events = [event for outcome in outcomes for event in outcome.trace]
            (draft / "trace.json").write_text(as_trace(events), encoding="utf-8", newline="\n")
        for name in dict.fromkeys(name for outcome in outcomes for name in outcome.histories):
            kept = [outcome.histories[name] for outcome in outcomes if name in outcome.histories]
            for turn, lines in enumerate(kept, 1):
                file = f"{name}.jsonl" if len(kept) == 1 else f"{name}-{turn}.jsonl"
                (draft / file).write_text(lines, encoding="utf-8", newline="\n")
        more(draft)
        if not options.no_report:
            from ..pages.report import report

            (draft / "report.html").write_text(report(scenario, outcomes, summary), encoding="utf-8", newline="\n")
        write_json(draft / "manifest.json", manifest(options.command, time.monotonic() - began, **found))


def main(options: argparse.Namespace) -> int:
    """Run, print, write; returns the exit status."""
    from ..terminal.output import footer
    from ..terminal.summary import costs, execution, performance

    began = time.monotonic()
    scenario, outcomes, target = simulate(options, crash=False)
    summary = {
        "scenario": scenario.name,
        "title": scenario.title,
        "seed": scenario.seed,
        "schemes": [outcome.summary for outcome in outcomes],
    }
    write(target, options, scenario, outcomes, summary, began)
    if options.json:
        print(answer(options, scenario, {**summary, "results": target.as_posix()}), end="")
    else:
        lines = [
            *title(scenario),
            *execution(outcomes),
            *performance(outcomes),
            "",
            *costs(outcomes),
            "",
            *failing(outcomes),
        ]
        print("\n".join([*lines, *footer(target, page_of(options))]))
    return 0


def failing(outcomes: Sequence[JobOutcome]) -> list[str]:
    """What failed in time, and the longest stretch without an answer, a paragraph for each variant."""
    from ..terminal.summary import repairs
    from ..terminal.text import paragraph, plural

    lines = repairs(outcomes)
    for outcome in (one for one in outcomes if "repaired" not in one.summary):
        told = [
            f"{one['fault']} at {one['at_us']:,g} us"
            + ("" if one["back_us"] is None else f", back at {one['back_us']:,g} us")
            + (", when all had returned" if one["after_the_end"] else "")
            for one in outcome.summary.get("failures", ())
        ]
        if told:
            answered = sorted(int(str(row[5])) for row in outcome.operations if row[7] == "ok")
            gap_ps, from_ps = max(((b - a, a) for a, b in pairwise([0, *answered])), default=(0, 0))
            gap = f"no answer for {gap_ps / 1e6:,.1f} us from {from_ps / 1e6:,.1f} us on"
            waiting = plural(int(str(outcome.summary["waiting"])), "operation")
            text = f"{outcome.scheme} on {outcome.platform}: {'; '.join(told)}: {gap}; {waiting} without an end"
            lines += paragraph(text, 0, 2)
    return [*lines, ""] if lines else []


def page_of(options: argparse.Namespace) -> str:
    """The name of the report, if one is written."""
    return "" if options.no_report else "report.html"
