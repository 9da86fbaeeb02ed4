"""Options and commands of ``rpsim`` as data, and the options that several commands share.

Each command's own table is the ``COMMAND`` of its module in ``app.commands``. Nothing here loads anything heavy:
``--help`` is instant.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from ..sim.errors import InputError, Mistake


@dataclass(frozen=True)
class Option:
    """An option of a command: a switch, or one with a ``value`` (as the help calls it)."""

    flag: str
    help: str
    value: str = ""
    default: Any = None
    """The value of an option that is not given, or a function that returns it."""
    least: int | None = None
    """The option is a whole number, at least this."""
    most: int = 2**63 - 1
    """A whole number is at most this."""
    several: bool = False
    """The option may be repeated; its value is a list."""
    like: str = ""
    """An example, if the value has to be ``NAME=VALUE``."""
    to: str = ""
    """The attribute of the parsed options, if it is not the name of the flag."""
    bears: bool = True
    """Whether the answer depends on it: not where results go, nor how many processes share the work."""
    needs: str = ""
    """The flag of the option without which this one means nothing."""
    without: tuple[str, ...] = ()
    """The flags of options beside which it means nothing."""

    @property
    def attribute(self) -> str:
        """The attribute of the parsed options that has its value."""
        return self.to or self.flag.removeprefix("--").replace("-", "_")

    def read(self, given: Any) -> Any:
        """The value to use for the text ``given`` on the command line (None: not given). Raises InputError."""
        if self.least is not None and given is not None:
            whole = re.fullmatch(r"\d+", given)
            too_large = whole and (len(given) > len(str(self.most)) or int(given) > self.most)
            if not whole or too_large or int(given) < self.least:
                bound = f"at most {self.most:,}" if too_large else f"at least {self.least}"
                raise InputError(Mistake(f"'{given}'", f"a whole number, {bound}", field=self.flag))
            return int(given)
        for one in given if self.like else ():
            if not re.match(r"[^=\s]+=", one):
                raise InputError(Mistake(f"'{one}'", f"{self.value}, as in {self.like}", field=self.flag))
        if given is None:
            return self.default() if isinstance(self.default, Callable) else self.default  # type: ignore[arg-type]
        return given


class Field(NamedTuple):
    """A field of a command's answer, in what ``--json`` prints under ``result``."""

    name: str
    kind: str
    """Its type in JSON Schema; several with ``|``. A question mark behind it: not in every answer."""
    text: str


@dataclass(frozen=True)
class Command:
    """A command, or a part of one: its arguments and options, with a line of help for each."""

    help: str
    argument: str = ""
    """The name of its argument in the help; a second word is a second argument. Empty: it takes none."""
    argument_help: str = ""
    several: bool = False
    """Whether it takes any number of arguments."""
    needed: bool = True
    second_help: str = "letters, digits, '-' and '_'"
    """The help of the second argument, if there is one."""
    options: tuple[Option, ...] = ()
    answer: tuple[Field, ...] = ()
    """The fields of its answer."""
    parts: Mapping[str, Command] = field(default_factory=dict)
    """Its parts by the word that follows its name: ``schemes`` in ``rpsim matrix schemes``."""
    plain: str = ""
    """The part that is meant where no word follows; where that is none, the command does something by itself."""
    work: str = ""
    """The module in the command's folder whose ``main`` does the work of a part (default: the command's own)."""
    moved: Mapping[str, str] = field(default_factory=dict)
    """Flags of earlier versions, each with what says the same now."""

    @property
    def usage(self) -> str:
        """Its arguments as the help shows them: ``SCENARIO``, or ``[PATH ...]`` where none is needed."""
        shown = f"{self.argument} ..." if self.several else self.argument
        return shown if self.needed or not shown else f"[{shown}]"

    def misfits(self, given: Collection[str]) -> Iterator[Mistake]:
        """Options among the flags ``given`` that mean nothing beside each other."""
        for option in (option for option in self.options if option.flag in given):
            if option.needs and option.needs not in given:
                yield Mistake(
                    f"no {option.needs}", f"{option.needs} as well: it goes only with that", field=option.flag
                )
            for other in option.without:
                if other in given:
                    yield Mistake(f"it together with {other}", "one of the two, not both", field=option.flag)


def _processors() -> int:
    return os.cpu_count() or 1


JOBS = Option(
    "--jobs", "how many processes to use (default: one per processor)", "N", _processors, least=1, bears=False
)
DASK = Option(
    "--dask",
    "run on the Dask cluster whose scheduler is there (tcp://HOST:8786)",
    "ADDRESS",
    without=("--jobs",),
    bears=False,
)
WORKERS = (JOBS, DASK)
"""The options of every command that shares its work between processes, or between the machines of a cluster."""
OUT = Option("--out", "where results folders go (default: results)", "DIR", "results", bears=False)
NO_REPORT = Option("--no-report", "write no page of the results", bears=False)
SEED = Option("--seed", "seed of all random choices (default: 1)", "N", 1, least=0)
SEEDS = Option("--seeds", "how many seeds, from that of --seed on (default: 1)", "N", 1, least=1)
QUICK = Option("--quick", "less of it: a rough answer in a fraction of the time")
WRITE = Option("--write", "write the answer into this file as well", "FILE", bears=False)
PAGES = Option("--pages", "write pages for the documentation into this folder", "DIR", bears=False)
HTML = Option("--html", "write a page", "FILE", bears=False)
RESULTS = Field("results", "string", "the results folder")
"""The field of every command that writes one."""

SCENARIO = "a path to a scenario file, or the name of a shipped one (rpsim list scenarios)"
OF_SCENARIOS_ANSWER = (
    Field("scenario", "string", "the scenario's name"),
    Field("title", "string", "its title"),
    Field("seed", "integer", "the seed of all random choices"),
    RESULTS,
)
"""The first fields of every command that runs a scenario."""
TRACED = 50
"""How many operations trace.json shows, unless ``--trace`` says otherwise."""

OF_SCENARIO = (
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
    *WORKERS,
    NO_REPORT,
    Option(
        "--trace",
        f"how many operations trace.json shows, for Perfetto (default: {TRACED}; 0: no file)",
        "N",
        TRACED,
        least=0,
        bears=False,
    ),
)
"""The options of every command that runs a scenario."""
OF_PLATFORM = (
    Option("--platform", "a platform (rpsim list platforms), or a profile's path", "P"),
    Option(
        "--setting",
        "a setting of the platform (ddio=off); may be repeated",
        "NAME=VALUE",
        several=True,
        like="ddio=off",
        to="settings",
    ),
    JOBS,
    WRITE,
    Option("--force", "replace the file that --write names", needs="--write", bears=False),
)
"""The options of every command that measures a platform."""
OF_PLATFORM_ONCE = {"--set": "--setting {}", "--out": "--write {}"}
"""What these options were called before."""
