"""The commands of ``rpsim``, a module or a folder each; and their tables.

The ``COMMAND`` of each is the table of its arguments, options and parts (``app.options``); the ``main`` of a command,
or of the module that a part names, checks them, does the work and prints. Every start of ``rpsim`` imports all tables:
heavy modules are imported inside functions.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from ..options import Command

ORDER = (
    "run", "crash", "sweep", "litmus", "check", "replay", "reproduce", "measure", "calibrate", "mutate", "matrix",
    "design", "bench", "list", "explain", "new", "lab", "completion",
)  # fmt: skip
"""In which order the help shows commands; others follow by name."""


@cache
def tables() -> dict[str, Command]:
    """The tables of all commands by name, in the order of the help."""
    found = sorted(module.name for module in pkgutil.iter_modules(__path__))
    names = [*(name for name in ORDER if name in found), *(name for name in found if name not in ORDER)]
    return {name: importlib.import_module(f".{name}", __package__).COMMAND for name in names}


def forms() -> dict[str, Command]:
    """Every command and every part of one by its whole name, as in ``matrix schemes``.

    A command that only stands for one of its parts is left out.
    """
    found: dict[str, Command] = {}
    for name, command in tables().items():
        found |= {} if command.plain else {name: command}
        found |= {f"{name} {part}": table for part, table in command.parts.items()}
    return found
