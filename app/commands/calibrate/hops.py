"""``rpsim calibrate hops``: the adapter's residual hops, fitted to the published curves that are marked for it."""

from __future__ import annotations

import argparse
import sys

from ....validation.measuring.calibrate import hops
from ...terminal.envelope import envelope
from ...terminal.text import plural, table


def main(options: argparse.Namespace) -> int:
    """Fit, print; returns 0."""
    found = hops.fit(lambda round_, error: print(f"round {round_}: rms error {error:.2%}", file=sys.stderr))
    if options.json:
        answer = {"parameters": found.texts(), "points": found.rows(), "rms_error": found.rms_error}
        print(envelope(options, answer), end="")
        return 0
    print("fitted to: " + ", ".join(found.curves))
    print("\n".join(table(["parameter", "value", "was"], [list(row) for row in found.parameters()])))
    print(f"rms error {found.rms_error:.2%} over {plural(len(found.rows()), 'point')}, before {found.rms_before:.2%}")
    return 0
