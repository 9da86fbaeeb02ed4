"""``rpsim explain``: what a word means, or what a name stands for."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ...sim.errors import InputError, Mistake, nearest
from ..options import Command, Field

COMMAND = Command(
    "what a word means: the glossary's entry, or that of a name",
    "TERM",
    "a word of the glossary (WPQ, persistence domain), a step of primitives (write back), or the name of a scheme, "
    "platform, scenario or primitive",
    several=True,
    answer=(
        Field("term", "string", "what was asked for"),
        Field("glossary", "array", "the glossary's entries: `words`, `text`, `see`"),
        Field("names", "array", "what has this name: `kind`, `name`, `title`; of a step `proves`"),
    ),
)
GLOSSARY = Path(__file__).parents[2] / "docs" / "glossary.md"
CONDITIONS = GLOSSARY.with_name("conditions.md")


class Entry(NamedTuple):
    """A row of the glossary."""

    words: str
    """As the page has them: ``MTU, MPS``."""
    text: str
    chapter: str

    @property
    def names(self) -> list[str]:
        """Each word of the row by itself."""
        return [name for name in re.split(r",\s*|\s*\(|\)", self.words) if name]

    @property
    def others(self) -> list[str]:
        """The words that the text refers to, which have entries of their own."""
        return re.findall(r"(?<!\*)\*([^*]+)\*(?!\*)", self.text)


def main(options: argparse.Namespace) -> int:
    """Print the entry; raises InputError, with the nearest word, where there is none."""
    from ..terminal.envelope import envelope
    from ..terminal.text import paragraph

    term = " ".join(options.subject)
    found = known(term)
    named = [] if found else _named(term)
    if options.json:
        rows = [{"words": one.words, "text": _plain(one.text), "see": one.others} for one in found]
        print(envelope(options, {"term": term, "glossary": rows, "names": named}), end="")
        return 0
    for entry in found:
        print("\n".join(paragraph(f"{entry.words.replace('`', '')}: {_plain(entry.text)}", 0, 2)))
        if entry.others:
            print("\n".join(paragraph(f"see also: {', '.join(entry.others)}", 2, 2)))
    for row in named:
        print("\n".join(paragraph(f"{row['name']}: a {row['kind']}, {row['title']}", 0, 2)))
        if "proves" in row:
            print("\n".join(paragraph(f"its end proves: {row['proves']}", 2, 2)))
    return 0


def entries() -> Iterator[Entry]:
    """The rows of the glossary, in its order."""
    chapter = ""
    for line in GLOSSARY.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            chapter = line[3:]
        elif line.startswith("| ") and not line.startswith("| word |"):
            words, _, text = line.strip("| ").partition(" | ")
            yield Entry(words, text, chapter)


def conditions() -> Iterator[Entry]:
    """The conditions that verdicts are about, as their page has them."""
    above = ""
    for line in CONDITIONS.read_text(encoding="utf-8").splitlines():
        if line.startswith("| `"):
            words, text, where = line.strip("| ").split(" | ")
            above = above if where == "the same" else where
            yield Entry(words, f"a *condition*: {text} (applies to: {above})", "Conditions")


def known(term: str) -> list[Entry]:
    """The entries of a word, in whatever case and number; else those whose text has it in italics or as code."""
    wanted = _plain(term).casefold()
    every = [*entries(), *conditions()]
    for either in ({wanted}, {wanted.removesuffix("s")}):
        found = [one for one in every if either & {_plain(name).casefold() for name in (one.words, *one.names)}]
        if found:
            return found
    return [one for one in every if re.search(rf"[*`]{re.escape(wanted)}[*`]", one.text, re.IGNORECASE)]


def _named(term: str) -> list[dict[str, str]]:
    """What has this name, of what rpsim lists."""
    from .list import KINDS, PROVES

    rows = {kind: {str(row["name"]): row for row in one.rows()} for kind, one in KINDS.items()}
    found = [
        {"kind": kind.removesuffix("s"), "name": name, "title": str(row["title"])}
        | ({"proves": str(row[PROVES])} if PROVES in row else {})
        for kind, names in rows.items()
        for name, row in names.items()
        if term in (name, _action(name))
    ]
    if not found:
        words = [name for entry in entries() for name in entry.names] + list(filter(None, map(_action, rows["steps"])))
        known = {name.casefold(): name for name in (*(name for names in rows.values() for name in names), *words)}
        expected = "a word of the glossary (docs/glossary.md), or a name that rpsim list shows"
        close = nearest(term.casefold(), known)
        raise InputError(Mistake(f"'{term}'", expected, nearest=known[close] if close else None))
    return found


def _action(name: str) -> str:
    """Of a step its action, without the place: ``write back`` of ``llc: write back``."""
    return name.partition(": ")[2]


def _plain(text: str) -> str:
    """Without marks of Markdown: emphasis, code, links."""
    text = re.sub(r"\s*\(\[[^\]]*\]\([^)]*\)\)", "", text)
    return re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text).replace("*", "").replace("`", "")
