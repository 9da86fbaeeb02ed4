"""The commands of ``rpsim``, their arguments and options: one table, from which the parser and its complaints are made.

A command is done by the module of ``app.commands`` that has its name. Nothing here loads anything heavy: ``--help`` is
instant.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..sim.errors import InputError, Mistake


@dataclass(frozen=True)
class Option:
    """An option of a command: a switch, or one with a ``value`` (as the help calls it)."""

    flag: str
    help: str
    value: str = ""
    default: Any = None
    """What is not given is this, or what this returns."""
    least: int | None = None
    """It is a whole number, at least this."""
    several: bool = False
    """It may be repeated; then there is a list."""
    like: str = ""
    """It is ``NAME=VALUE``; an example."""
    to: str = ""
    """The attribute that it goes to, if that is not its name."""

    @property
    def attribute(self) -> str:
        """The attribute of the parsed options that it goes to."""
        return self.to or self.flag.removeprefix("--").replace("-", "_")

    def read(self, given: Any) -> Any:
        """What was given, checked. Raises InputError."""
        if self.least is not None and given is not None:
            if not re.fullmatch(r"\d{1,19}", given) or int(given) < self.least:
                raise InputError(Mistake(f"'{given}'", f"a whole number, at least {self.least}", field=self.flag))
            return int(given)
        for one in given if self.like else ():
            if not re.match(r"[^=\s]+=", one):
                raise InputError(Mistake(f"'{one}'", f"{self.value}, as in {self.like}", field=self.flag))
        if given is None:
            return self.default() if isinstance(self.default, Callable) else self.default  # type: ignore[arg-type]
        return given


@dataclass(frozen=True)
class Command:
    """A command: what it is given, and what it does, in a line each."""

    help: str
    argument: str = ""
    """What the help calls it; a second word is a second argument. None: it takes none."""
    argument_help: str = ""
    several: bool = False
    """Whether any number of arguments may be given."""
    needed: bool = True
    options: tuple[Option, ...] = ()


TRACED = 50
"""How many operations trace.json shows unless somebody asks for more."""
STEPS = 6
"""How many steps a primitive has at most that ``design`` finds, unless somebody asks for more."""


def _processors() -> int:
    return os.cpu_count() or 1


JOBS = Option("--jobs", "how many processes to use (default: one per processor)", "N", _processors, least=1)
OUT = Option("--out", "where results folders go (default: results)", "DIR", "results")
SEED = Option("--seed", "seed of all random choices (default: 1)", "N", least=0)
NO_REPORT = Option("--no-report", "write no report.html")

_OF_SCENARIO = (
    Option(
        "--set",
        "override a field of the scenario (workload.keys=50); may be repeated",
        "FIELD=VALUE",
        several=True,
        like="workload.keys=50",
        to="overrides",
    ),
    Option("--seed", "seed of all random choices (default: the scenario's)", "N", least=0),
    OUT,
    JOBS,
    NO_REPORT,
    Option(
        "--trace",
        f"how many operations trace.json shows, for Perfetto (default: {TRACED}; 0: no file)",
        "N",
        TRACED,
        least=0,
    ),
)
_OF_CRASH = (
    Option("--nested", "power fails up to N times more, in recoveries", "N", least=1),
    Option("--brute-force", "explore (a small run) once more without any cleverness"),
)
_OF_LITMUS = (
    Option("--budget", "how many states of a test on a profile to explore", "N", least=1),
    Option("--witness", "also runs of the simulator that show outcomes"),
    Option("--no-reduction", "every interleaving: the same answers"),
)
_OF_HISTORY = (
    Option("--model", "the sequential model (default: the first that fits)", "M"),
    Option(
        "--condition",
        "judge by this condition; may be repeated (default: all that apply)",
        "C",
        several=True,
        to="conditions",
    ),
    Option("--budget", "how many steps the search of an object may take", "N", least=1),
    Option("--memory", "what the searches of a condition may hold (default: 1 GiB)", "SIZE"),
    Option("--loss", "the time of bounded_loss, as in 1s or 250us", "TIME"),
    Option("--html", "write the history as a page, with linearization points", "FILE"),
)
_OF_REPRODUCE = (
    Option("--component", "the curves of one component (default: all)", "C"),
    Option("--quick", "some points of each curve, a paper's ends of each axis"),
    Option("--sweep", "again with each badly known parameter at the ends of its range"),
    Option("--pages", "write pages as well: of platforms (docs/platforms), or of a paper", "DIR"),
    Option("--fit", "fit the adapter's residual hops, and print them"),
    OUT,
    JOBS,
    NO_REPORT,
)
_OF_PLATFORM = (
    Option("--platform", "a platform (rpsim list platforms), or a profile's path", "P"),
    Option(
        "--set",
        "a setting of the platform (ddio=off); may be repeated",
        "NAME=VALUE",
        several=True,
        like="ddio=off",
        to="settings",
    ),
    JOBS,
    Option("--force", "replace the file that --out names"),
)
_OF_MEASURE = (
    *_OF_PLATFORM,
    Option("--out", "write the measurements as JSON", "FILE"),
    Option("--iterations", "at most so many of each measurement (default: 200)", "N", least=1),
)
_OF_CALIBRATE = (
    *_OF_PLATFORM,
    Option("--out", "write what was fitted as a platform profile", "PROFILE"),
    Option("--compare", "fit nothing: the measurements beside the platform"),
    Option("--html", "write a page: measured and simulated, curve by curve", "FILE"),
    Option(
        "--fit",
        "fit this one (A+B: two, scaled together); may be repeated (default: what the measurements determine)",
        "PARAMETER",
        several=True,
    ),
    Option(
        "--bounds",
        "where a parameter of --fit may lie (default: a twentieth to twenty times); may be repeated",
        "P=LOW..HIGH",
        several=True,
    ),
    Option("--hold-out", "how much is held out to judge by (default: 25%%; 0: none)", "SHARE"),
    Option("--largest", "leave out larger messages (default: 64KiB)", "SIZE"),
)
_OF_MUTATE = (
    Option("--shared", "also in the modules that it shares with others (without a scheme: always)"),
    Option("--quick", "a sample: one fault of each kind in each file, and only the cheap trials"),
    OUT,
    JOBS,
)
_OF_MATRIX = (
    Option("--primitives", "names, or paths of files (default: all shipped ones)", "P,..."),
    Option("--schemes", "instead of primitives: these schemes", "S,..."),
    Option("--methods", "instead: the cheapest correct method by configuration"),
    Option(
        "--platforms",
        "usual, quick, every, a platform, or a label such as 'adr, ddio on' (a semicolon between labels)",
        "P,...",
    ),
    Option("--faults", "of --schemes (default: 'server[0] power'), or every", "F,..."),
    Option("--shapes", "of word, line, page, log, pair, other-qp", "S,..."),
    Option("--sizes", "of the updates that are timed, as in '8 B,4 KiB'", "B,..."),
    Option("--quick", "four platforms, three shapes, two sizes; of --schemes DDIO on alone"),
    Option("--seed", "seed of all random choices (default: 1); of --schemes several, as in 1,2,3", "N"),
    OUT,
    JOBS,
    Option("--no-report", "write no page"),
)
_OF_DESIGN = (
    Option("--platform", "a platform, or a label such as 'adr, ddio on'", "P"),
    Option("--steps", f"at most so many steps (default: {STEPS})", "N", STEPS, least=1),
    SEED,
    OUT,
    JOBS,
    Option("--no-report", "write no page"),
)
_OF_BENCH = (
    Option("--quick", "a tenth of the work: rough figures in seconds"),
    Option("--components", "instead: what each component costs"),
    Option("--oracle", "instead: the oracle, beside the plain search"),
    Option("--operations", "instead: what each verb and each store's operation costs"),
)
_OF_LIST = (
    Option("--schema", "of primitives: their JSON schema, for editors"),
    Option("--pages", "of schemes: write a page for each (docs/schemes)", "DIR"),
)

_SCENARIO = "a path to a scenario file, or the name of a shipped one (rpsim list scenarios)"

COMMANDS: dict[str, Command] = {
    "run": Command("simulate: latency, throughput, where the time goes", "SCENARIO", _SCENARIO, options=_OF_SCENARIO),
    "crash": Command(
        "cut the power at every instant: verdicts and smallest counterexamples",
        "SCENARIO",
        _SCENARIO,
        options=(*_OF_SCENARIO, *_OF_CRASH),
    ),
    "litmus": Command(
        "tiny programs against the ordering rules: may the outcome be?",
        "PATH",
        "files of litmus tests, folders of them, or names of shipped ones (docs/litmus.md); none: all shipped",
        several=True,
        needed=False,
        options=_OF_LITMUS,
    ),
    "check": Command(
        "judge a history file of your own system: the oracle alone",
        "HISTORY",
        "a file of JSON Lines, one event a line, or Jepsen's EDN or log (docs/check.md)",
        options=_OF_HISTORY,
    ),
    "replay": Command(
        "run a saved counterexample again, step by step",
        "CASE",
        "a case-N.json from a results folder",
        options=(Option("--trace", "write the case's run as a trace for ui.perfetto.dev", "FILE"),),
    ),
    "reproduce": Command(
        "published numbers beside simulated ones: the scoreboard",
        "SUBJECT",
        "hardware, or a paper (efactory), or a figure of one (efactory/9d)",
        options=_OF_REPRODUCE,
    ),
    "measure": Command(
        "a plan of measurements, run on a simulated platform",
        "PLAN",
        "a plan of measurements (docs/calibration.md)",
        options=_OF_MEASURE,
    ),
    "calibrate": Command(
        "fit a platform to measurements of a real machine, or compare",
        "MEASUREMENTS",
        "files: JSON of measurements, or what perftest printed (ib_write_lat and the like)",
        several=True,
        options=_OF_CALIBRATE,
    ),
    "mutate": Command(
        "faults planted in a scheme's code: how many the judge finds",
        "SCHEME",
        "the name of a scheme or of a primitive (rpsim list); none: all of them",
        needed=False,
        options=_OF_MUTATE,
    ),
    "matrix": Command("flush primitives or schemes x platforms x faults: guarantees and costs", options=_OF_MATRIX),
    "design": Command("search the step language: primitives that are durable on a platform", options=_OF_DESIGN),
    "bench": Command("how fast the simulator and the checker are on this machine", options=_OF_BENCH),
    "list": Command(
        "what there is: schemes, platforms, scenarios, primitives",
        "KIND",
        "schemes, platforms, scenarios or primitives",
        options=_OF_LIST,
    ),
    "new": Command(
        "a commented starting point: a primitive",
        "KIND NAME",
        "primitive, and a name for it: a file of that name is written",
    ),
}
"""Every command by its name."""
