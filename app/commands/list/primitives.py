"""``rpsim list primitives``: their names, or with ``--schema`` the JSON schema of their files."""

from __future__ import annotations

import argparse

from . import main as show


def main(options: argparse.Namespace) -> int:
    """Print; returns 0."""
    if not options.schema:
        return show(options)
    from ....models.primitives.schema import schema
    from ...terminal.output import as_json

    print(as_json(schema()), end="")
    return 0
