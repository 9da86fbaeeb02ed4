"""``rpsim list``: what there is to run."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from ...sim.errors import InputError, Mistake, nearest
from ..options import JOBS, Command, Option

COMMAND = Command(
    "what there is: schemes, platforms, scenarios, primitives",
    "KIND",
    "schemes, platforms, scenarios or primitives",
    options=(
        Option(
            "--schema",
            "of primitives: their JSON schema, for editors",
            of=("primitives",),
            without=("--json",),
        ),
        Option("--pages", "of schemes: write a page for each (docs/schemes)", "DIR", of=("schemes",)),
        replace(JOBS, needs="--pages"),
    ),
)

Row = dict[str, object]


def main(options: argparse.Namespace) -> int:
    """Print what there is of a kind; raises InputError for a kind that there is not."""
    from ..terminal.output import as_json
    from ..terminal.text import paragraph

    kind = options.subject
    if kind not in KINDS:
        raise InputError(Mistake(f"'{kind}'", f"a kind: {', '.join(KINDS)}", nearest=nearest(kind, KINDS)))
    if options.schema:
        from ...models.primitives.schema import schema

        print(as_json(schema()), end="")
        return 0
    if options.pages is not None:
        from ..pages.schemes import write

        written = []
        for path in write(Path(options.pages), options.jobs):
            written.append(path.as_posix())
            if not options.json:
                print(path.as_posix(), flush=True)
        if options.json:
            print(as_json({"pages": written}), end="")
        return 0
    rows = KINDS[kind]()
    if options.json:
        print(as_json({kind: rows}), end="")
        return 0
    width = max((len(str(row["name"])) for row in rows), default=0) + 2
    for row in rows:
        more = [f"{key}: {value}" for key, value in row.items() if key not in ("name", "title")]
        for line in paragraph(f"{str(row['name']).ljust(width)}{row['title']}", 0, width):
            print(line)
        for text in more:
            print("\n".join(paragraph(text, width, 2)))
    return 0


def _schemes() -> list[Row]:
    from ...protocols.registry import schemes

    rows: list[Row] = []
    for name, scheme in schemes().items():
        claims = ", ".join(f"{condition} ({where})" for condition, where in scheme.claims.items())
        rows.append(
            {
                "name": name,
                "title": scheme.title,
                "paper": f"{scheme.paper}, {scheme.section}",
                "claims": claims or "none: its source claims no guarantee",
            }
        )
        if scheme.options:
            rows[-1]["options"] = "; ".join(
                f"{option} ({one.expected}; default {one.write(scheme.option(option))}): {one.text}"
                for option, one in scheme.options.items()
            )
    return rows


def _platforms() -> list[Row]:
    from ...models.profiles.platform import platform_names, platform_settings
    from ...models.profiles.profiles import read_profile

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
    from ...scenarios.schema.load import scenario_names, scenario_title

    return [{"name": name, "title": scenario_title(name)} for name in scenario_names()]


def _primitives() -> list[Row]:
    from ...protocols.primitives import known_primitives, primitive

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


KINDS: dict[str, Callable[[], list[Row]]] = {
    "schemes": _schemes,
    "platforms": _platforms,
    "scenarios": _scenarios,
    "primitives": _primitives,
}
