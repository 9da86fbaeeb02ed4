"""``rpsim check``: the oracle alone, on a history file from any system."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from ...sim.errors import InputError, Mistake
from ..options import HTML, Command, Field, Option

if TYPE_CHECKING:
    from ...validation.histories.entries import HistoryFile

SUFFIXES = (".jsonl", ".edn", ".log")
"""How histories in a folder are called; a .txt there is one if its content looks like it."""

COMMAND = Command(
    "judge history files of your own system: the oracle alone",
    "HISTORY",
    "files of JSON Lines, one event a line, or Jepsen's EDN or logs (docs/check.md), or folders of them",
    several=True,
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
        HTML,
    ),
    answer=(
        Field("history", "string?", "the file; of several files all these fields are in `histories`"),
        Field("format", "string?", "the format that the file was found to have"),
        Field("model", "string?", "the sequential model"),
        Field("operations", "integer?", "how many operations"),
        Field("objects", "integer?", "on how many objects"),
        Field("crashes", "array?", "the crashes: `line`, `node`, `process`, `time`"),
        Field("verdicts", "object?", "by condition: `verdict`, `by`, `steps`, `seconds`, `witness`"),
        Field("not_judged", "object?", "by condition: why it was not judged"),
        Field("histories", "array?", "of several files: the fields above of each"),
    ),
)


def main(options: argparse.Namespace) -> int:
    """Read, judge, print; returns 0 when every condition holds, else 1 (violated, or undecided)."""
    from ...protocols.guarantees import Condition, Verdict
    from ...sim.units import parse_bytes, parse_duration_ps
    from ...validation.histories.check import check_history, uncollected
    from ...validation.oracle.search.general import BUDGET, BUDGET_BYTES
    from ..terminal.check import document, several, text
    from ..terminal.envelope import envelope
    from ..terminal.output import write_text

    loss_ps = _quantity(options.loss, parse_duration_ps, "--loss", "a time with its unit, as in 1s or 250us")
    memory = _quantity(options.memory, parse_bytes, "--memory", "a size with its unit, as in 512 MiB")
    budget, memory = options.budget or BUDGET, BUDGET_BYTES if memory is None else memory
    if options.loss is not None and options.conditions and Condition.BOUNDED_LOSS not in options.conditions:
        raise InputError(Mistake("no bounded_loss among the conditions", "--condition bounded_loss", field="--loss"))
    paths = [(path, Path(given).is_dir()) for given in options.subject for path in _files(Path(given))]
    if options.html is not None and len(paths) > 1:
        raise InputError(Mistake(f"{len(paths)} histories", "one history: a page shows one", field="--html"))
    with uncollected():
        reports = [
            check_history(history, options.model, options.conditions, budget, memory, loss_ps)
            for history in _read(paths)
        ]
    if options.html is not None:
        from ..pages.history import page

        write_text(options.html, page(reports[0]), "--html", [path for path, _ in paths])
    if options.json:
        documents = [document(report) for report in reports]
        print(envelope(options, documents[0] if len(reports) == 1 else {"histories": documents}), end="")
    else:
        print("\n".join(text(reports[0]) if len(reports) == 1 else several(reports)))
    found = (judgement.verdict for report in reports for judgement in report.verdicts.values())
    return 0 if all(verdict is Verdict.HOLDS for verdict in found) else 1


def _files(path: Path) -> list[Path]:
    """A file, or the histories in a folder and below, by name. Raises InputError for a folder without any."""
    if not path.is_dir():
        return [path]
    files = sorted(each for each in path.rglob("*") if each.is_file())
    found = [each for each in files if each.suffix in SUFFIXES or (each.suffix == ".txt" and _is_history(each))]
    if not found:
        raise InputError(Mistake("a folder without histories", f"files that end in {', '.join(SUFFIXES)}", str(path)))
    return found


def _is_history(path: Path) -> bool:
    from ...validation.histories.read import recognised

    with path.open(encoding="utf-8", errors="replace") as file:
        return recognised(file.read(20_000)) is not None


def _read(paths: Sequence[tuple[Path, bool]]) -> list[HistoryFile]:
    """The histories, each with whether it was found in a folder; raises InputError with the mistakes of all of them.

    Of a folder, a file without a single operation is passed over, with a word on standard error.
    """
    from ...validation.histories.events import NO_OPERATIONS
    from ...validation.histories.read import read_history

    histories: list[HistoryFile] = []
    mistakes: list[Mistake] = []
    empty: list[Mistake] = []
    for path, in_folder in paths:
        try:
            histories.append(read_history(path))
        except InputError as error:
            nothing = in_folder and [one.found for one in error.mistakes] == [NO_OPERATIONS]
            (empty if nothing else mistakes).extend(error.mistakes)
    mistakes += [] if histories else empty
    if mistakes:
        raise InputError(mistakes)
    for one in empty:
        print(f"{one.file}: no operations: passed over", file=sys.stderr)
    return histories


def _quantity(text: str | None, parse: Callable[[str], int], option: str, expected: str) -> int | None:
    try:
        return None if text is None else parse(text)
    except ValueError:
        raise InputError(Mistake(f"'{text}'", expected, field=option)) from None
