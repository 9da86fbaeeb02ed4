"""``rpsim list schemes``: their names, or with ``--pages`` a page of the documentation for each."""

from __future__ import annotations

import argparse
from pathlib import Path

from . import main as show


def main(options: argparse.Namespace) -> int:
    """Print or write; returns 0."""
    if options.pages is None:
        return show(options)
    from ...pages.schemes import write
    from ...terminal.envelope import envelope

    written = []
    for path in write(Path(options.pages), options.jobs):
        written.append(path.as_posix())
        if not options.json:
            print(path.as_posix(), flush=True)
    if options.json:
        print(envelope(options, {"pages": written}), end="")
    return 0
