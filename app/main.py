"""The command line ``rpsim``: arguments, dispatch, exit statuses.

Exit status: 0 done and all as expected; 1 done and something is not; 2 wrong input; 70 a bug in rpsim;
130 interrupted (Ctrl-C), 141 the reader of standard output went away, 143 terminated.
"""

from __future__ import annotations

import argparse
import importlib
import os
import pkgutil
import re
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any, NoReturn

from typing_extensions import override

from ..sim.errors import InputError, Mistake, nearest
from . import commands
from .options import Command, Option

ORDER = (
    "run", "crash", "sweep", "litmus", "check", "replay", "reproduce", "measure", "calibrate", "mutate", "matrix",
    "design", "bench", "list", "new", "lab",
)  # fmt: skip
"""In which order the help shows commands; others follow by name."""

WRONG_INPUT, BUG, INTERRUPTED, READER_GONE, TERMINATED = 2, 70, 130, 141, 143


def _tables() -> dict[str, Command]:
    """The tables of all commands: each module or folder of ``app.commands`` is one, and its ``COMMAND`` is light."""
    found = sorted(module.name for module in pkgutil.iter_modules(commands.__path__))
    names = [*(name for name in ORDER if name in found), *(name for name in found if name not in ORDER)]
    return {name: importlib.import_module(f".commands.{name}", __package__).COMMAND for name in names}


COMMANDS = _tables()
"""Every command by its name."""


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line in the words of every other input error."""

    @override
    def error(self, message: str) -> NoReturn:
        option = re.match(r"argument (\S+): expected one argument", message)
        if option:
            raise InputError(Mistake("nothing", "a value", field=option[1]))
        raise InputError(Mistake(message, f"arguments as in {self.prog} --help"))


def parser() -> Parser:
    """The whole command line; needs nothing beyond argparse, so that ``--help`` is instant."""
    top = Parser(
        prog="rpsim",
        description="Simulates remote persistence: how fast a protocol is, and what survives a power failure.",
        epilog="Exit status: 0 all as expected, 1 something is not, 2 the input is wrong.",
        allow_abbrev=False,
    )
    top.add_argument("--version", action="store_true", help="print the version and exit")
    added_to = top.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    for name, command in COMMANDS.items():
        added = added_to.add_parser(
            name,
            usage=" ".join(filter(None, (f"rpsim {name}", command.usage, "[OPTION ...]"))),
            help=command.help,
            description=command.help,
            allow_abbrev=False,
        )
        first, _, second = command.argument.partition(" ")
        if first:
            added.add_argument(
                "subject", metavar=first, nargs="*" if command.several else "?", help=command.argument_help
            )
        if second:
            added.add_argument("name", metavar=second, nargs="?", help=command.second_help)
        added.add_argument("--json", action="store_true", help="print one JSON document and nothing else")
        for option in command.options:
            _add(added, option)
    return top


def _add(command: Parser, option: Option) -> None:
    if not option.value:
        command.add_argument(option.flag, action="store_true", help=option.help)
        return
    how: dict[str, Any] = {"action": "append", "default": []} if option.several else {}
    command.add_argument(option.flag, dest=option.attribute, metavar=option.value, help=option.help, **how)


def parse(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse and check; raises InputError with the nearest name for an unknown command or option."""
    top = parser()
    first = next((word for word in arguments if not word.startswith("-")), None)
    if first is not None and first not in COMMANDS:
        expected = f"a command: {', '.join(COMMANDS)}"
        raise InputError(Mistake(f"'{first}'", expected, nearest=nearest(first, COMMANDS)))
    options, unknown = top.parse_known_args(arguments)
    if unknown:
        raise InputError(
            [_unknown(word, options.command) for word in unknown if word.startswith("-")] or _extra(unknown)
        )
    if options.command is None:
        return options
    command = COMMANDS[options.command]
    if command.argument and command.needed and not options.subject:
        found = f"no {command.argument}"
        raise InputError(Mistake(found, command.argument_help, field=f"rpsim {options.command}"))
    given = {option.flag for option in command.options if getattr(options, option.attribute) not in (None, False, [])}
    given |= {"--json"} if options.json else set()
    if mistakes := list(command.misfits(getattr(options, "subject", None), given)):
        raise InputError(mistakes)
    options.given = given
    for option in command.options:
        setattr(options, option.attribute, option.read(getattr(options, option.attribute)))
    return options


def _unknown(word: str, name: str | None) -> Mistake:
    known = (
        ["--help", "--json", *(option.flag for option in COMMANDS[name].options)] if name else ["--help", "--version"]
    )
    close = nearest(word.partition("=")[0], known)
    whose = f"rpsim {name}" if name else "rpsim"
    return Mistake(f"'{word}'", f"an option of {whose}: {', '.join(known)}", nearest=close)


def _extra(words: list[str]) -> Mistake:
    return Mistake(f"'{' '.join(words)}'", "nothing more (one argument to a command)")


def dispatch(arguments: Sequence[str]) -> int:
    """Run the command that the arguments name, and return its exit status."""
    options = parse(arguments)
    if options.version:
        from .. import __version__

        print(f"rpsim {__version__}")
        return 0
    if options.command is None:
        parser().print_help()
        return 0
    command = importlib.import_module(f".commands.{options.command}", __package__)
    status: int = command.main(options)  # the heavy imports start here
    return status


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of ``rpsim``; returns the exit status (``--help`` raises SystemExit(0) as argparse does)."""
    try:
        with _terminable():
            status = dispatch(sys.argv[1:] if arguments is None else arguments)
            sys.stdout.flush()
            return status
    except InputError as error:
        for mistake in error.mistakes:
            named = mistake.file or (mistake.field or "").startswith("rpsim ")
            print(mistake if named else f"rpsim: {mistake}", file=sys.stderr)
        return WRONG_INPUT
    except KeyboardInterrupt:
        print("rpsim: interrupted", file=sys.stderr)
        return INTERRUPTED
    except BrokenPipeError:
        # The interpreter flushes standard output once more on its way out: give it somewhere to go.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return READER_GONE
    except Exception:
        traceback.print_exc()
        print("rpsim: this is a bug in rpsim, not in your input; nothing was written", file=sys.stderr)
        return BUG


@contextmanager
def _terminable() -> Iterator[None]:
    """Make SIGTERM unwind like Ctrl-C does, so that a batch system's kill leaves nothing half-written either."""

    def terminate(number: int, frame: FrameType | None) -> NoReturn:
        raise SystemExit(TERMINATED)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


if __name__ == "__main__":
    sys.exit(main())
