"""The page of the documentation that has every field of every answer: of the site, and of ``rpsim list commands``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..options import Command, Field
from ..terminal.envelope import ENVELOPE
from .markdown import wrapped


def page(forms: Mapping[str, Command]) -> str:
    """The page; ``forms`` are all commands by their whole names."""
    lines = [
        "# JSON answers",
        "",
        *wrapped(
            "Every command takes `--json`. It then prints one JSON document on standard output and nothing else; "
            "messages and progress go to standard error. The document has one form, whatever the command. `rpsim "
            "list commands --schema` prints what this page says as a JSON schema."
        ),
        "",
        *_table(ENVELOPE),
        "",
        *wrapped(
            "`input_hash` is the same for the same arguments, options, and contents of files, wherever the files lie; "
            "of a scenario, it is the hash of the scenario as resolved. Where `command`, `version`, `seed` and "
            "`input_hash` are equal the result is equal, but for what depends on this machine's speed (`rpsim bench`, "
            "`states_per_second`, `seconds`)."
        ),
        "",
        *wrapped(
            "Below are the fields of `result`, command by command. A field in *italics* is not in every answer. Exit "
            "statuses are the same as without `--json`; where the input is wrong nothing is printed on standard output."
        ),
    ]
    for form, command in forms.items():
        lines += ["", f"## rpsim {form}", "", *_table(command.answer)]
    return "\n".join(lines) + "\n"


def _table(fields: Sequence[Field]) -> list[str]:
    lines = ["| field | type | what it is |", "|---|---|---|"]
    for field in fields:
        name = f"*{field.name}*" if field.kind.endswith("?") else f"`{field.name}`"
        kind = field.kind.rstrip("?").replace("|", ", ")
        lines.append(f"| {name} | {kind} | {field.text} |")
    return lines
