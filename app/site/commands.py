"""commands.md and json.md: every command, its parts, their options and answers, from the command line's own tables."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..commands import forms, tables
from ..options import Command, Option
from ..pages import answers
from ..pages.markdown import table

HEAD = """# Commands

Every command takes `--help`, and `--json`, which prints one JSON document and nothing else ([JSON answers](json.md)).
Exit status 0: all is as expected; 1: something is not; 2: the input is wrong, and one line for each mistake says where
it is, what was found and what was expected; 70: a bug in rpsim. An interrupted or failed run leaves no files behind.
"""


def pages() -> dict[str, str]:
    """A table of the commands, then each and its parts with their options; and the page of their answers."""
    rows = [[f"[rpsim {name}](#rpsim-{name})", _marked(command.help)] for name, command in tables().items()]
    out = [HEAD, *table(["command", "does"], rows), ""]
    for name, command in tables().items():
        out += [f"## rpsim {name}", "", *_said(name, command)]
        for part, own in command.parts.items():
            out += [f"### rpsim {name} {part}", "", *_said(f"{name} {part}", own)]
    return {"commands.md": "\n".join(out), "json.md": answers.page(forms())}


def _said(name: str, command: Command) -> Iterator[str]:
    """What it does, its usage, its arguments and options."""
    yield from [_marked(f"{command.help[0].upper()}{command.help[1:].rstrip('.')}."), ""]
    if command.parts:
        parts = " ".join(f"[{part}](#rpsim-{name}-{part})," for part in command.parts).rstrip(",")
        yield from [f"Its parts: {parts}{f'; without one: {command.plain}' if command.plain else ''}.", ""]
    if command.plain:
        return
    yield from ["```text", " ".join(filter(None, (f"rpsim {name}", command.usage, "[OPTION ...]"))), "```", ""]
    first, _, second = command.argument.partition(" ")
    arguments = [(first, command.argument_help), (second, command.second_help)]
    rows = [[f"`{word}`", _marked(text)] for word, text in arguments if word]
    rows += [[f"`{' '.join(filter(None, (one.flag, one.value)))}`", _help(one)] for one in command.options]
    if rows:
        yield from [*table(["argument or option", "is"], rows), ""]


def _help(option: Option) -> str:
    parts = [option.help]
    if option.needs:
        parts.append(f"only with {option.needs}")
    if option.without:
        parts.append(f"not with {', '.join(option.without)}")
    return "; ".join(map(_marked, parts))


def _marked(text: str) -> str:
    """A help text, its options as code."""
    return re.sub(r"(?<![\w`-])(--[a-z][a-z-]*)", r"`\1`", text)
