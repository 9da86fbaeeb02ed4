"""``rpsim check``: the oracle alone, on a history file from any system."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

from ...sim.errors import InputError, Mistake
from ..options import Command, Option

COMMAND = Command(
    "judge a history file of your own system: the oracle alone",
    "HISTORY",
    "a file of JSON Lines, one event a line, or Jepsen's EDN or log (docs/check.md)",
    options=(
        Option("--model", "the sequential model (default: the first that fits)", "M"),
        Option(
            "--condition",
            "judge by this condition; may be repeated (default: all that apply)",
            "C",
            several=True,
            to="conditions",
        ),
        Option("--budget", "how many steps the search of an object may take", "N", least=1),
        Option("--memory", "what the searches of a condition may hold (default: 1 GiB)", "SIZE"),
        Option("--loss", "the time of bounded_loss, as in 1s or 250us", "TIME"),
        Option("--html", "write the history as a page, with linearization points", "FILE"),
    ),
)


def main(options: argparse.Namespace) -> int:
    """Read, judge, print; returns 0 when every condition holds, else 1 (violated, or undecided)."""
    from ...protocols.guarantees import Condition, Verdict
    from ...sim.units import parse_bytes, parse_duration_ps
    from ...validation.histories.check import check_history, uncollected
    from ...validation.histories.read import read_history
    from ...validation.oracle.search.general import BUDGET, BUDGET_BYTES
    from ..terminal.check import document, text
    from ..terminal.output import as_json, write_text

    loss_ps = _quantity(options.loss, parse_duration_ps, "--loss", "a time with its unit, as in 1s or 250us")
    memory = _quantity(options.memory, parse_bytes, "--memory", "a size with its unit, as in 512 MiB")
    budget, memory = options.budget or BUDGET, BUDGET_BYTES if memory is None else memory
    if options.loss is not None and options.conditions and Condition.BOUNDED_LOSS not in options.conditions:
        raise InputError(Mistake("no bounded_loss among the conditions", "--condition bounded_loss", field="--loss"))
    with uncollected():
        history = read_history(Path(options.subject))
        report = check_history(history, options.model, options.conditions, budget, memory, loss_ps)
    if options.html is not None:
        from ..pages.history import page

        write_text(options.html, page(report), "--html")
    if options.json:
        print(as_json(document(report)), end="")
    else:
        print("\n".join(text(report)))
    return 0 if all(judgement.verdict is Verdict.HOLDS for judgement in report.verdicts.values()) else 1


def _quantity(text: str | None, parse: Callable[[str], int], option: str, expected: str) -> int | None:
    try:
        return None if text is None else parse(text)
    except ValueError:
        raise InputError(Mistake(f"'{text}'", expected, field=option)) from None
