"""A refuted condition as a test's failure says it: the verdict, then the smallest counterexample, an event a line."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator

from ...protocols.guarantees import Condition
from ...sim.units import format_us
from ..crash.findings import Counterexample, CrashReport

WIDTH = 80


def story(report: CrashReport, conditions: Iterable[Condition]) -> Iterator[str]:
    """The failure of each of ``conditions``: the verdict, and the counterexample if there is one."""
    for condition in conditions:
        verdict = report.verdicts.get(condition)
        bad = report.violating_states.get(condition, 0)
        share = f"{bad:,} of {report.states:,} crash states" if bad else f"{report.states:,} crash states"
        found = "not judged" if verdict is None else str(verdict)
        yield f"{report.scheme} on {report.platform}, after {report.fault}:"
        yield f"{condition} {found} ({share})"
        for example in report.counterexamples:
            if example.condition is condition:
                yield from events(example)


def events(example: Counterexample) -> Iterator[str]:
    """The events of a counterexample, in order of time, and the condition that they break."""
    yield f"  {'us':>8}  smallest counterexample"
    for row in example.timeline:
        mark = f"  <- {row.mark}" if row.mark in ("LOST", "MATCH") else ""
        side = "" if not row.side or row.text.startswith(row.side) else f"{row.side}: "
        yield from _wrapped(format_us(row.time_ps), f"{side}{row.text}{mark}")
    yield from _wrapped("", example.explanation)


def _wrapped(time: str, text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=f"  {time:>8}  ", subsequent_indent=" " * 14)
