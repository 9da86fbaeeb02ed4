"""Sequence diagrams as pictures: what the schemes' pages say in Mermaid's words, drawn without a script.

Mermaid needs 3 MB of script that a site without a network does not have; our diagrams have participants, messages and
notes alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from html import escape
from itertools import pairwise

BLOCK = re.compile(r"^```mermaid\nsequenceDiagram\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LETTER, LINE, GAP = 7.2, 17, 14
"""Pixels: the width of a letter, the height of a line, the room between two things below each other."""
LEAST = 150
"""Pixels between two lifelines, at the least."""


@dataclass(frozen=True)
class Item:
    """A message from one participant to another, or a note over one (then both are the same)."""

    at: str
    to: str
    lines: tuple[str, ...]
    note: bool


def drawn(text: str) -> str:
    """A page with every diagram as a picture."""
    return BLOCK.sub(lambda found: picture(found[1]), text)


def parsed(text: str) -> tuple[dict[str, str], list[Item]]:
    """Participants with their labels, and everything that happens, in order. Raises ValueError for other words."""
    participants: dict[str, str] = {}
    items = []
    for line in filter(None, map(str.strip, text.splitlines())):
        if found := re.fullmatch(r"participant (\S+) as (.+)", line):
            participants[found[1]] = found[2]
        elif found := re.fullmatch(r"Note over (\S+): (.+)", line):
            items.append(Item(found[1], found[1], tuple(found[2].split("<br/>")), True))
        elif found := re.fullmatch(r"(\S+?)->>(\S+): (.+)", line):
            items.append(Item(found[1], found[2], tuple(found[3].split("<br/>")), False))
        else:
            raise ValueError(f"a diagram has a line that is not drawn: {line}")
    for name in (name for item in items for name in (item.at, item.to)):
        participants.setdefault(name, name)
    return participants, items


def picture(text: str) -> str:
    """One diagram as SVG in a block that scrolls where it is too narrow."""
    participants, items = parsed(text)
    x = _columns(participants, items)
    y, body = 34.0, []
    for item in items:
        y += GAP
        height = LINE * len(item.lines)
        if item.note:
            wide = LETTER * max(map(len, item.lines)) + 16
            left, high = x[item.at] - wide / 2, height + 8
            body.append(f'<rect class="note" x="{left:.0f}" y="{y:.0f}" width="{wide:.0f}" height="{high}"/>')
            body += _words(item.lines, x[item.at], y + 4)
            y += height + 8
        else:
            body += _words(item.lines, (x[item.at] + x[item.to]) / 2, y)
            y += height + 3
            end = x[item.to] + (5 if x[item.to] < x[item.at] else -5)
            body.append(f'<path class="message" d="M{x[item.at]:.0f} {y:.0f}H{end:.0f}"/>')
            body.append(f'<path class="head" d="M{x[item.to]:.0f} {y:.0f}l{(end - x[item.to]) * 1.8:.0f} -4v8z"/>')
    bottom = y + GAP
    first = []
    for name, label in participants.items():
        first.append(f'<path class="life" d="M{x[name]:.0f} 30V{bottom:.0f}"/>')
        first.append(f'<text class="who" x="{x[name]:.0f}" y="20">{escape(label)}</text>')
    width = max(x.values()) + _half(participants, items, list(participants)[-1])
    shape = f'viewBox="0 0 {width:.0f} {bottom:.0f}" width="{width:.0f}" height="{bottom:.0f}" role="img"'
    said = escape("; ".join(" ".join(item.lines) for item in items), quote=True)
    return f'<div class="sequence"><svg {shape} aria-label="{said}">{"".join([*first, *body])}</svg></div>'


def _columns(participants: dict[str, str], items: list[Item]) -> dict[str, float]:
    """The x of each lifeline: far enough from the one before for what is written between and over them."""
    names = list(participants)
    x = {names[0]: _half(participants, items, names[0])}
    for before, name in pairwise(names):
        over = _half(participants, items, before) + _half(participants, items, name)
        between = [LETTER * max(map(len, i.lines)) + 30 for i in items if {i.at, i.to} == {before, name}]
        x[name] = x[before] + max([LEAST, over, *between])
    return x


def _half(participants: dict[str, str], items: list[Item], name: str) -> float:
    """Half the width of what is written over a lifeline."""
    own = [len(line) for item in items if item.note and item.at == name for line in item.lines]
    return LETTER * max([len(participants[name]) + 2, *own]) / 2 + 12


def _words(lines: tuple[str, ...], x: float, y: float) -> list[str]:
    return [f'<text x="{x:.0f}" y="{y + LINE * (n + 0.75):.0f}">{escape(line)}</text>' for n, line in enumerate(lines)]
