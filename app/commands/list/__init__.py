"""``rpsim list``: what there is, and what its names are for.

``pages.py`` also writes the pages of schemes, ``primitives.py`` prints a schema, ``commands.py`` the schema of answers;
``composed.py`` has the rows of schemes and of what they are put together of.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from ...options import JOBS, PAGES, Command, Field, Option

Row = dict[str, object]
PROVES = "its end proves"


class Kind(NamedTuple):
    """A kind of things that have names."""

    title: str
    used: str
    """Where one of its names may stand."""
    rows: Callable[[], list[Row]]
    options: tuple[Option, ...] = ()
    work: str = ""
    """The module that does more than to print them."""


def main(options: argparse.Namespace) -> int:
    """Print the kinds, or what there is of one."""
    from ...terminal.envelope import envelope
    from ...terminal.text import paragraph

    kind = options.part
    rows: list[Row] = [{"name": name, "title": one.title, "for": one.used} for name, one in KINDS.items()]
    rows = rows if kind == PLAIN else KINDS[kind].rows()
    if options.json:
        print(envelope(options, {kind: rows, **({} if kind == PLAIN else {"for": KINDS[kind].used})}), end="")
        return 0
    width = max((len(str(row["name"])) for row in rows), default=0) + 2
    for row in rows:
        more = [f"{key}: {value}" for key, value in row.items() if key not in ("name", "title")]
        for line in paragraph(f"{str(row['name']).ljust(width)}{row['title']}", 0, width):
            print(line)
        for text in more:
            print("\n".join(paragraph(text, width, 2)))
    if kind != PLAIN:
        print("\n".join(["", *paragraph(f"for: {KINDS[kind].used}", 0, 2)]))
    return 0


def _schemes() -> list[Row]:
    from ....protocols.registry import schemes
    from .composed import scheme_row

    return [scheme_row(scheme) for scheme in schemes().values()]


def _structures() -> list[Row]:
    from .composed import structure_rows

    return structure_rows()


def _modes() -> list[Row]:
    from .composed import mode_rows

    return mode_rows()


def _parts() -> list[Row]:
    from .composed import part_rows

    return part_rows()


def _steps() -> list[Row]:
    from ....models.primitives.vocabulary import ACTIONS

    actions = [action for here in ACTIONS.values() for action in here.values()]
    rows: list[Row] = []
    for action in actions:
        row: Row = {"name": f"{action.place}: {action.name}", "title": action.text, PROVES: action.proves}
        if action.parameters:
            row["takes"] = ", ".join(one.name + ("" if one.required else " (optional)") for one in action.parameters)
        rows.append(row)
    return rows


def _platforms() -> list[Row]:
    from ....models.profiles.platform import platform_names, platform_settings
    from ....models.profiles.profiles import read_profile

    rows: list[Row] = []
    for name in platform_names():
        profile = read_profile(name)
        row: Row = {"name": name, "title": profile.title}
        if profile.extends:
            row["extends"] = ", ".join(profile.extends)
        settings = platform_settings(name).values()
        row["settings"] = "; ".join(f"{s.name} {' | '.join(s.values)} (default {s.default})" for s in settings)
        rows.append(row)
    return rows


def _scenarios() -> list[Row]:
    from ....scenarios.schema.load import scenario_names, scenario_title

    return [{"name": name, "title": scenario_title(name)} for name in scenario_names()]


def _primitives() -> list[Row]:
    from ....protocols.primitives import known_primitives, primitive

    rows: list[Row] = []
    for name in known_primitives():
        found = primitive(name)
        claims = [f"{condition} ({where})" for condition, where in found.claims.items()]
        row: Row = {"name": name, "title": found.title, "status": found.status, "source": found.source}
        row["follows"] = ", ".join(found.follows)
        row["claims"] = ", ".join(claims) or "none"
        if found.options:
            switches = found.options.items()
            row["switches"] = "; ".join(f"{n} {' | '.join(o.choices)} (default {o.default})" for n, o in switches)
        rows.append(row)
    return rows


def _papers() -> list[Row]:
    from ....validation.published.papers.paper import load_paper, papers

    return [
        {"name": name, "title": load_paper(name).source, "claims": len(load_paper(name).claims)} for name in papers()
    ]


def _labs() -> list[Row]:
    from ...labs.shelf import read, shipped

    labs = [read(path, number) for number, path in shipped().items()]
    return [{"name": lab.name, "title": lab.title, "minutes": lab.minutes, "points": lab.points} for lab in labs]


def _models() -> list[Row]:
    from ....validation.oracle.models.simple import MODELS

    return [{"name": name, "title": ", ".join(sorted(model.operations))} for name, model in MODELS.items()]


def _commands() -> list[Row]:
    from .. import forms

    return [{"name": name, "title": table.help.replace("%%", "%")} for name, table in forms().items()]


PLAIN = "kinds"
KINDS = {
    "schemes": Kind(
        "protocols: how data gets to another machine's persistent memory",
        "schemes of a scenario; rpsim matrix schemes NAME, rpsim mutate NAME",
        _schemes,
        (PAGES, replace(JOBS, needs="--pages")),
        "pages",
    ),
    "structures": Kind(
        "data structures: each is a scheme together with a mode",
        "on MODE behind it, and that is a scheme: 'bst on rnvm-r'",
        _structures,
    ),
    "modes": Kind(
        "ways to reach the memory of a structure",
        "behind 'on' in a scheme's name: 'bst on rnvm-r'",
        _modes,
    ),
    "parts": Kind(
        "parts of systems, which are run alone",
        "schemes of a scenario",
        _parts,
    ),
    "primitives": Kind(
        "flush primitives: how one makes sure that it is persistent",
        "rpsim matrix primitives NAME, rpsim mutate NAME; over NAME behind a scheme's name",
        _primitives,
        (Option("--schema", "print the JSON schema of their files, for editors", without=("--json",), bears=False),),
        "primitives",
    ),
    "steps": Kind(
        "steps of flush primitives: where they happen, what they do, and what their end proves",
        "at PLACE, do ACTION in the steps of a primitive's file",
        _steps,
    ),
    "platforms": Kind(
        "machines: adapters, processors, memory, with a source for every number",
        "platform of a scenario; --platform NAME, --platforms NAME",
        _platforms,
    ),
    "scenarios": Kind(
        "experiments: schemes, platforms, a workload, a fault, and what must come out",
        "rpsim run NAME, rpsim crash NAME, rpsim sweep NAME",
        _scenarios,
    ),
    "papers": Kind(
        "publications whose claims are compared with simulated results",
        "rpsim reproduce NAME",
        _papers,
    ),
    "models": Kind(
        "sequential models: what an object may answer, and the operations that it has",
        "rpsim check --model NAME",
        _models,
    ),
    "labs": Kind("labs for a class, which check themselves", "rpsim lab NAME", _labs),
    "commands": Kind(
        "commands, and the parts of some",
        "rpsim NAME --help",
        _commands,
        (
            Option(
                "--schema", "print the JSON schema of what --json prints", without=("--json", "--pages"), bears=False
            ),
            PAGES,
        ),
        "commands",
    ),
}

COMMAND = Command(
    "what there is, and what its names are for",
    parts={
        PLAIN: Command("what there are lists of", answer=(Field(PLAIN, "array", "of each: `name`, `title`, `for`"),)),
        **{
            name: Command(
                kind.title,
                options=kind.options,
                work=kind.work,
                answer=(
                    Field(name, "array?", "of each: `name`, `title`, and more"),
                    Field("for", "string?", "where one of the names may stand"),
                    *(
                        (Field("pages", "array?", "with `--pages`: the files that were written"),)
                        if PAGES in kind.options
                        else ()
                    ),
                ),
            )
            for name, kind in KINDS.items()
        },
    },
    plain=PLAIN,
)
