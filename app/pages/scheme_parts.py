"""What all pages of schemes have: tables of bytes, of options and costs, and a diagram of an operation."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any

from ...protocols.layout import Layout
from ...protocols.naming import Option, OptionValue
from ...scenarios.run.sequence import Sequence as Operation
from ...scenarios.run.sequence import SequenceStep
from .markdown import table, wrapped

COSTS = {
    "cpu_ns": "CPU, ns", "verbs": "work requests", "packets": "packets sent", "round_trips": "round trips",
    "flushes": "lines flushed", "fences": "fences",
}  # fmt: skip


def options_table(name: str, options: Mapping[str, Option], chosen: Mapping[str, OptionValue]) -> list[str]:
    """What ``name[option=choice]`` may choose, with the source of each; ``chosen`` are the usual values."""
    rows = [
        [f"`{option}`", one.text, one.expected, one.write(chosen[option]), one.source]
        for option, one in options.items()
    ]
    how = f"`{name}[{next(iter(options))}=...]` chooses ([how](../scenarios.md#options-of-schemes))." if options else ""
    head = ["option", "is", "choices", "default", "source"]
    return ["## Options", "", *wrapped(how), "", *table(head, rows), ""] if options else []


def documented(text: str | None) -> list[str]:
    """The paragraphs of a docstring."""
    lines: list[str] = []
    for paragraph in inspect.cleandoc(text or "").split("\n\n"):
        plain = re.sub(r":\w+:`~?\.*([^`]+)`", r"`\1`", " ".join(paragraph.split()).replace("``", "`"))
        lines += [*wrapped(plain), ""] if plain else []
    return lines


def layout_table(layout: type[Layout]) -> list[str]:
    rows = [
        [f"`{field.name}`", str(field.offset), str(field.size) if field.size else "the rest"] for field in layout.fields
    ]
    return [
        *wrapped(f"**{layout.__name__}**: {plain_doc(layout)}"),
        "",
        *table(["field", "at byte", "bytes"], rows),
        "",
    ]


def word_layout(word: type[Any]) -> list[str]:
    rows, at = [], 0
    for name, bits in word.bits:
        rows.append([f"`{name}`" if name.isidentifier() else name, str(at), str(bits)])
        at += bits
    text = plain_doc(word)
    return [*wrapped(f"**{word.__name__}**, in a word: {text}"), "", *table(["field", "at bit", "bits"], rows), ""]


def plain_doc(of: type[Any]) -> str:
    """The first paragraph of a class's docstring."""
    return " ".join((of.__doc__ or "").split("\n\n")[0].split()).replace(":class:", "").replace("``", "`")


def diagram(steps: Sequence[SequenceStep]) -> list[str]:
    """A Mermaid sequence diagram: messages on the wire as arrows, the rest as notes."""
    lines = ["sequenceDiagram"]
    lines += [f"  participant {_word(who)} as {who}" for who in dict.fromkeys(step.who for step in steps)]
    for (who, local), group in groupby(steps, key=lambda step: (step.who, step.to is None)):
        if local:
            texts = "<br/>".join(_plain(step.text) for step in group)
            lines.append(f"  Note over {_word(who)}: {texts}")
        else:
            lines += [f"  {_word(who)}->>{_word(step.to or '')}: {_plain(step.text)}" for step in group]
    return lines


def _word(who: str) -> str:
    return who.replace(" ", "_")


def _plain(text: str) -> str:
    """The text without signs that mean something to Mermaid: semicolons end statements, '#' begins an entity."""
    return text.replace(";", ",").replace("#", "no. ")


def costs_table(operations: Sequence[Operation]) -> list[str]:
    rows = []
    for operation in operations:
        for role, costs in operation.costs.items():
            rows.append([operation.f, role, *(f"{costs[name]:g}" for name in COSTS)])
    return table(["operation", "role", *COSTS.values()], rows)
