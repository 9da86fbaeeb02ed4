"""``rpsim crash``: run a scenario, cut the power at every instant, and report the findings."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import TYPE_CHECKING

from ..options import OF_SCENARIO, OF_SCENARIOS_ANSWER, SCENARIO, Command, Field, Option
from .run import answer, page_of, simulate, title, write

if TYPE_CHECKING:
    from ...scenarios.schema.schema import Scenario

COMMAND = Command(
    "cut the power at every instant: verdicts and smallest counterexamples",
    "SCENARIO",
    SCENARIO,
    options=(
        *OF_SCENARIO,
        Option("--nested", "power fails up to N times more, in recoveries", "N", least=1, most=9),
        Option("--brute-force", "explore (a small run) once more without any cleverness"),
    ),
    answer=(
        *OF_SCENARIOS_ANSWER,
        Field("as_expected", "boolean", "whether all verdicts are as the scenario expects or, else, the scheme claims"),
        Field("unexpected", "array", "the verdicts that are not"),
        Field(
            "schemes",
            "array",
            "of each scheme and platform: `verdicts`, `counterexamples`, `states`, `exhaustive`; `waiting`: in how"
            " many of these somebody waits for ever",
        ),
    ),
)


def main(options: argparse.Namespace) -> int:
    """Explore, judge, print, write; returns 0 when all verdicts are as expected, else 1."""
    from ...protocols.registry import scheme
    from ..terminal.expected import Surprise, surprises, unanswered
    from ..terminal.output import as_trace, footer, write_json
    from ..terminal.summary import by_brute_force, closing, crash_entry, findings, performance, verdicts, with_wall_time

    began = time.monotonic()
    scenario, outcomes, target = simulate(options, crash=True)
    odd: list[Surprise] = []
    left = []
    for outcome in outcomes:
        foreseen = scenario.expect, scheme(outcome.scheme).claims
        odd += surprises(outcome.crash_report, *foreseen)
        left.append(unanswered(outcome.crash_report, *foreseen))
    places = [
        (index, number)
        for index, outcome in enumerate(outcomes)
        for number in range(len(outcome.crash_report.counterexamples))
    ]
    names = {place: f"case-{number}.json" for number, place in enumerate(places, start=1)}
    entries = [
        crash_entry(outcome, {number: name for (i, number), name in names.items() if i == index}, odd)
        for index, outcome in enumerate(outcomes)
    ]
    brutes = [(f"{o.scheme} on {o.platform}", o.brute) for o in outcomes if o.brute is not None]
    for entry, (_, brute) in zip(entries, brutes, strict=False):  # of all variants, or of none
        entry["brute_force"] = {"agrees": brute.agree, "images": brute.images, "violated_at_ps": dict(brute.brute)}
    summary = {
        "scenario": scenario.name,
        "title": scenario.title,
        "seed": scenario.seed,
        "as_expected": not odd,
        "unexpected": [vars(surprise) for surprise in odd],
        "schemes": entries,
    }

    def write_cases(draft: Path) -> None:
        for (index, number), name in names.items():
            report = outcomes[index].crash
            assert report is not None
            example = report.counterexamples[number]
            write_json(draft / name, example.case)
            drawn = draft / f"trace-{name}"
            drawn.write_text(as_trace(example.trace), encoding="utf-8", newline="\n")

    write(target, options, scenario, outcomes, summary, began, write_cases)
    if options.json:
        print(answer(options, scenario, with_wall_time(summary, outcomes, target.as_posix())), end="")
    else:
        judged = sum(len(outcome.crash_report.verdicts) for outcome in outcomes)
        paths = {place: f"{target.as_posix()}/{name}" for place, name in names.items()}
        lines = [*title(scenario), *smaller(scenario), *performance(outcomes), "", *verdicts(outcomes, odd), ""]
        found = findings(outcomes, paths)
        lines += [*found, ""] if found else ["no counterexamples", ""]
        lines += [line for subject, brute in brutes for line in by_brute_force(subject, brute)]
        lines += [*closing(odd, judged, left), "", *footer(target, page_of(options))]
        print("\n".join(lines))
    return 1 if odd or not all(brute.agree for _, brute in brutes) else 0


def smaller(scenario: Scenario) -> list[str]:
    """What is explored of the scenario's workload, where its ``crash`` says that it is not all."""
    from ..terminal.text import paragraph

    crash = scenario.crash
    counts = (crash.operations, "operations"), (crash.keys, "keys")
    few = " on ".join(f"{count:,} {what}" for count, what in counts if count is not None)
    return (
        [*paragraph(f"explored with {few}, as its crash says; rpsim run has the whole workload", 0, 2), ""]
        if few
        else []
    )
