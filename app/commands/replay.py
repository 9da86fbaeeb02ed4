"""``rpsim replay``: simulate a saved counterexample again and print its story."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ...sim.errors import InputError, Mistake
from ..options import Command, Option

COMMAND = Command(
    "run a saved counterexample again, step by step",
    "CASE",
    "a case-N.json from a results folder",
    options=(Option("--trace", "write the case's run as a trace for ui.perfetto.dev", "FILE"),),
)


def main(options: argparse.Namespace) -> int:
    """Replay and print; returns 0 when the case shows its violation again, else 1."""
    path = Path(options.subject)
    if not path.is_file():
        found = "a folder" if path.is_dir() else "no such file"
        raise InputError(Mistake(found, "a case-N.json from a results folder", file=str(path)))
    from ...validation.crash.explore import differences, replay_case
    from ..terminal.output import as_json, as_trace, write_text
    from ..terminal.summary import counterexample
    from ..terminal.text import paragraph
    from ..terminal.timeline import timeline

    example = replay_case(path)
    if example is None:
        if options.json:
            print(as_json({"case": str(path), "reproduced": False}), end="")
        else:
            print(f"{path}: simulated again, and nothing is violated this time")
        return 1
    for difference in differences(path, example):
        print(f"{path}: simulated again, but differently ({difference})", file=sys.stderr)
    if options.trace is not None:
        write_text(options.trace, as_trace(example.trace), "--trace")
    case = example.case
    where = " on ".join(str(case[key]) for key in ("scheme", "platform") if key in case)
    if options.json:
        rows = [{"time_ps": r.time_ps, "side": r.side, "text": r.text, "mark": r.mark} for r in example.timeline]
        document = {
            "case": str(path),
            "reproduced": True,
            "scheme": case.get("scheme"),
            "platform": case.get("platform"),
        }
        print(as_json({**document, **counterexample(example), "timeline": rows}), end="")
    else:
        head = f"{where}: {example.condition} VIOLATED" if where else f"{example.condition} VIOLATED"
        print("\n".join([*paragraph(head, hang=2), "", *timeline(example)]))
    return 0
