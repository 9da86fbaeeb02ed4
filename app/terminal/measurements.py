"""The output of ``rpsim measure``: a row each, and why some were skipped."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...validation.measuring.conditions import Measurement, series_names
from .text import paragraph, table, thousands


def text(found: Sequence[Measurement]) -> list[str]:
    """A table for each series, and the skipped measurements."""
    lines: list[str] = []
    measured = [one for one in found if not one.skipped]
    if measured:
        names = series_names([replace(one.conditions, mtu_bytes=None) for one in measured])
        rows = [_row(name, one) for name, one in zip(names, measured, strict=True)]
        lines += table(["", "size B", "p50 us", "p99 us", "kop/s", "Gb/s"], rows)
    skipped: dict[str, int] = {}
    for one in found:
        if one.skipped:
            skipped[one.skipped] = skipped.get(one.skipped, 0) + 1
    if skipped:
        lines += ["", "skipped"]
        for reason, count in skipped.items():
            lines += paragraph(f"{count}: {reason}", 2, 2)
    return lines


def _row(name: str, one: Measurement) -> list[str]:
    about, rate = one.conditions, one.rate or 0.0
    return [
        name if len(name) <= 30 else f"{name[:27]}...",
        f"{about.size_bytes:,}",
        f"{one.latency_ns['p50'] / 1e3:,.3f}",
        f"{one.latency_ns['p99'] / 1e3:,.3f}",
        thousands(rate),
        f"{rate * about.size_bytes * 8 / 1e9:,.2f}",
    ]
