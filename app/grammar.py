"""The grammar of the command line: commands, their parts, and how arguments are read and checked."""

from __future__ import annotations

import argparse
import importlib
import re
import shlex
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from typing_extensions import override

from ..sim.errors import InputError, Mistake, nearest
from .commands import forms, tables
from .completion import being_completed, complete, names_of
from .options import Command, Option

COMMANDS = tables()
"""Every command by its name."""


WIDEST = 50
"""Parts of a command stand in its usage line as far as they take so many characters."""


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line in the words of every other input error."""

    @override
    def error(self, message: str) -> NoReturn:
        option = re.match(r"argument (\S+): expected one argument", message)
        if option:
            raise InputError(Mistake("nothing", "a value", field=option[1]))
        raise InputError(Mistake(message, f"arguments as in {self.prog} --help"))


def parser(words: Sequence[str] = ()) -> Parser:
    """The whole command line; needs nothing beyond argparse, so that ``--help`` is instant.

    ``words`` are those that will be parsed: which part of a command they name decides what that command takes.
    """
    top = Parser(
        prog="rpsim",
        description="Simulates remote persistence: how fast a protocol is, and what survives a power failure.",
        epilog="Exit status: 0 all as expected, 1 something is not, 2 the input is wrong.",
        allow_abbrev=False,
    )
    top.add_argument("--version", action="store_true", help="print the version and exit")
    added_to = top.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    for name, command in COMMANDS.items():
        part = _part(words, name)
        table = command.parts[part] if part else command
        whole = f"{name} {part}" if part else name
        usage = (f"rpsim {whole}", _usage(command) if command is table else table.usage, "[OPTION ...]")
        how: dict[str, Any] = {"usage": " ".join(filter(None, usage)), "description": table.help, "allow_abbrev": False}
        added = added_to.add_parser(name, help=command.help, **how)
        if part:
            inner = added.add_subparsers(dest="part", metavar="PART", parser_class=Parser, prog=f"rpsim {name}")
            added = inner.add_parser(part, **how)
        elif command.plain:
            place = added.add_argument("part", metavar="PART", nargs="?", help=_parts(command))
            place.completer = lambda parts=tuple(command.parts), **_: parts  # type: ignore[attr-defined]
        _add_arguments(added, table, () if part else tuple(command.parts))
        for option in (command.parts[command.plain] if command.plain and not part else table).options:
            _add(added, option)
        added.add_argument("--json", action="store_true", help="print one JSON document and nothing else")
    return top


def _part(words: Sequence[str], name: str) -> str:
    """The part of the command ``name`` that the words name, if any: it follows the command at once."""
    first = next((at for at, word in enumerate(words) if not word.startswith("-")), None)
    following = words[first + 1] if first is not None and words[first] == name and len(words) > first + 1 else ""
    return following if following in COMMANDS[name].parts else ""


def _usage(command: Command) -> str:
    if not command.parts:
        return command.usage
    shown = "|".join([*command.parts, *([command.usage] if command.argument and not command.several else [])])
    shown = shown if len(shown) <= WIDEST else "PART"
    return f"[{shown}]" if command.plain else command.usage if command.several else shown


def _parts(command: Command) -> str:
    each = "; ".join(f"{name}: {part.help}" for name, part in command.parts.items())
    return f"{each} (none: {command.plain}; rpsim ... PART --help says more)".replace("%", "%%")


def _add_arguments(added: Parser, table: Command, parts: tuple[str, ...]) -> None:
    first, _, second = table.argument.partition(" ")
    if first:
        nargs = "*" if table.several else "?"
        subject = added.add_argument("subject", metavar=first, nargs=nargs, help=table.argument_help)
        known = names_of(first)
        listed = (lambda **_: [*parts, *known()]) if known and parts else known
        subject.completer = listed  # type: ignore[attr-defined]
    if second:
        added.add_argument("name", metavar=second, nargs="?", help=table.second_help)


def _add(command: Parser, option: Option) -> None:
    if not option.value:
        command.add_argument(option.flag, action="store_true", help=option.help)
        return
    how: dict[str, Any] = {"action": "append", "default": []} if option.several else {}
    added = command.add_argument(option.flag, dest=option.attribute, metavar=option.value, help=option.help, **how)
    added.completer = names_of(option.value)  # type: ignore[attr-defined]


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse and check; raises InputError with the nearest name for an unknown command or option.

    The answer has, beside the options: ``command``, ``part``, ``form`` (the whole name), ``given`` (flags), ``table``,
    and ``inputs``, all that the answer depends on.
    """
    words = [*being_completed(), *arguments]
    top = parser(words)
    complete(top)
    named = next((word for word in words if word in COMMANDS), None)
    if named and words[0].startswith("-") and words[0] not in ("-h", "--help", "--version"):
        expected = f"options behind it: rpsim {named} ... {words[0]}"
        raise InputError(Mistake(f"'{words[0]}' before the command '{named}'", expected))
    first = next((word for word in words if not word.startswith("-")), None)
    if first is not None and first not in COMMANDS:
        expected = f"a command: {', '.join(COMMANDS)}"
        raise InputError(Mistake(f"'{first}'", expected, nearest=nearest(first, COMMANDS)))
    options, unknown = top.parse_known_args(arguments)
    if options.command is None:
        if unknown:
            raise InputError([_unknown(word, None) for word in unknown])
        return options
    command = COMMANDS[options.command]
    part = _part(words, options.command) or command.plain
    table = command.parts[part] if part else command
    options.form = f"{options.command} {part}" if part else options.command
    flags = [word for word in unknown if word.startswith("-")]
    if old := next((word for word in flags if word.partition("=")[0] in command.moved), None):
        raise InputError(_old(old, command, list(arguments)))
    if command.plain and getattr(options, "part", None) not in (None, part):
        known = list(command.parts)
        found, close = f"'{options.part}'", nearest(options.part, known)
        is_file = options.part.endswith((".yaml", ".yml")) and command.parts[command.plain].argument
        whole = f", as in rpsim {options.command} {command.plain} {options.part}" if is_file else ""
        expected = f"one of {', '.join(known)}{whole}"
        raise InputError(Mistake(found, expected, field=f"rpsim {options.command}", nearest=close))
    if unknown:
        raise InputError([_unknown(word, options.form) for word in flags] or _extra(unknown))
    options.part = part
    options.subject = getattr(options, "subject", [] if table.several else None)
    if table.argument and table.needed and not options.subject:
        raise InputError(Mistake(f"no {table.argument}", table.argument_help, field=f"rpsim {options.form}"))
    given = {option.flag for option in table.options if getattr(options, option.attribute) not in (None, False, [])}
    given |= {"--json"} if options.json else set()
    if mistakes := list(table.misfits(given)):
        raise InputError(mistakes)
    options.given = given
    for option in table.options:
        setattr(options, option.attribute, option.read(getattr(options, option.attribute)))
    bearing = {option.flag: getattr(options, option.attribute) for option in table.options if option.bears}
    options.inputs = {"subject": options.subject, "name": getattr(options, "name", None), **bearing}
    return options


def _old(word: str, command: Command, arguments: list[str]) -> Mistake:
    """An option of an earlier version: the answer is what says the same today."""
    flag, given, value = word.partition("=")
    after = arguments[arguments.index(word) + 1 :]
    if not given and after and not after[0].startswith("-"):
        value = shlex.quote(after[0])
    new = command.moved[flag].format(value or "...")
    return Mistake("an old spelling", new, field=flag)


def _unknown(word: str, form: str | None) -> Mistake:
    known, whose = ["--help", "--version"], "rpsim"
    if form is not None:
        every = forms()
        known, whose = ["--help", "--json", *(option.flag for option in every[form].options)], f"rpsim {form}"
        flag, command = word.partition("=")[0], form.partition(" ")[0]
        others = [f"rpsim {name}" for name, table in every.items() if name.partition(" ")[0] == command]
        having = [
            one for one in others if flag in {option.flag for option in every[one.removeprefix("rpsim ")].options}
        ]
        if having:
            return Mistake(f"it with {whose}", f"{' or '.join(having)}: it goes with nothing else", field=flag)
    close = nearest(word.partition("=")[0], known)
    return Mistake(f"'{word}'", f"an option of {whose}: {', '.join(known)}", nearest=close)


def _extra(words: list[str]) -> Mistake:
    return Mistake(f"'{' '.join(words)}'", "nothing more (one argument to a command)")


def work_of(form: str) -> Callable[[argparse.Namespace], int]:
    """The function that does the work of a command or of a part of one, by its whole name."""
    name, _, part = form.partition(" ")
    command = COMMANDS[name]
    work = command.parts[part].work if part else ""
    module = importlib.import_module(f".commands.{name}" + (f".{work}" if work else ""), __package__)
    doing: Callable[[argparse.Namespace], int] = module.main
    return doing
