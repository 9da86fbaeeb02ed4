"""``rpsim check``: the oracle alone, on anybody's history file."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..protocols.guarantees import Verdict
from ..validation.checking import Judgement, Report, Witness, check_history
from ..validation.fitting import Act, key_text
from ..validation.histories import CrashLine, read_history
from ..validation.oracle.search import BUDGET
from ..validation.oracle.wording import nanoseconds
from .output import as_json
from .text import count, paragraph, plural, table

MOST_ROWS = 40
"""How many operations of a piece are printed; ``--json`` has all."""


def main(options: argparse.Namespace) -> int:
    """Read, judge, print; returns 0 when every condition holds, else 1 (violated, or undecided)."""
    path = Path(options.subject)
    report = check_history(read_history(path), options.model, options.conditions, options.budget or BUDGET)
    if options.json:
        print(as_json(document(report)), end="")
    else:
        print("\n".join(text(report)))
    return 0 if all(judgement.verdict is Verdict.HOLDS for judgement in report.verdicts.values()) else 1


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
    told: dict[tuple[str, tuple[int, ...]], list[str]] = {}
    for condition, one in report.verdicts.items():
        if one.witness is not None:
            told.setdefault(_story(one.witness), []).append(str(condition))
        elif one.undecided:
            lines += ["", f"{condition} UNDECIDED", *paragraph(one.undecided, 2, 2)]
    shown: set[tuple[int, ...]] = set()
    for story, names in told.items():
        witness = next(j.witness for j in report.verdicts.values() if j.witness and _story(j.witness) == story)
        lines += ["", *_violation(report, names, witness)]
        lines += ["  by the piece above"] if story[1] in shown else _piece(report, witness)
        shown.add(story[1])
    return lines


def _story(witness: Witness) -> tuple[str, tuple[int, ...]]:
    return witness.explanation, tuple(act.entry.line for act in witness.piece)


def _violation(report: Report, names: Sequence[str], witness: Witness) -> list[str]:
    act = witness.act
    lines = [f"{', '.join(names)} VIOLATED at line {act.entry.return_line}: {act.text}", ""]
    return [*lines, *paragraph(witness.explanation, 2, 2), ""]


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
    lines += _rows(["line", "who", "from ns", "to ns", "what"], cells)
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
