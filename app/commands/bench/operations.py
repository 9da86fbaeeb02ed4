"""``rpsim bench operations``: what each verb, each operation of a store and each call costs."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ...terminal.text import count, paragraph, table
from . import aims
from .aims import effort, figure, progress

if TYPE_CHECKING:
    from ....validation.speed.operations import Operation, OperationFigures


def main(options: argparse.Namespace) -> int:
    """Measure, print; returns 1 where an aim is missed, else 0."""
    from ....validation.speed.operations import RPCS, STORES, VERBS, measure_all
    from ...terminal.envelope import envelope

    with progress(len(VERBS) + len(STORES) + len(RPCS)) as on_step:
        verbs, stores, rpcs = measure_all(effort(options), on_step)
    answer = operations_document(verbs, stores, rpcs)
    found = judged(answer)
    if options.json:
        print(envelope(options, {**answer, **aims.document(found)}), end="")
    else:
        print("\n".join([*operations_text(answer), "", *aims.closing(found)]))
    return aims.status(found)


def judged(answer: Mapping[str, Any]) -> list[aims.Aimed]:
    """The raw timeouts of each operation that has an aim; ``answer`` is that of :func:`operations_document`."""
    from ....validation.speed.operations import RPCS, STORES, VERBS

    found = []
    for kind, operations in (("verbs", VERBS), ("stores", STORES), ("rpcs", RPCS)):
        for key, operation in operations.items():
            if operation.aim is not None and key in answer[kind]:
                _, timeouts, *_ = answer[kind][key].values()
                found.append(aims.Aimed(f"{operation.name}, raw timeouts", timeouts, operation.aim, less=True))
    return found


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
    from ....validation.speed.operations import RPCS, STORES, VERBS

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
        aimed = "" if aim is None else figure(aim)
        figures = [count(round(per_second)), figure(timeouts), aimed, missed, f"{calls:,.1f}", count(round(bytecodes))]
        rows.append([operation.name, *figures])
    return table([title, "a second", "timeouts", "aim", "", "calls", "bytecodes"], rows)
