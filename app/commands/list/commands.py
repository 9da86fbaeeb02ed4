"""``rpsim list commands``: their names, or the schema and the page of what they print with ``--json``."""

from __future__ import annotations

import argparse
from pathlib import Path

from . import main as show

PAGE = "json.md"


def main(options: argparse.Namespace) -> int:
    """Print or write; returns 0."""
    from ...pages.answers import page
    from ...terminal.envelope import envelope, schema
    from ...terminal.output import as_json, writable, write_text
    from .. import forms

    if options.schema:
        print(as_json(schema(forms())), end="")
        return 0
    if options.pages is None:
        return show(options)
    path = Path(writable(options.pages), PAGE)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(str(path), page(forms()), "--pages")
    print(envelope(options, {"pages": [path.as_posix()]}) if options.json else f"{path.as_posix()}\n", end="")
    return 0
