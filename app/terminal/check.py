"""The output of ``rpsim check`` for a history: verdicts, the shortest failing piece; as text and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...protocols.guarantees import Verdict
from ...validation.histories.check import Judgement, Report, Witness
from ...validation.histories.fitting import Act, key_text
from ...validation.histories.read import CrashLine
from ...validation.oracle.wording import moment_text, nanoseconds
from .text import count, paragraph, plural, table

MOST_ROWS = 40
"""How many operations of a piece are printed; ``--json`` has all."""


def text(report: Report) -> list[str]:
    """The report as lines of a terminal."""
    history = report.history
    size = f"{plural(len(history.entries), 'operation')} on {plural(report.objects, 'object')}"
    crashes = ", ".join(f"{crash_text(crash)} (line {crash.line})" for crash in history.crashes[:4])
    more = f", and {len(history.crashes) - 4} more" if len(history.crashes) > 4 else ""
    lines = [*paragraph(f"{history.file}: {size}; {'crashes: ' + crashes + more if crashes else 'no crash'}", 0, 2)]
    lines += [f"model: {report.model.name}", ""]
    rows = [
        [str(condition), str(one.verdict), ", ".join(one.by), count(one.steps), f"{one.seconds:.3f}"]
        for condition, one in report.verdicts.items()
    ]
    lines += table(["condition", "verdict", "by", "steps", "seconds"], rows, left=3)
    for reason in dict.fromkeys(report.not_judged.values()):
        which = ", ".join(str(condition) for condition, why in report.not_judged.items() if why == reason)
        lines += ["", *paragraph(f"not judged: {which} ({reason})", 2, 2)]
    by_story: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for condition, one in report.verdicts.items():
        if one.witness is not None:
            by_story.setdefault(_story(one.witness), []).append(str(condition))
        elif one.undecided:
            lines += ["", f"{condition} UNDECIDED", *paragraph(one.undecided, 2, 2)]
    shown: set[tuple[int, ...]] = set()
    for story, names in by_story.items():
        witness = next(j.witness for j in report.verdicts.values() if j.witness and _story(j.witness) == story)
        lines += ["", *_violation(report, names, witness)]
        lines += ["  by the piece above"] if story[1] in shown else _piece(report, witness)
        shown.add(story[1])
    return lines


def several(reports: Sequence[Report]) -> list[str]:
    """Several histories, a line each, and how many of them are as they should be."""
    rows, verdicts, fine = [], [], 0
    for report in reports:
        found = {
            verdict: [str(condition) for condition, one in report.verdicts.items() if one.verdict is verdict]
            for verdict in (Verdict.VIOLATED, Verdict.UNDECIDED)
        }
        wrong = [f"{verdict}: {', '.join(names)}" for verdict, names in found.items() if names]
        fine += not wrong
        rows.append([report.history.file, count(len(report.history.entries)), report.model.name])
        verdicts.append("; ".join(wrong) or "holds")
    head, *lines = table(["history", "operations", "model"], rows, left=1)
    body = [line for row, one in zip(lines, verdicts, strict=True) for line in (row, *paragraph(one, 4, 2))]
    return [head, *body, "", f"{fine} of {plural(len(reports), 'history', 'histories')}: every condition holds"]


def _story(witness: Witness) -> tuple[str, tuple[int, ...]]:
    return witness.explanation, tuple(act.entry.line for act in witness.piece)


def _violation(report: Report, names: Sequence[str], witness: Witness) -> list[str]:
    act = witness.act
    lines = [f"{', '.join(names)} VIOLATED at line {act.entry.return_line}: {act.text}", ""]
    lines += paragraph(witness.explanation, 2, 2)
    if witness.prefix is not None:
        lines += ["", *paragraph(_prefix_text(report, witness), 2, 2)]
    return [*lines, ""]


def _prefix_text(report: Report, witness: Witness) -> str:
    """``the longest prefix with an order: until 38 ns, 3 operations (lines 1, 4, 7)``."""
    if witness.prefix_ps is None or witness.prefix is None:
        return "no prefix has an order: it is the first response"
    some = ", ".join(map(str, witness.prefix[:12])) + (", ..." if len(witness.prefix) > 12 else "")
    size = plural(len(witness.prefix), "operation")
    until = moment_text(witness.prefix_ps, report.history.time_zero_ns, report.history.timed)
    where = "" if witness.key is None else f" of {key_text(witness.key)}"
    return f"the longest prefix{where} with an order: until {until}, {size} (lines {some})"


def _piece(report: Report, witness: Witness) -> list[str]:
    act = witness.act
    of = count(len(report.history.entries))
    lines = [f"  the shortest failing piece: {count(len(witness.piece))} of {of} operations"]
    rows: list[tuple[float, list[str]]] = []
    for one in witness.piece[:MOST_ROWS]:
        entry = one.entry
        mark = "  <--" if one is act else ""
        times = [_ns(report, entry.invoke_ps), _until(report, witness, one)]
        rows.append((entry.invoke_ps, [f"{entry.line}", f"process {key_text(entry.process)}", *times, one.text + mark]))
    for crash in report.history.crashes:
        if witness.piece[0].entry.invoke_ps <= crash.at_ps <= witness.at_ps:
            rows.append(
                (crash.at_ps, [f"{crash.line}", "", _ns(report, crash.at_ps), "", f"-- {crash_text(crash)} --"])
            )
    cells = [row for _, row in sorted(rows, key=lambda row: row[0])]
    unit = " ns" if report.history.timed else ""
    lines += _rows(["line", "who", f"from{unit}", f"to{unit}", "what"], cells)
    if len(witness.piece) > MOST_ROWS:
        lines.append(f"    ... and {count(len(witness.piece) - MOST_ROWS)} more (--json has them)")
    return lines


def _rows(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Numbers flush right, texts flush left."""
    widths = [max(len(row[i]) for row in (head, *rows)) for i in range(len(head))]
    return [
        "    "
        + "  ".join(
            cell.ljust(widths[i]) if i in (1, 4) else cell.rjust(widths[i]) for i, cell in enumerate(row)
        ).rstrip()
        for row in (head, *rows)
    ]


def _until(report: Report, witness: Witness, act: Act) -> str:
    entry = act.entry
    if entry.outcome == "fail":
        return "failed"
    if entry.return_ps is None or entry.return_ps > witness.at_ps:
        return "open"
    return _ns(report, entry.return_ps)


def _ns(report: Report, time_ps: int) -> str:
    """A time as the file had it."""
    return nanoseconds(time_ps, report.history.time_zero_ns)


def crash_text(crash: CrashLine) -> str:
    """``crash of the system``, ``crash of client 3``."""
    return f"crash of client {crash.process}" if crash.node == "client" else f"crash of the {crash.node}"


def document(report: Report) -> dict[str, Any]:
    """The report as one JSON document."""
    history = report.history
    return {
        "history": history.file,
        "format": history.format,
        "model": report.model.name,
        "operations": len(history.entries),
        "objects": report.objects,
        "crashes": [
            {"line": c.line, "node": c.node, "process": c.process, "time": c.at_ps / 1000} for c in history.crashes
        ],
        "verdicts": {str(condition): _judgement(report, one) for condition, one in report.verdicts.items()},
        "not_judged": {str(condition): reason for condition, reason in report.not_judged.items()},
    }


def _judgement(report: Report, one: Judgement) -> dict[str, Any]:
    answer: dict[str, Any] = {
        "verdict": str(one.verdict),
        "by": list(one.by),
        "steps": one.steps,
        "seconds": round(one.seconds, 6),
        "witness": None,
    }
    if one.witness is not None:
        witness = one.witness
        answer["witness"] = {
            "key": None if witness.key is None else key_text(witness.key),
            "operation": _row(report, witness, witness.act),
            "explanation": witness.explanation,
            "piece": [_row(report, witness, act) for act in witness.piece],
            "prefix": None
            if witness.prefix is None
            else {
                "until": None if witness.prefix_ps is None else float(_ns(report, witness.prefix_ps)),
                "lines": list(witness.prefix),
            },
        }
    elif one.undecided:
        answer["witness"] = {"explanation": one.undecided}
    elif one.order:
        answer["witness"] = {
            "orders": [
                {"key": None if key is None else key_text(key), "lines": list(lines)}
                for key, lines in one.order.items()
            ]
        }
    return answer


def _row(report: Report, witness: Witness, act: Act) -> dict[str, Any]:
    entry = act.entry
    until = _until(report, witness, act)
    known = until not in ("open", "failed")
    return {
        "line": entry.line,
        "process": entry.process,
        "text": act.text,
        "invoked": float(_ns(report, entry.invoke_ps)),
        "returned": float(until) if known else None,
        "outcome": "ok" if known else "fail" if until == "failed" else None,
    }
