"""The matrix of primitives on a terminal of 80 columns, and its document."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ...protocols.guarantees import Verdict
from ...sim.units import format_bytes
from ...validation.matrix.judging import FAULT, CellFinding
from ...validation.matrix.rows import PrimitiveRow
from .summary import counterexample
from .text import count, paragraph, plural, table

Cases = Mapping[tuple[int, str], str]
"""(number of the row, shape) -> the file of its counterexample."""

SHAPE_TITLES = {
    "whole": "one update, and a dependent second one: durable at the primitive's end?",
    "log": "entry and commit word in one go: never the word without the entry?",
    "other-qp": "the update on one queue pair, the primitive on another: durable?",
}
SIGNS = {Verdict.HOLDS: "yes", Verdict.VIOLATED: "-", Verdict.UNDECIDED: "?"}


def sign(verdicts: Mapping[str, str], refused: bool, refuted: bool = False) -> str:
    """``yes`` if all hold, ``-`` if one is violated, ``n/a`` if it cannot be used there; ``!``: it was claimed."""
    if refused or not verdicts:
        return "n/a"
    for verdict in (Verdict.VIOLATED, Verdict.UNDECIDED):
        if verdict in verdicts.values():
            return SIGNS[verdict] + ("!" if refuted else "")
    return SIGNS[Verdict.HOLDS]


def lines(rows: Sequence[PrimitiveRow], cases: Cases) -> list[str]:
    """Everything that is printed before the closing words."""
    labels = list(dict.fromkeys(row.configuration.label for row in rows))
    legend = [f"  {number}  {label}" for number, label in enumerate(labels, start=1)]
    out = [f"primitives x platforms, {FAULT}, every verdict explored", "", *legend]
    shapes = list(dict.fromkeys(shape for row in rows for shape in row.findings))
    groups = [("whole", [shape for shape in shapes if shape not in ("log", "other-qp")])]
    groups += [(shape, [shape]) for shape in ("log", "other-qp") if shape in shapes]
    for name, members in groups:
        if members:
            out += ["", *_verdicts(name, members, rows, labels)]
    out += ["", "yes: all hold; -: violated; !: its source claims it; n/a: cannot be used there"]
    reasons = _reasons(rows, cases)
    head = ["", "why not (one case each; rpsim replay runs it again)"] if reasons else []
    return [*out, "", *_costs(rows, labels), *head, *reasons]


def _verdicts(name: str, members: Sequence[str], rows: Sequence[PrimitiveRow], labels: Sequence[str]) -> list[str]:
    body = []
    for primitive in dict.fromkeys(row.primitive for row in rows):
        by_label = {row.configuration.label: row for row in rows if row.primitive == primitive}
        cells = []
        for label in labels:
            row = by_label.get(label)
            found = [row.findings[shape] for shape in members if shape in row.findings] if row else []
            worst = _worst(found)
            cells.append(sign(worst, any(f.refused for f in found), bool(name == "whole" and row and row.refuted)))
        body.append([primitive, *cells])
    which = paragraph(f"({', '.join(members)})", 2) if name == "whole" else []
    head = ["", *(str(number) for number in range(1, len(labels) + 1))]
    return [SHAPE_TITLES[name], *which, *table(head, body)]


def _worst(found: Sequence[CellFinding]) -> dict[str, str]:
    order = [str(Verdict.HOLDS), str(Verdict.UNDECIDED), str(Verdict.VIOLATED)]
    worst: dict[str, str] = {}
    for finding in found:
        for condition, verdict in finding.verdicts.items():
            worst[condition] = max(worst.get(condition, order[0]), verdict, key=order.index)
    return worst


def _costs(rows: Sequence[PrimitiveRow], labels: Sequence[str]) -> list[str]:
    """Latency, throughput and resources: a table for each platform, or one of all platforms for one primitive."""
    timed = [row for row in rows if row.costs.latency]
    if not timed:
        return ["nothing was timed"]
    if len({row.primitive for row in timed}) == 1:
        out = _cost_table(timed, [row.configuration.label for row in timed])
        order = ""
    else:
        out, order = [], ", quickest first"
        for label in labels:
            own = [row for row in timed if row.configuration.label == label]
            if own:
                own = sorted(own, key=_latency_of(_middle(own)))
                out += ["", f"  {label}", *_cost_table(own, [row.primitive for row in own])]
        out = out[1:]
    units = (
        f"Latency p50 in us by the update's size{order}; CPU of the responder in ns and bytes on the wire in "
        f"both directions, for an update of {format_bytes(_middle(timed))}; "
        "millions of updates a second by queue pairs (x1, x8, ...)."
    )
    return ["what it costs", "", *out, "", *paragraph(units)]


def _middle(rows: Sequence[PrimitiveRow]) -> int:
    """The size that primitives are compared by."""
    sizes = [size for row in rows for size in row.costs.latency]
    return 64 if 64 in sizes else sizes[0]


def _latency_of(size: int) -> Callable[[PrimitiveRow], float]:
    return lambda row: row.costs.latency[size].p50_ns


def _cost_table(rows: Sequence[PrimitiveRow], names: Sequence[str]) -> list[str]:
    sizes = list(dict.fromkeys(size for row in rows for size in row.costs.latency))
    pairs = list(dict.fromkeys(number for row in rows for number in row.costs.throughput))
    body = []
    for row, name in zip(rows, names, strict=True):
        latency, at = row.costs.latency, row.costs.latency[_middle(rows)]
        times = [f"{latency[size].p50_ns / 1000:.2f}" if size in latency else "" for size in sizes]
        rate = [f"{row.costs.throughput[n] / 1e6:.2f}" if n in row.costs.throughput else "" for n in pairs]
        durable = sign(row.found, False) if row.whole else ""
        body.append([name, durable, *times, f"{at.cpu_ns:.0f}", f"{at.wire_bytes:.0f}", *rate])
    short = [format_bytes(size).replace(" ", "").replace("iB", "") for size in sizes]
    return table(["", "", *short, "CPU", "wire", *(f"x{number}" for number in pairs)], body)


def _reasons(rows: Sequence[PrimitiveRow], cases: Cases) -> list[str]:
    """Why it is not durable, once for each primitive and reason, with where and a case to replay."""
    out: list[str] = []
    for primitive in dict.fromkeys(row.primitive for row in rows):
        groups: dict[str, list[int]] = {}
        for number, row in enumerate(rows):
            if row.primitive == primitive:
                why = next((f.why for f in row.whole.values() if f.why), "")
                if why:
                    groups.setdefault(why, []).append(number)
        if groups:
            out += ["", f"  {primitive}"]
        for why, numbers in groups.items():
            where = "; ".join(rows[number].configuration.label for number in numbers)
            out += paragraph(f"{where}: {why}", 4, 2)
            case = next(
                (cases[numbers[0], shape] for shape in rows[numbers[0]].whole if (numbers[0], shape) in cases), ""
            )
            out += [f"      {case}"] if case else []
    return out


def document(rows: Sequence[PrimitiveRow], cases: Cases) -> list[dict[str, Any]]:
    """The rows as JSON has them."""
    return [_entry(number, row, cases) for number, row in enumerate(rows)]


def _entry(number: int, row: PrimitiveRow, cases: Cases) -> dict[str, Any]:
    shapes = {shape: _finding(finding, cases.get((number, shape))) for shape, finding in row.findings.items()}
    example = next((shapes[shape]["counterexample"] for shape in row.whole if shapes[shape]["counterexample"]), None)
    latency = row.costs.latency
    return {
        "subject": row.primitive,
        "platform": row.configuration.label,
        "profile": row.configuration.platform,
        "settings": dict(row.configuration.settings),
        "fault": FAULT,
        "claimed": row.claimed,
        "found": row.found,
        "refuted": row.refuted,
        "counterexample": example,
        "shapes": shapes,
        "latency_ns": {str(size): {"p50": one.p50_ns, "p99": one.p99_ns} for size, one in latency.items()},
        "responder_cpu_ns": {str(size): one.cpu_ns for size, one in latency.items()},
        "wire_bytes": {str(size): one.wire_bytes for size, one in latency.items()},
        "packets": {str(size): one.packets for size, one in latency.items()},
        "hops_ns": {str(size): [list(hop) for hop in one.hops] for size, one in latency.items()},
        "throughput_ops_per_s": {str(pairs): rate for pairs, rate in row.costs.throughput.items()},
    }


def _finding(finding: CellFinding, case: str | None) -> dict[str, Any]:
    found, example = finding.counterexample, None
    if found is not None:
        example = {**counterexample(found), "phrase": finding.why, "case": case}
    return {
        "verdicts": finding.verdicts,
        "states": finding.states,
        "exhaustive": finding.exhaustive,
        "refused": finding.refused,
        "counterexample": example,
    }


def closing(rows: Sequence[PrimitiveRow]) -> list[str]:
    """The closing lines: which claims are refuted."""
    refuted = [row for row in rows if row.refuted]
    claims = sum(row.found.get(c) in (Verdict.HOLDS, Verdict.VIOLATED) for row in rows for c in row.claimed)
    left = sum(len(row.claimed) for row in rows) - claims
    if not refuted:
        said = f"as claimed: all {plural(claims, 'claim')} on these platforms" if claims else "no claim was decided"
        return [said + (f"; {plural(left, 'claim')} left open" if left else "")]
    out = [f"NOT as claimed: {count(sum(len(row.refuted) for row in refuted))} of {plural(claims, 'claim')}"]
    for row in refuted:
        out += paragraph(f"! {row.primitive} on {row.configuration.label}: {', '.join(row.refuted)}", 2, 2)
    return out
