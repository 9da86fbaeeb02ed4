"""The rows of schemes, of the structures and modes that schemes are put together of, and of parts of systems."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ....protocols.registry import going_on, modes, parts, structures

if TYPE_CHECKING:
    from ....protocols.naming import Mode
    from ....protocols.scheme import Scheme

Row = dict[str, object]


def scheme_row(scheme: type[Scheme]) -> Row:
    """What is said of a scheme that can be run."""
    row: Row = {"name": scheme.name, "title": scheme.title, "paper": f"{scheme.paper}, {scheme.section}"}
    return row | _claims(scheme) | _options(scheme)


def structure_rows() -> list[Row]:
    """The structures, each with the modes on which it goes."""
    return [
        {"name": name, "title": half.title, "paper": f"{half.paper}, {half.section}", "on": ", ".join(going_on(half))}
        for name, half in structures().items()
    ]


def mode_rows() -> list[Row]:
    """The modes."""
    rows: list[Row] = []
    for name, mode in modes().items():
        rows.append({"name": name, "title": mode.title} | _claims(mode) | _options(mode))
    return rows


def part_rows() -> list[Row]:
    """The parts of systems."""
    return [scheme_row(part) for part in parts().values()]


def _claims(one: type[Scheme] | type[Mode]) -> Row:
    claims = ", ".join(f"{condition} ({where})" for condition, where in one.claims.items())
    return {"claims": claims or "none: its source claims no guarantee"}


def _options(one: type[Scheme] | type[Mode]) -> Row:
    options = []
    for name, option in one.options.items():
        value = option.default if option.quantity else one.option(name)
        usual = "as it is otherwise" if value is None else option.write(value)
        options.append(f"{name} ({option.expected}; default {usual}): {option.text}")
    return {"options": "; ".join(options)} if options else {}
