"""``rpsim matrix groups``: replication x flush primitives x faults, each cell beside that of the primitive alone."""

from __future__ import annotations

import argparse
import time
from collections.abc import Mapping, Sequence
from typing import Any

from ....sim.jobs.cluster import workers
from ....validation.matrix.configurations import configurations
from ....validation.matrix.groups import GROUPS, GroupRow, group_jobs, group_row
from ...terminal.envelope import envelope
from ...terminal.matrix import sign
from ...terminal.output import folder, footer, manifest, replacing, write_json
from ...terminal.progress import performed
from ...terminal.summary import counterexample
from ...terminal.text import paragraph, table
from .arguments import listed, named, options_as_given, platforms

PRIMITIVES = ("no-flush", "read-after-write", "wflush", "ibta-flush-persistent", "write-imm-cpu-flush")

Cases = Mapping[int, str]
"""The file of a row's counterexample, by the row's number."""


def main(options: argparse.Namespace) -> int:
    """Judge, time, print, write; returns 0: nobody claims anything of a group."""
    began = time.monotonic()
    primitives, faults = listed(options.primitives) or PRIMITIVES, listed(options.faults)
    groups = named(options) or GROUPS
    where = configurations(platforms(options.platforms, "quick"))
    with options_as_given():
        jobs = group_jobs(groups, primitives, where, faults, options.seed)
    inputs: dict[str, Any] = {"jobs": [[one.name, one.configuration.label, one.fault, one.seed] for one in jobs]}
    target = folder(options.out, "groups", inputs, options.seed, "matrix")
    with workers(options.jobs, options.dask) as found:
        rows = performed("matrix", group_row, jobs, found)
    cases = {
        number: f"case-{number + 1}.json" for number, row in enumerate(rows) if row.finding.counterexample is not None
    }
    document = {"seed": options.seed, "rows": [_entry(row, cases.get(number)) for number, row in enumerate(rows)]}
    with replacing(target) as draft:
        write_json(draft / "matrix.json", document)
        for number, name in cases.items():
            example = rows[number].finding.counterexample
            assert example is not None
            write_json(draft / name, example.case)
        write_json(draft / "manifest.json", manifest("matrix", time.monotonic() - began, seed=options.seed))
    if options.json:
        print(envelope(options, {**document, "results": target.as_posix()}, options.seed, inputs), end="")
    else:
        print("\n".join([*lines(rows, cases), "", *footer(target)]))
    return 0


def lines(rows: Sequence[GroupRow], cases: Cases) -> list[str]:
    """A table of verdicts for each fault, the costs on each platform, and why a cell is not durable."""
    labels = list(dict.fromkeys(row.job.configuration.label for row in rows))
    out = ["groups over primitives: no acknowledged update lost, none half there?", ""]
    out += [f"  {number}  {label}" for number, label in enumerate(labels, start=1)]
    groups = list(dict.fromkeys(row.job.group for row in rows))
    for fault in dict.fromkeys(row.job.fault for row in rows):
        out += ["", *_verdicts(fault, [row for row in rows if row.job.fault == fault], groups, labels)]
    out += [
        "",
        "yes: all conditions hold; -: one is violated; ?: undecided; n/a: cannot be used",
        "there; alone: one machine, after its power failure",
        "",
        *_costs(rows, groups, labels),
    ]
    return [*out, *_reasons(rows, cases)]


def _verdicts(fault: str, rows: Sequence[GroupRow], groups: Sequence[str], labels: Sequence[str]) -> list[str]:
    body = []
    for primitive in dict.fromkeys(row.job.primitive for row in rows):
        own = [row for row in rows if row.job.primitive == primitive]
        by_label = {row.job.configuration.label: row for row in own}
        alone = [sign(by_label[label].alone.verdicts, bool(by_label[label].alone.refused)) for label in labels]
        body.append([primitive, "alone", *alone])
        for group in groups:
            cells = {row.job.configuration.label: row.finding for row in own if row.job.group == group}
            if not cells:  # a shorter one has no such machine
                continue
            body.append(["", group, *(sign(cells[label].verdicts, bool(cells[label].refused)) for label in labels)])
    return [fault, *table(["", "", *(str(number) for number in range(1, len(labels) + 1))], body, left=2)]


def _costs(rows: Sequence[GroupRow], groups: Sequence[str], labels: Sequence[str]) -> list[str]:
    out = ["what an update of 64 B costs: p50 in us, bytes on the wire, CPU of all", "replicas in ns"]
    for label in labels:
        body = []
        here = [row for row in rows if row.job.configuration.label == label and row.job.fault == rows[0].job.fault]
        for primitive in dict.fromkeys(row.job.primitive for row in here):
            own = [row for row in here if row.job.primitive == primitive]
            costs = [("alone", own[0].alone_cost), *((row.job.group, row.cost) for row in own)]
            for number, (name, cost) in enumerate(costs):
                if cost is not None:
                    values = f"{cost.p50_ns / 1000:.2f}", f"{cost.wire_bytes:.0f}", f"{cost.cpu_ns:.0f}"
                    body.append(["" if number else primitive, name, *values])
        out += ["", f"  {label}", *table(["", "", "p50", "wire", "CPU"], body, left=2)]
    return out


def _reasons(rows: Sequence[GroupRow], cases: Cases) -> list[str]:
    """Why it is not durable, once for each primitive, group and reason, with a case to replay."""
    found: dict[tuple[str, str, str], list[int]] = {}
    for number, row in enumerate(rows):
        if row.finding.why:
            found.setdefault((row.job.name, row.job.fault, row.finding.why), []).append(number)
    out = ["", "why not (rpsim replay runs a case again)"] if found else []
    for (name, fault, why), numbers in found.items():
        where = "; ".join(rows[number].job.configuration.label for number in numbers)
        out += ["", f"  {name}, {fault}", *paragraph(f"{where}: {why}", 4, 2)]
        out += [f"      {cases[numbers[0]]}"] if numbers[0] in cases else []
    return out


def _entry(row: GroupRow, case: str | None) -> dict[str, Any]:
    example, cost, job = row.finding.counterexample, row.cost, row.job
    return {
        "group": job.group,
        "primitive": job.primitive,
        "platform": job.configuration.label,
        "fault": job.fault,
        "found": row.finding.verdicts,
        "alone": row.alone.verdicts,
        "refused": row.finding.refused,
        "states": row.finding.states,
        "exhaustive": row.finding.exhaustive,
        "counterexample": example and {**counterexample(example), "phrase": row.finding.why, "case": case},
        "p50_ns": cost and cost.p50_ns,
        "alone_p50_ns": row.alone_cost and row.alone_cost.p50_ns,
        "wire_bytes": cost and cost.wire_bytes,
        "packets": cost and cost.packets,
        "replicas_cpu_ns": cost and cost.cpu_ns,
    }
