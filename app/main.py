"""The command line ``rpsim``: arguments, dispatch, exit statuses.

Exit status: 0 done and all as expected; 1 done and something is not; 2 wrong input; 70 a bug in rpsim;
130 interrupted (Ctrl-C), 141 the reader of standard output went away, 143 terminated.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import NoReturn

from ..sim.errors import InputError, Mistake, nearest

WRONG_INPUT, BUG, INTERRUPTED, READER_GONE, TERMINATED = 2, 70, 130, 141, 143

COMMANDS = {
    "run": ("SCENARIO", "simulate: latency, throughput, where the time goes"),
    "crash": ("SCENARIO", "cut the power at every instant: verdicts and smallest counterexamples"),
    "litmus": ("PATH", "tiny programs against the ordering rules: may the outcome be?"),
    "check": ("HISTORY", "judge a history file of your own system: the oracle alone"),
    "replay": ("CASE", "run a saved counterexample again, step by step"),
    "reproduce": ("SUBJECT", "published numbers beside simulated ones: the scoreboard"),
    "measure": ("PLAN", "a plan of measurements, run on a simulated platform"),
    "calibrate": ("MEASUREMENTS", "fit a platform to measurements of a real machine, or compare"),
    "mutate": ("SCHEME", "faults planted in a scheme's code: how many the judge finds"),
    "matrix": ("", "flush primitives or schemes x platforms x faults: guarantees and costs"),
    "design": ("", "search the step language: primitives that are durable on a platform"),
    "bench": ("", "how fast the simulator and the checker are on this machine"),
    "list": ("KIND", "what there is: schemes, platforms, scenarios, primitives"),
    "new": ("KIND NAME", "a commented starting point: a primitive"),
}
"""Name of a command (and of the module beside this one that does it): its argument, its one-line help."""

TRACED = 50
"""How many operations trace.json shows unless somebody asks for more."""

ARGUMENTS = {
    "SCENARIO": "a path to a scenario file, or the name of a shipped one (rpsim list scenarios)",
    "PATH": "files of litmus tests, folders of them, or names of shipped ones (docs/litmus.md); none: all shipped",
    "HISTORY": "a file of JSON Lines, one event a line, or Jepsen's EDN or log (docs/check.md)",
    "CASE": "a case-N.json from a results folder",
    "SUBJECT": "hardware, or a paper (efactory), or a figure of one (efactory/9d)",
    "PLAN": "a plan of measurements (docs/calibration.md)",
    "MEASUREMENTS": "files: JSON of measurements, or what perftest printed (ib_write_lat and the like)",
    "SCHEME": "the name of a scheme (rpsim list schemes); none: all of them",
    "KIND": "schemes, platforms, scenarios or primitives",
    "KIND NAME": "primitive, and a name for it: a file of that name is written",
}


class Parser(argparse.ArgumentParser):
    """An argument parser whose errors are one line in the words of every other input error."""

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
    commands = top.add_subparsers(dest="command", metavar="COMMAND", parser_class=Parser)
    for name, (argument, text) in COMMANDS.items():
        command = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
        if argument:
            several = "*" if argument in ("PATH", "MEASUREMENTS") else "?"
            first, _, second = argument.partition(" ")
            command.add_argument("subject", metavar=first, nargs=several, help=ARGUMENTS[argument])
            if second:
                command.add_argument("name", metavar=second, nargs="?", help="letters, digits, '-' and '_'")
        command.add_argument("--json", action="store_true", help="print one JSON document and nothing else")
        if argument == "SCENARIO":
            _add_scenario_options(command)
            if name == "crash":
                command.add_argument("--nested", metavar="N", help="power fails up to N times more, in recoveries")
                command.add_argument(
                    "--brute-force", action="store_true", help="explore (a small run) once more without any cleverness"
                )
        elif argument == "HISTORY":
            _add_history_options(command)
        elif argument == "PATH":
            command.add_argument("--budget", metavar="N", help="how many states of a test on a profile to explore")
            command.add_argument("--witness", action="store_true", help="also runs of the simulator that show outcomes")
            command.add_argument("--no-reduction", action="store_true", help="every interleaving: the same answers")
        elif name == "matrix":
            _add_matrix_options(command)
        elif name == "design":
            _add_design_options(command)
        elif argument == "CASE":
            command.add_argument("--trace", metavar="FILE", help="write the case's run as a trace for ui.perfetto.dev")
        elif name == "bench":
            command.add_argument("--quick", action="store_true", help="a tenth of the work: rough figures in seconds")
            command.add_argument("--components", action="store_true", help="instead: what each component costs")
            command.add_argument("--oracle", action="store_true", help="instead: the oracle, beside the plain search")
        elif name == "mutate":
            command.add_argument("--shared", action="store_true", help="also in the modules that it shares with others")
            command.add_argument("--jobs", metavar="N", help="how many processes to use (default: one per processor)")
        elif name == "reproduce":
            _add_curve_options(command)
        elif name == "list":
            command.add_argument("--schema", action="store_true", help="of primitives: their JSON schema, for editors")
            command.add_argument("--pages", metavar="DIR", help="of schemes: write a page for each (docs/schemes)")
        elif name in ("measure", "calibrate"):
            _add_measurement_options(command, name)
    return top


def _add_scenario_options(command: Parser) -> None:
    command.add_argument(
        "--set", dest="overrides", metavar="FIELD=VALUE", action="append", default=[],
        help="override a field of the scenario (workload.keys=50); may be repeated",
    )  # fmt: skip
    command.add_argument("--seed", metavar="N", help="seed of all random choices (default: the scenario's)")
    command.add_argument("--out", metavar="DIR", default="results", help="where results folders go (default: results)")
    command.add_argument("--jobs", metavar="N", help="how many processes to use (default: one per processor)")
    command.add_argument("--no-report", action="store_true", help="write no report.html")
    command.add_argument(
        "--trace", metavar="N", help="how many operations trace.json shows, for Perfetto (default: 50; 0: no file)"
    )


def _add_history_options(command: Parser) -> None:
    command.add_argument("--model", metavar="M", help="the sequential model (default: the first that fits)")
    command.add_argument(
        "--condition", dest="conditions", metavar="C", action="append", default=[],
        help="judge by this condition; may be repeated (default: all that apply)",
    )  # fmt: skip
    command.add_argument("--budget", metavar="N", help="how many steps the search of an object may take")
    command.add_argument("--memory", metavar="SIZE", help="what the searches of a condition may hold (default: 1 GiB)")
    command.add_argument("--loss", metavar="TIME", help="the time of bounded_loss, as in 1s or 250us")
    command.add_argument("--html", metavar="FILE", help="write the history as a page, with linearization points")


def _add_matrix_options(command: Parser) -> None:
    command.add_argument("--primitives", metavar="P,...", help="names, or paths of files (default: all shipped ones)")
    command.add_argument("--schemes", metavar="S,...", help="instead of primitives: these schemes")
    command.add_argument("--methods", action="store_true", help="instead: the cheapest correct method by configuration")
    command.add_argument(
        "--platforms", metavar="P,...",
        help="usual, quick, every, a platform, or a label such as 'adr, ddio on' (a semicolon between labels)",
    )  # fmt: skip
    command.add_argument("--faults", metavar="F,...", help="of --schemes (default: 'server[0] power')")
    command.add_argument("--shapes", metavar="S,...", help="of word, line, page, log, pair, other-qp")
    command.add_argument("--sizes", metavar="B,...", help="of the updates that are timed, as in '8 B,4 KiB'")
    command.add_argument("--quick", action="store_true", help="four platforms, three shapes, two sizes")
    _add_computing_options(command)


def _add_design_options(command: Parser) -> None:
    command.add_argument("--platform", metavar="P", help="a platform, or a label such as 'adr, ddio on'")
    command.add_argument("--steps", metavar="N", help="at most so many steps (default: 6)")
    _add_computing_options(command)


def _add_computing_options(command: Parser) -> None:
    command.add_argument("--seed", metavar="N", help="seed of all random choices (default: 1)")
    command.add_argument("--out", metavar="DIR", default="results", help="where results folders go (default: results)")
    command.add_argument("--jobs", metavar="N", help="how many processes to use (default: one per processor)")
    command.add_argument("--no-report", action="store_true", help="write no page")


def _add_curve_options(command: Parser) -> None:
    command.add_argument("--component", metavar="C", help="the curves of one component (default: all)")
    command.add_argument("--quick", action="store_true", help="some points of each curve, a paper's ends of each axis")
    command.add_argument(
        "--sweep", action="store_true", help="again with each badly known parameter at the ends of its range"
    )
    command.add_argument(
        "--pages", metavar="DIR", help="write pages as well: of platforms (docs/platforms), or of a paper"
    )
    command.add_argument("--fit", action="store_true", help="fit the adapter's residual hops, and print them")
    command.add_argument("--out", metavar="DIR", default="results", help="where results folders go (default: results)")
    command.add_argument("--jobs", metavar="N", help="how many processes to use (default: one per processor)")
    command.add_argument("--no-report", action="store_true", help="write no report.html")


def _add_measurement_options(command: Parser, name: str) -> None:
    command.add_argument("--platform", metavar="P", help="a platform (rpsim list platforms), or a profile's path")
    command.add_argument(
        "--set", dest="settings", metavar="NAME=VALUE", action="append", default=[],
        help="a setting of the platform (ddio=off); may be repeated",
    )  # fmt: skip
    command.add_argument("--jobs", metavar="N", help="how many processes to use (default: one per processor)")
    command.add_argument("--force", action="store_true", help="replace the file that --out names")
    if name == "measure":
        command.add_argument("--out", metavar="FILE", help="write the measurements as JSON")
        command.add_argument("--iterations", metavar="N", help="at most so many of each measurement (default: 200)")
        return
    command.add_argument("--out", metavar="PROFILE", help="write what was fitted as a platform profile")
    command.add_argument("--compare", action="store_true", help="fit nothing: the measurements beside the platform")
    command.add_argument("--html", metavar="FILE", help="write a page: measured and simulated, curve by curve")
    command.add_argument(
        "--fit", metavar="PARAMETER", action="append", default=[],
        help="fit this one (A+B: two, scaled together); may be repeated (default: what the measurements determine)",
    )  # fmt: skip
    command.add_argument(
        "--bounds", metavar="P=LOW..HIGH", action="append", default=[],
        help="where a parameter of --fit may lie (default: a twentieth to twenty times); may be repeated",
    )  # fmt: skip
    command.add_argument(
        "--hold-out", metavar="SHARE", help="how much is held out to judge by (default: 25%%; 0: none)"
    )
    command.add_argument("--largest", metavar="SIZE", help="leave out larger messages (default: 64KiB)")


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
    optional = ("litmus", "mutate")
    if COMMANDS[options.command][0] and not options.subject and options.command not in optional:
        argument = COMMANDS[options.command][0]
        raise InputError(Mistake(f"no {argument}", ARGUMENTS[argument], field=f"rpsim {options.command}"))
    if options.command in ("run", "crash"):
        options.seed = _number(options.seed, "--seed", least=0)
        options.jobs = _number(options.jobs, "--jobs", least=1) or os.cpu_count() or 1
        trace = _number(options.trace, "--trace", least=0)
        options.trace = TRACED if trace is None else trace
        for override in options.overrides:
            if not re.match(r"[^=\s]+=", override):
                raise InputError(Mistake(f"'{override}'", "FIELD=VALUE, as in workload.keys=50", field="--set"))
        if options.command == "crash" and options.nested is not None:
            options.overrides.append(f"crash.nested={_number(options.nested, '--nested', least=1)}")
    elif options.command in ("matrix", "design"):
        options.seed = _number(options.seed, "--seed", least=0)
        options.jobs = _number(options.jobs, "--jobs", least=1) or os.cpu_count() or 1
        if options.command == "design":
            options.steps = _number(options.steps, "--steps", least=1) or 6
    elif options.command in ("measure", "calibrate"):
        options.jobs = _number(options.jobs, "--jobs", least=1) or os.cpu_count() or 1
        if options.command == "measure":
            options.iterations = _number(options.iterations, "--iterations", least=1)
        for setting in options.settings:
            if not re.match(r"[^=\s]+=", setting):
                raise InputError(Mistake(f"'{setting}'", "NAME=VALUE, as in ddio=off", field="--set"))
    elif options.command in ("reproduce", "mutate"):
        options.jobs = _number(options.jobs, "--jobs", least=1) or os.cpu_count() or 1
    elif options.command in ("check", "litmus"):
        options.budget = _number(options.budget, "--budget", least=1)
    return options


def _unknown(word: str, command: str | None) -> Mistake:
    known = ["--help", "--json"] if command else ["--help", "--version"]
    if command in ("run", "crash"):
        known += ["--set", "--seed", "--out", "--jobs", "--no-report", "--trace"]
        known += ["--nested", "--brute-force"] if command == "crash" else []
    elif command == "check":
        known += ["--model", "--condition", "--budget", "--memory", "--loss", "--html"]
    elif command == "litmus":
        known += ["--budget", "--witness", "--no-reduction"]
    elif command == "bench":
        known += ["--quick", "--components", "--oracle"]
    elif command == "replay":
        known += ["--trace"]
    elif command == "mutate":
        known += ["--shared", "--jobs"]
    elif command == "matrix":
        known += ["--primitives", "--schemes", "--methods", "--platforms", "--faults", "--shapes", "--sizes", "--quick"]
        known += ["--seed", "--out", "--jobs", "--no-report"]
    elif command == "design":
        known += ["--platform", "--steps", "--seed", "--out", "--jobs", "--no-report"]
    elif command == "list":
        known += ["--schema", "--pages"]
    elif command == "measure":
        known += ["--platform", "--set", "--out", "--force", "--iterations", "--jobs"]
    elif command == "calibrate":
        known += ["--platform", "--set", "--out", "--force", "--compare", "--html", "--fit", "--bounds", "--hold-out"]
        known += ["--largest", "--jobs"]
    elif command == "reproduce":
        known += ["--component", "--quick", "--sweep", "--pages", "--fit", "--out", "--jobs", "--no-report"]
    name = f"rpsim {command}" if command else "rpsim"
    close = nearest(word.partition("=")[0], known)
    return Mistake(f"'{word}'", f"an option of {name}: {', '.join(known)}", nearest=close)


def _extra(words: list[str]) -> Mistake:
    return Mistake(f"'{' '.join(words)}'", "nothing more (one argument to a command)")


def _number(text: str | None, option: str, least: int) -> int | None:
    if text is None:
        return None
    if not re.fullmatch(r"\d{1,19}", text) or int(text) < least:
        raise InputError(Mistake(f"'{text}'", f"a whole number, at least {least}", field=option))
    return int(text)


def dispatch(arguments: Sequence[str]) -> int:
    """Do what the arguments say and return the exit status."""
    options = parse(arguments)
    if options.version:
        from .. import __version__

        print(f"rpsim {__version__}")
        return 0
    if options.command is None:
        parser().print_help()
        return 0
    command = importlib.import_module(f".{options.command}", __package__)  # the heavy imports start here
    status: int = command.main(options)
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
            print(mistake if mistake.file else f"rpsim: {mistake}", file=sys.stderr)
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
