"""The glossary as a glossary of Sphinx: every word is an entry that other pages, the index and the search know."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from ..commands.explain import Entry

EVERYDAY = frozenset(
    [
        "batch",
        "case",
        "cell",
        "channel",
        "claim",
        "credit",
        "cut",
        "edge",
        "event",
        "fail",
        "fate",
        "fit",
        "forced",
        "hop",
        "image",
        "index",
        "info",
        "inbox",
        "inline",
        "instant",
        "key",
        "lab",
        "lane",
        "line",
        "log",
        "lossy",
        "mode",
        "model",
        "object",
        "option",
        "outcome",
        "past",
        "place",
        "port",
        "posted",
        "predict",
        "preset",
        "probe",
        "profile",
        "reached",
        "reading",
        "register",
        "row",
        "rig",
        "role",
        "session",
        "setting",
        "shape",
        "slot",
        "span",
        "spin",
        "stage",
        "staging",
        "stamp",
        "starter",
        "step",
        "store",
        "strike",
        "switch",
        "torn",
        "trace",
        "twin",
        "unit",
        "verb",
        "view",
        "visible",
        "durable",
        "wing",
        "floor",
        "zone",
        "condition",
        "axis",
        "packet",
        "domain",
        "exhaustive",
    ]
)
"""Words that a sentence may have in their usual sense, or that every page has: no link is made of them by itself."""


def page(text: str, entries: Iterable[Entry]) -> str:
    """The page with a directive in place of each table."""
    rows = list(entries)
    known = {name.casefold(): name for entry in rows for name in words(entry)}
    head = re.split(r"^## ", text, flags=re.MULTILINE)[0]
    chapters: dict[str, list[Entry]] = {}
    for entry in rows:
        chapters.setdefault(entry.chapter, []).append(entry)
    out, told = [head], set[str]()
    for chapter, own in chapters.items():
        out.append(f"## {chapter}\n\n```{{glossary}}\n")
        for entry in own:
            new = [name for name in words(entry) if name.casefold() not in told]
            told |= {name.casefold() for name in new}
            if new:
                out.append("\n".join(new) + f"\n  {_text(entry, known)}\n\n")
        out.append("```\n\n")
    return "".join(out)


def words(entry: Entry) -> list[str]:
    """The words of an entry, one by one, without marks."""
    return list(dict.fromkeys(name.replace("`", "").strip() for name in entry.names if name.strip(" `")))


def automatic(entries: Iterable[Entry]) -> list[str]:
    """The words whose first use on a page links here, longest first."""
    found = {name for entry in entries for name in words(entry)}
    return sorted(
        (name for name in found if name.casefold() not in EVERYDAY and len(name) > 2), key=lambda n: (-len(n), n)
    )


def _text(entry: Entry, known: Mapping[str, str]) -> str:
    """The explanation, its words in italics as links to their entries."""

    def link(found: re.Match[str]) -> str:
        word = found[1]
        for form in (word, word.removesuffix("s"), word.removesuffix("es")):
            if form.casefold() in known:
                return f"{{term}}`{word} <{known[form.casefold()]}>`"
        return found[0]

    return re.sub(r"(?<![\*\w])\*([^*]+)\*(?!\*)", link, entry.text)
