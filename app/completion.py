"""The names that a shell completes, of scenarios, schemes, platforms: looked up only while somebody presses Tab."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Iterable

Completer = Callable[..., Iterable[str]]


def complete(parser: argparse.ArgumentParser) -> None:
    """Answer a shell that asks for completions, and exit; else nothing."""
    if "_ARGCOMPLETE" not in os.environ:
        return
    import argcomplete

    argcomplete.autocomplete(parser)


def being_completed() -> list[str]:
    """The words of the command line for which a shell asks for completions, without the program's name."""
    return os.environ.get("COMP_LINE", "").split()[1:] if "_ARGCOMPLETE" in os.environ else []


def names_of(metavar: str) -> Completer | None:
    """What completes the argument, or the option, that the help calls so; None: files."""
    return {
        "SCENARIO": _listed("scenarios"),
        "P": _listed("platforms"),
        "SUBJECT": _listed("schemes", "primitives"),
        "PAPER": _papers,
        "SCHEME": _listed("schemes"),
        "PRIMITIVE": _listed("primitives"),
        "SHELL": _shells,
        "KIND": _kinds,
        "TERM": _words,
    }.get(metavar)


def _listed(*kinds: str) -> Completer:
    def names(**_: object) -> Iterable[str]:
        from .commands.list import KINDS

        return [str(row["name"]) for kind in kinds for row in KINDS[kind].rows()]

    return names


def _kinds(**_: object) -> Iterable[str]:
    from .commands import new

    return list(new.KINDS)


def _shells(**_: object) -> Iterable[str]:
    from .commands.completion import SHELLS

    return SHELLS


def _papers(**_: object) -> Iterable[str]:
    from ..validation.published.papers.paper import papers

    return papers()


def _words(**_: object) -> Iterable[str]:
    from .commands.explain import entries

    return [name for entry in entries() for name in entry.names if " " not in name]
