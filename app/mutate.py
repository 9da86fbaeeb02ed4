"""``rpsim mutate``: faults planted in a scheme's code, and how many of them the judge finds."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import asdict

from tqdm import tqdm

from ..protocols.scheme import scheme, schemes
from ..validation.mutation.kinds import KINDS
from ..validation.mutation.score import Fate, score
from .output import as_json
from .text import WIDTH, paragraph, plural, table

UNKNOWN = "nobody has looked into it yet"


def main(options: argparse.Namespace) -> int:
    """Plant, judge, print; returns 0 if every fault that survives has a reason, else 1."""
    known = list(schemes().values()) if options.subject is None else [scheme(options.subject)]
    name = "all schemes" if options.subject is None else known[0].name
    with tqdm(total=None, leave=False, file=sys.stderr, disable=None, ncols=WIDTH, desc=f"mutate {name}") as bar:

        def advance(number: int, total: int) -> None:
            bar.total = total
            bar.update(number - bar.n)

        fates = list(score(known, shared=options.shared, jobs=options.jobs, progress=advance))
    if options.json:
        print(as_json(_document([one.name for one in known], fates)), end="")
    else:
        print("\n".join(text(name, fates)))
    return int(any(not fate.killed_by and not fate.reason for fate in fates))


def _document(names: list[str], fates: Sequence[Fate]) -> dict[str, object]:
    killed = sum(bool(fate.killed_by) for fate in fates)
    return {
        "schemes": names,
        "faults": len(fates),
        "killed": killed,
        "kill_rate": killed / len(fates) if fates else None,
        "kinds": {kind: {"faults": planted, "killed": found} for kind, planted, found in _by_kind(fates)},
        "fates": [asdict(fate) for fate in fates],
    }


def _by_kind(fates: Sequence[Fate]) -> list[tuple[str, int, int]]:
    """Of each kind of the catalogue: how many were planted, how many found."""
    rows = []
    for kind in KINDS:
        own = [fate for fate in fates if fate.kind == kind]
        rows.append((kind, len(own), sum(bool(fate.killed_by) for fate in own)))
    return rows


def text(name: str, fates: Sequence[Fate]) -> list[str]:
    """What is printed: the score by kind, then the survivors with their reasons."""
    survivors = [fate for fate in fates if not fate.killed_by]
    counts = _by_kind(fates)
    counts.append(("all", len(fates), len(fates) - len(survivors)))
    rows = [(kind, str(planted), str(found), f"{found / planted:.0%}") for kind, planted, found in counts if planted]
    lines = [f"{name}: faults planted in the code, one at a time", ""]
    lines += [*table(("fault", "planted", "found", "score"), rows), ""]
    nowhere = [kind for kind, planted, _ in counts[:-1] if not planted]
    if nowhere:
        lines += [*paragraph(f"nowhere to plant: {', '.join(nowhere)}", 0, 2), ""]
    if survivors:
        known = sum(bool(fate.reason) for fate in survivors)
        lines += [f"not found: {plural(len(survivors), 'fault')}, {known} with a known reason", ""]
    for fate in survivors:
        lines += paragraph(f"{fate.module}.py:{fate.line}  {fate.fault}", indent=2, hang=4)
        lines += [*paragraph(fate.reason or UNKNOWN, indent=6), ""]
    return lines[:-1]
