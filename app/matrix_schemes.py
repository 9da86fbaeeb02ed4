"""``rpsim matrix --schemes A,B``: the guarantee vectors of schemes, x platforms x faults, beside what papers claim."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

from ..protocols.guarantees import claimed
from ..protocols.scheme import scheme
from ..sim.errors import InputError, Mistake
from ..validation.findings import CrashReport
from ..validation.matrix.testbeds import testbed
from .matrix import listed, manifest
from .output import as_json, folder, replacing, write_json
from .summary import counterexample
from .text import count, paragraph, plural, table
from .work import Job, Outcome, perform_all

PLATFORMS = ("optane-adr", "optane-eadr")
FAULTS = ("server[0] power",)
Cases = dict[tuple[int, str], str]


def main(options: argparse.Namespace) -> int:
    """Explore, print, write; returns 0 when no claim is refuted, else 1."""
    from ..scenarios.load import load_scenario

    began = time.monotonic()
    names = listed(options.schemes)
    if not names:
        raise InputError(Mistake("nothing", "names of schemes, as in saw,erda (rpsim list schemes)", field="--schemes"))
    path = str(files("rpsim.validation.matrix") / "schemes.yaml")
    jobs, labels, mistakes = [], [], []
    for fault in listed(options.faults) or list(FAULTS):
        for overrides in _overrides(names, _platforms(options, names), fault):
            try:
                scenario = load_scenario(path, overrides, options.seed)
            except InputError as error:
                mistakes += error.mistakes
                continue
            for index in range(len(scenario.variants())):
                jobs.append(Job(path, overrides, options.seed, index, True))
                labels.append(fault)
    if mistakes:
        raise InputError(list(dict.fromkeys(mistakes)))
    seed = options.seed or 1
    target = folder(options.out, "schemes", {"jobs": [[job.overrides, job.index] for job in jobs]}, seed, "matrix")
    outcomes = perform_all(jobs, options.jobs, "matrix")
    order = sorted(range(len(jobs)), key=lambda at: (names.index(outcomes[at].scheme), labels[at], at))
    outcomes = [outcomes[at] for at in order]
    cases = {
        (number, str(example.condition)): f"case-{number + 1}-{example.condition}.json"
        for number, outcome in enumerate(outcomes)
        for example in report(outcome).counterexamples
    }
    rows = [_row(number, outcome, cases) for number, outcome in enumerate(outcomes)]
    fine = not any(row["refuted"] for row in rows)
    document = {"seed": seed, "as_claimed": fine, "rows": rows}
    with replacing(target) as draft:
        write_json(draft / "matrix.json", document)
        for (number, condition), name in cases.items():
            example = next(e for e in report(outcomes[number]).counterexamples if str(e.condition) == condition)
            write_json(draft / name, example.case)
        write_json(draft / "manifest.json", manifest("matrix", seed, time.monotonic() - began))
    if options.json:
        print(as_json({**document, "results": target.as_posix()}), end="")
    else:
        print("\n".join([*lines(rows, target), "", f"results: {target.as_posix()}"]))
    return 0 if fine else 1


def report(outcome: Outcome) -> CrashReport:
    """What was explored."""
    assert outcome.crash is not None
    return outcome.crash


def _platforms(options: argparse.Namespace, names: Sequence[str]) -> dict[str, list[str]]:
    """By scheme the platforms: its paper's own, and the two Optane servers; or what ``--platforms`` says."""
    chosen = listed(options.platforms)
    return {
        name: chosen or list(dict.fromkeys([*filter(None, [testbed(scheme(name).paper)]), *PLATFORMS]))
        for name in names
    }


def _overrides(names: Sequence[str], where: Mapping[str, Sequence[str]], fault: str) -> list[tuple[str, ...]]:
    """One scenario for all schemes that run on the same platforms."""
    together: dict[tuple[str, ...], list[str]] = {}
    for name in names:
        together.setdefault(tuple(where[name]), []).append(name)
    return [
        (f"schemes=[{', '.join(some)}]", f"vary.platform=[{', '.join(platforms)}]", f'crash.fault="{fault}"')
        for platforms, some in together.items()
    ]


def _row(number: int, outcome: Outcome, cases: Cases) -> dict[str, Any]:
    found = report(outcome)
    claims = scheme(outcome.scheme).claims
    said = {str(c): "holds" for c in claims if claimed(claims, str(c), outcome.platform, found.fault)}
    examples = {
        str(e.condition): counterexample(e) | {"case": cases[number, str(e.condition)]} for e in found.counterexamples
    }
    verdicts = {str(condition): str(verdict) for condition, verdict in found.verdicts.items()}
    return {
        "subject": outcome.scheme,
        "platform": outcome.platform,
        "fault": found.fault,
        "claimed": said,
        "found": verdicts,
        "refuted": [condition for condition in said if verdicts.get(condition) == "violated"],
        "counterexample": examples or None,
        "states": found.states,
        "exhaustive": found.exhaustive,
        "over": found.over,
    }


def lines(rows: Sequence[Mapping[str, Any]], target: Path) -> list[str]:
    """A table for each fault and scheme; claims beside findings; then what is refuted."""
    out = ["guarantees by scheme, platform and fault; claimed: its paper says it holds"]
    for subject, fault in dict.fromkeys((row["subject"], row["fault"]) for row in rows):
        own = [row for row in rows if (row["subject"], row["fault"]) == (subject, fault)]
        conditions = list(dict.fromkeys(condition for row in own for condition in row["found"]))
        body = []
        for row in own:
            cells = [_cell(row, condition) for condition in conditions]
            body.append([row["platform"], *cells, count(row["states"])])
        out += ["", f"{subject}, {fault}", *table(["", *conditions, "states"], body, left=1 + len(conditions))]
    out += ["", "*: claimed; !: claimed and violated"]
    refuted = [row for row in rows if row["refuted"]]
    claims = sum(len(row["claimed"]) for row in rows)
    out += [
        "",
        f"as claimed: all {plural(claims, 'claim')}" if not refuted else f"NOT as claimed: {plural(claims, 'claim')}",
    ]
    for row in refuted:
        for condition in row["refuted"]:
            example = row["counterexample"][condition]
            text = f"! {row['subject']} on {row['platform']}, {row['fault']}: {condition}: {example['explanation']}"
            out += [*paragraph(text, 2, 2), f"    rpsim replay {target.as_posix()}/{example['case']}"]
    return out


def _cell(row: Mapping[str, Any], condition: str) -> str:
    verdict = str(row["found"].get(condition, ""))
    mark = "!" if condition in row["refuted"] else "*" if condition in row["claimed"] else ""
    return f"{verdict}{mark}"
