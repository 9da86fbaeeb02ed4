"""``rpsim mutate``: faults planted in a scheme's code, and how many of them the judge finds."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict

from tqdm import tqdm

from ..protocols.scheme import scheme
from ..validation.mutation.score import Fate, score
from .output import as_json
from .text import paragraph, table

UNKNOWN = "nobody has looked into it yet"


def main(options: argparse.Namespace) -> int:
    """Plant, judge, print; returns 0 if every fault that survives has a reason, else 1."""
    known = scheme(options.subject)
    with tqdm(total=None, leave=False, file=sys.stderr, disable=None, ncols=80, desc=f"mutate {known.name}") as bar:

        def advance(number: int, total: int) -> None:
            bar.total = total
            bar.update(number - bar.n)

        fates = list(score(known, shared=options.shared, progress=advance))
    if options.json:
        killed = sum(bool(fate.killed_by) for fate in fates)
        rate = killed / len(fates) if fates else None
        document = {"scheme": known.name, "faults": len(fates), "killed": killed, "kill_rate": rate,
                    "fates": [asdict(fate) for fate in fates]}  # fmt: skip
        print(as_json(document), end="")
    else:
        print("\n".join(text(known.name, fates)))
    return int(any(not fate.killed_by and not fate.reason for fate in fates))


def text(name: str, fates: Sequence[Fate]) -> list[str]:
    """What is printed: the score by operator, then the survivors with their reasons."""
    survivors = [fate for fate in fates if not fate.killed_by]
    operators = sorted({fate.operator for fate in fates})
    rows = []
    for operator in [*operators, "all"]:
        own = [fate for fate in fates if operator in (fate.operator, "all")]
        killed = sum(bool(fate.killed_by) for fate in own)
        rows.append((operator, str(len(own)), str(killed), f"{killed / len(own):.0%}" if own else "-"))
    lines = [f"{name}: faults planted in its code, one at a time", ""]
    lines += [*table(("fault", "planted", "found", "score"), rows), ""]
    if survivors:
        lines += [f"not found: {len(survivors)}", ""]
    for fate in survivors:
        lines += paragraph(f"{fate.module}.py:{fate.line}  {fate.fault}", indent=2, hang=4)
        lines += [*paragraph(fate.reason or UNKNOWN, indent=6), ""]
    return lines[:-1]
