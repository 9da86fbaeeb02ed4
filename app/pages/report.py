"""report.html: one file that opens anywhere, offline, with tables, plots and the crash slider."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ...models.durability.places import Domain, Place, survives
from ...protocols.guarantees import MEANINGS, Condition
from ..terminal.summary import costs, execution, grouped, repairs, same_story, waits
from ..terminal.text import count, microseconds, plural, thousands
from ..terminal.timeline import heading, timeline
from ..terminal.work import JobOutcome
from . import plots
from .template import render

if TYPE_CHECKING:
    from ...scenarios.schema.schema import Scenario
    from ...validation.crash.findings import CrashReport


PAGE_LETTERS = 112
"""So many letters of a counterexample find room beside each other in a usual window."""


def report(scenario: Scenario, outcomes: Sequence[JobOutcome], summary: Mapping[str, Any]) -> str:
    """The whole page as text; two runs with one seed give the same page."""
    hops = plots.hops(outcomes)
    figures = {"latency": plots.latency(outcomes), "throughput": plots.throughput(outcomes)}
    return render(
        "report.html",
        title=f"{scenario.name}: {scenario.title}",
        kind="rpsim report",
        heading=scenario.title,
        facts=_facts(scenario, outcomes),
        crash=_crash(outcomes, summary) if any(outcome.crash for outcome in outcomes) else None,
        sliders=[slider_data(outcome.slider) for outcome in outcomes if outcome.slider],
        performance=[performance(outcome) for outcome in outcomes],
        special="\n".join([*execution(outcomes), *repairs(outcomes)]).rstrip(),
        costs="\n".join(costs(outcomes)[1:]).strip("\n"),
        hops=list(hops),
        resolved=json.dumps(scenario.resolved(), indent=2, default=str),
        figures=figures | {f"hops-{i}": figure for i, figure in enumerate(hops.values())},
    )


def slider_data(slider: Mapping[str, Any]) -> dict[str, Any]:
    """The explorer's data for the crash slider, and which places are inside the persistence domain."""
    domain = str(slider["domain"])
    known = domain in {str(name) for name in Domain}
    inside = [str(place) for place in Place if known and survives(place, Domain(domain))]
    return {**slider, "inside": inside}


def _facts(scenario: Scenario, outcomes: Sequence[JobOutcome]) -> dict[str, str]:
    workload = scenario.resolved().get("workload")
    facts = {
        "scenario": scenario.name,
        "schemes": ", ".join(dict.fromkeys(outcome.scheme for outcome in outcomes)),
        "platforms": "; ".join(dict.fromkeys(outcome.platform for outcome in outcomes)),
        "workload": _in_words(workload) if isinstance(workload, dict) else "",
        "fault": ", ".join(dict.fromkeys(o.crash.fault for o in outcomes if o.crash)),
        "seed": str(scenario.seed),
    }
    return {name: text for name, text in facts.items() if text}


def _in_words(fields: Mapping[str, Any]) -> str:
    """Fields and their values; a list of maps, such as groups of processes, in brackets."""
    return ", ".join(
        f"{key} {'; '.join(f'({_in_words(each)})' for each in value)}"
        if isinstance(value, list) and all(isinstance(each, dict) for each in value)
        else f"{key} {value}"
        for key, value in fields.items()
    )


def _crash(outcomes: Sequence[JobOutcome], summary: Mapping[str, Any]) -> dict[str, Any]:
    """The findings in a sentence a scheme, the verdicts, and the smallest counterexamples."""
    reports = [outcome.crash for outcome in outcomes if outcome.crash]
    unexpected = summary.get("unexpected", [])
    wrong = f"{plural(len(unexpected), 'verdict')} not as expected, marked below."
    return {
        "findings": {
            scheme: _sentences([report for report in reports if report.scheme == scheme])
            for scheme in dict.fromkeys(report.scheme for report in reports)
        },
        "tail": wrong if unexpected else "No verdict differs from what was expected.",
        **verdicts(outcomes, unexpected),
        "examples": _counterexamples(outcomes, summary),
    }


def verdicts(outcomes: Sequence[JobOutcome], unexpected: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The guarantee vector of every scheme and platform, and its states; ``unexpected`` verdicts are marked."""
    reports = [outcome.crash for outcome in outcomes if outcome.crash]
    conditions = list(dict.fromkeys(condition for report in reports for condition in report.verdicts))
    odd = {(s["scheme"], s["platform"], s["condition"]): s["expected"] for s in unexpected}
    overs = dict.fromkeys(f"{'All' if r.exhaustive else 'A sample'}: {r.over}." for r in reports if r.over)
    views = ", ".join(dict.fromkeys(report.view for report in reports))
    return {
        "rows": [_verdicts(report, conditions, odd) for report in reports],
        "meanings": {str(condition): MEANINGS[Condition(condition)] for condition in conditions},
        "note": f"View: {views}. {' '.join(overs)}",
    }


def _sentences(reports: Sequence[CrashReport]) -> list[tuple[str, str]]:
    """(condition, the outcome on all platforms) of one scheme."""
    found = []
    for condition in dict.fromkeys(condition for report in reports for condition in report.verdicts):
        broken = [r for r in reports if r.verdicts.get(condition) == "violated"]
        unknown = [r for r in reports if r.verdicts.get(condition) == "undecided"]
        where = "every platform" if len(broken) == len(reports) else ", ".join(f"({r.platform})" for r in broken)
        if broken:
            words = f"is violated on {where}"
        elif unknown:
            words = f"is undecided on {plural(len(unknown), 'platform')}"
        else:
            words = "holds on every platform"
        found.append((str(condition), words))
    found += [("somebody", f"waits for ever on ({r.platform}) in some runs") for r in reports if r.waiting]
    return found


def _verdicts(
    report: CrashReport, conditions: Sequence[Any], odd: Mapping[tuple[str, str, str], str]
) -> dict[str, Any]:
    """A row of the table of verdicts."""
    cells = []
    for condition in conditions:
        bad = report.violating_states.get(condition, 0)
        cells.append({
            "verdict": str(report.verdicts.get(condition, "")),
            "share": f"{count(bad)} of {plural(report.states, 'state')}" if bad else "",
            "expected": odd.get((report.scheme, report.platform, str(condition)), ""),
        })  # fmt: skip
    return {
        "scheme": report.scheme,
        "platform": report.platform,
        "cells": cells,
        "states": count(report.states),
        "extent": "all" if report.exhaustive else "a sample",
        "waiting": waits(report) if report.waiting else "",
        "instants": count(report.instants),
        "recoveries": count(report.recoveries_run),
    }


def performance(outcome: JobOutcome) -> dict[str, Any]:
    """Count, quantiles and mean of each operation of a variant, and its rate."""
    return {
        "scheme": outcome.scheme,
        "platform": outcome.platform,
        "rate": thousands(outcome.summary["throughput_ops_per_s"]),
        "operations": {
            f: [
                count(len(outcome.latency_ps[f])),
                *(microseconds(latency[key] * 1000) for key in ("p50", "p99", "p999", "mean")),
            ]
            for f, latency in outcome.summary["latency_ns"].items()
        },
    }


def _counterexamples(outcomes: Sequence[JobOutcome], summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The counterexamples; one whose story stands above already has only its explanation."""
    found = []
    shown: list[Any] = []
    for (scheme, condition, _), places in grouped(outcomes).items():
        index, number = places[0]
        crash = outcomes[index].crash
        assert crash is not None
        example = crash.counterexamples[number]
        again = any(name == scheme and same_story(other, example) for name, other in shown)
        found.append({
            "scheme": scheme,
            "condition": condition,
            "platform": outcomes[index].platform,
            "story": "" if again else "\n".join([*heading(crash, example), "", *timeline(example, PAGE_LETTERS)]),
            "explanation": example.explanation,
            "cases": [
                (outcomes[i].platform, summary["schemes"][i]["counterexamples"][n]["case"]) for i, n in places
            ],
        })  # fmt: skip
        if not again:
            shown.append((scheme, example))
    return found
