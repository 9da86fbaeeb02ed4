"""``rpsim new``: a commented starting point."""

from __future__ import annotations

import argparse
import os
import re
from pathlib import Path

from ...sim.errors import InputError, Mistake, nearest
from ..options import Command

COMMAND = Command(
    "a commented starting point: a primitive",
    "KIND NAME",
    "primitive, and a name for it: a file of that name is written",
)

KINDS = {"primitive": "primitive.yaml"}
"""The kinds of starting points, and the template of each."""


def main(options: argparse.Namespace) -> int:
    """Write it, under its final name only when it is whole.

    Raises InputError for a kind that there is not, a name that is none, and a file that is there already.
    """
    from importlib.resources import files

    from ..terminal.output import as_json

    kind, name = options.subject, options.name
    if kind not in KINDS:
        raise InputError(Mistake(f"'{kind}'", f"a kind: {', '.join(KINDS)}", nearest=nearest(kind, KINDS)))
    if name is None:
        raise InputError(Mistake("no NAME", f"a name for the new {kind}", field=f"rpsim new {kind}"))
    template = files("rpsim.app").joinpath("templates").joinpath(KINDS[kind])
    path = Path(name if name.endswith(".yaml") else f"{name}.yaml")
    if not re.fullmatch(r"[A-Za-z][\w-]*", path.stem):
        raise InputError(Mistake(f"'{path.stem}'", "a name of letters, digits, '-' and '_'", field="NAME"))
    _write_new(path, template.read_text(encoding="utf-8").replace("name: NAME", f"name: {path.stem}"))
    if options.json:
        print(as_json({"kind": kind, "name": path.stem, "file": str(path)}), end="")
    else:
        print(f"{path}: a {kind} to start from")
    return 0


def _write_new(path: Path, text: str) -> None:
    """A whole file of a name that nothing has."""
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        draft.write_text(text, encoding="utf-8", newline="\n")
        os.link(draft, path)
    except FileExistsError:
        found = "a file that is there already"
        raise InputError(Mistake(found, "a name that nothing has: it would be overwritten", str(path))) from None
    except OSError as error:
        found = f"a place that cannot be written to ({(error.strerror or str(error)).lower()})"
        raise InputError(Mistake(found, "a name for a new file", str(path))) from None
    finally:
        draft.unlink(missing_ok=True)
