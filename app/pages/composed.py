"""Pages of what schemes are put together of: a page a structure, a mode, and a part of a system.

A structure with each mode is a scheme of its own, and too many for a page each: a structure's page has the costs on all
modes, a mode's page the steps of a structure on it. ``rpsim list schemes --pages DIR`` writes them as well.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable, Mapping
from types import ModuleType
from typing import Any

from ...protocols.guarantees import Claims
from ...protocols.layout import Layout
from ...protocols.naming import Mode
from ...protocols.registry import going_on, modes, parts, scheme, structures
from ...protocols.scheme import Scheme
from ...scenarios.run.sequence import sequences
from ...validation.matrix.testbeds import fitting, testbed
from .markdown import table, wrapped
from .scheme_parts import costs_table, diagram, documented, layout_table, options_table

VALUE_BYTES = 16
EXAMPLE = "bst"
"""The structure whose operations show what a mode does."""


def pages() -> dict[str, str]:
    """By name: the pages of structures, modes and parts."""
    return (
        {name: structure_page(kind) for name, kind in structures().items()}
        | {name: mode_page(mode) for name, mode in modes().items()}
        | {name: part_page(kind) for name, kind in parts().items()}
    )


def composed_contents() -> list[str]:
    """What the page that lists the pages says of them."""
    halves = [
        [f"[{name}]({name}.md)", kind.title, ", ".join(going_on(kind)), kind.section]
        for name, kind in structures().items()
    ]
    ways = [[f"[{name}]({name}.md)", mode.title, _claimed(mode.claims)] for name, mode in modes().items()]
    rest = [[f"[{name}]({name}.md)", kind.title, kind.section] for name, kind in parts().items()]
    return [
        *wrapped("A structure is a scheme together with a mode, `bst on rnvm-r`; its logs may go by a primitive, "
                 "`bst on rnvm-r over read-after-write`. What they keep: `rpsim matrix schemes 'bst on rnvm-r'`."),
        "",
        *table(["structure", "is", "on", "source"], halves), "",
        *table(["mode", "is", "its source claims"], ways), "",
        "Parts of these systems, which are run alone:", "",
        *table(["part", "is", "source"], rest), "",
    ]  # fmt: skip


def structure_page(kind: type[Scheme]) -> str:
    """One structure: its text, its bytes, and what an operation costs on each mode."""
    algorithm: type[Any] = kind.algorithm  # type: ignore[attr-defined]
    schemes = going_on(kind)
    sources = _modules(algorithm, kind)
    lines = [*_head(kind.name, kind.title), *_texts(sources), *_class_texts((kind, algorithm))]
    lines += [*wrapped(f"Its model: `{kind.model}`. It goes on {', '.join(schemes)}."), ""]
    lines += _bytes(sources)
    platform = _platform(kind)
    first = "The first operation of a front-end, whose cache and slabs are empty."
    lines += ["## Costs", "", *wrapped(f"On `{platform}` at rest, a value of {VALUE_BYTES} B. {first}"), ""]
    for mode, made in schemes.items():
        lines += [f"### on {mode}", "", *costs_table(sequences(made, platform, VALUE_BYTES)), ""]
    return "\n".join(lines)


def mode_page(mode: type[Mode]) -> str:
    """One mode: what it claims, its options, its bytes, its parts' texts, and the steps of a structure on it."""
    going = [name for name, kind in structures().items() if mode.name in going_on(kind)]
    lines = [*_head(mode.name, mode.title), *documented(mode.__doc__)]
    lines += [*wrapped(f"Its source claims: {_claimed(mode.claims)}. On it go {', '.join(going)}."), ""]
    lines += options_table(
        f"bst on {mode.name}", mode.options, {name: one.default for name, one in mode.options.items()}
    )
    roles: Mapping[str, type[Any]] = mode.role_types  # type: ignore[attr-defined]
    sources = _around(_modules(*roles.values()))
    lines += _bytes(sources)
    batches = "[batch=1]" if "batch" in mode.options else ""
    made = scheme(f"{EXAMPLE} on {mode.name}{batches}")
    platform = _platform(made)
    operations = sequences(made, platform, VALUE_BYTES)
    lines += [f"## Operations of `{made.name}`", "", *wrapped(_where(platform)), ""]
    for operation in operations:
        lines += [f"### {operation.f}", "", "```mermaid", *diagram(operation.steps), "```", ""]
    lines += ["### Costs", "", *costs_table(operations), "", "## How it works, and how the paper is read", ""]
    for source in sources:
        lines += [f"### `{source.__name__.rpartition('.')[2]}.py`", "", *documented(source.__doc__)]
    return "\n".join(lines)


def part_page(kind: type[Scheme]) -> str:
    """One part: its text, options, and steps."""
    sources = _modules(kind)
    lines = [*_head(kind.name, kind.title), *documented(kind.__doc__), *_texts(_around(sources))]
    lines += [*wrapped(f"Its source claims: {_claimed(kind.claims)}."), ""]
    lines += options_table(kind.name, kind.options, {name: kind.option(name) for name in kind.options})
    platform = _platform(kind)
    operations = sequences(kind, platform, VALUE_BYTES)
    lines += ["## Operations", "", *wrapped(_where(platform)), ""]
    for operation in operations:
        lines += [f"### {operation.f}", "", "```mermaid", *diagram(operation.steps), "```", ""]
    return "\n".join([*lines, "## Costs", "", *costs_table(operations), ""])


def _head(name: str, title: str) -> list[str]:
    return [f"# {name}", "", *wrapped(f"{title[0].upper()}{title[1:]}."), ""]


def _where(platform: str) -> str:
    background = "what goes on in the background stands at the end"
    return f"On `{platform}` at rest, a value of {VALUE_BYTES} B, a front-end's first operation; {background}."


def _platform(kind: type[Scheme]) -> str:
    own = testbed(kind.paper)
    return fitting(kind, [own or "optane-adr"])[0]


def _claimed(claims: Claims) -> str:
    return "; ".join(f"{condition} ({where})" for condition, where in claims.items()) or "nothing"


def _modules(*kinds: type[Any]) -> list[ModuleType]:
    """The modules of some classes and of what they derive from, in the folders of the classes themselves."""
    folders = {kind.__module__.rpartition(".")[0] for kind in kinds}
    names = dict.fromkeys(one.__module__ for kind in kinds for one in kind.__mro__)
    return [sys.modules[name] for name in names if name.rpartition(".")[0] in folders and name not in _SHARED]


_SHARED = frozenset({"rpsim.protocols.structures.structure"})
"""What all structures have in common says nothing of one."""


def _around(modules: Iterable[ModuleType]) -> list[ModuleType]:
    """The modules, and those of the same folder whose classes and functions they use."""
    found = dict.fromkeys(modules)
    for module in list(found):
        for value in vars(module).values():
            near = sys.modules.get(getattr(value, "__module__", "") or "")
            if near is not None and near.__name__.rpartition(".")[0] == module.__name__.rpartition(".")[0]:
                found.setdefault(near)
    return list(found)


def _texts(modules: Iterable[ModuleType]) -> list[str]:
    return [line for module in modules for line in documented(module.__doc__)]


def _class_texts(kinds: Iterable[type[Any]]) -> list[str]:
    return [line for kind in kinds for line in documented(vars(kind).get("__doc__"))]


def _bytes(modules: Iterable[ModuleType]) -> list[str]:
    """The layouts that some modules define."""
    own = {module.__name__ for module in modules}
    found = dict.fromkeys(
        value for module in modules for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, Layout) and value.fields and value.__module__ in own
    )  # fmt: skip
    return ["## Bytes", "", *(line for layout in found for line in layout_table(layout))] if found else []
