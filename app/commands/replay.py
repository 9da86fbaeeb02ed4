"""``rpsim replay``: simulate a saved counterexample again and print its story."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from ...sim.errors import InputError, Mistake
from ..options import Command, Field, Option

COMMAND = Command(
    "run a saved counterexample again, step by step",
    "CASE",
    "a case-N.json from a results folder",
    options=(Option("--perfetto", "write the case's run as a trace for ui.perfetto.dev", "FILE", bears=False),),
    answer=(
        Field("case", "string", "the file of the counterexample"),
        Field("reproduced", "boolean", "whether it shows its violation again; without that it has no more fields"),
        Field("scheme", "string|null?", "the scheme"),
        Field("platform", "string|null?", "the platform with what varied"),
        Field("condition", "string?", "the condition that is violated"),
        Field("instant_ps", "integer?", "when power failed"),
        Field("operations", "integer?", "the operations of the case"),
        Field("object", "string|integer|null?", "the object that is wrong"),
        Field("recovered", "string|integer|null?", "what recovery made of it"),
        Field("lines_lost", "array?", "the lines whose loss matters"),
        Field("explanation", "string?", "why it is a violation"),
        Field("timeline", "array?", "who did what when"),
    ),
    moved={"--trace": "--perfetto {}"},
)


def main(options: argparse.Namespace) -> int:
    """Replay and print; returns 0 when the case shows its violation again, else 1."""
    path = Path(options.subject)
    if not path.is_file():
        found = "a folder" if path.is_dir() else "no such file"
        raise InputError(Mistake(found, "a case-N.json from a results folder", file=str(path)))
    from ...validation.crash.explore import differences, replay_case
    from ..terminal.envelope import envelope
    from ..terminal.output import as_trace, write_text
    from ..terminal.summary import counterexample
    from ..terminal.text import paragraph
    from ..terminal.timeline import timeline

    example = replay_case(path)
    if example is None:
        if options.json:
            print(envelope(options, {"case": str(path), "reproduced": False}), end="")
        else:
            print(f"{path}: simulated again, and nothing is violated this time")
        return 1
    for difference in differences(path, example):
        print(f"{path}: simulated again, but differently ({difference})", file=sys.stderr)
    if options.perfetto is not None:
        write_text(options.perfetto, as_trace(example.trace), "--perfetto", [path])
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
        print(
            envelope(options, {**document, **counterexample(example), "timeline": rows}, case["scenario"]["seed"]),
            end="",
        )
    else:
        head = f"{where}: {example.condition} VIOLATED" if where else f"{example.condition} VIOLATED"
        print("\n".join([*paragraph(head, hang=2), "", *timeline(example)]))
    return 0
