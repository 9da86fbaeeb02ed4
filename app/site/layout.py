"""The site's source folder: pages of docs/ with their links, pages made from the code, the parts of the contents."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from os.path import relpath
from pathlib import Path

from ..commands.explain import entries
from . import commands, diagrams, fields, glossary, interface, labs, measured, steps

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
FROM_ROOT = {"CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
"""Pages at the root of the checkout, and what they are called on the site."""
MADE: Sequence[Callable[[], Mapping[str, str]]] = (
    commands.pages, fields.pages, steps.pages, interface.pages, measured.platforms, measured.schemes,
    measured.reproductions, labs.pages,
)  # fmt: skip
"""The functions that make pages from the code."""
_LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^( *)```.*?^\1```$", re.MULTILINE | re.DOTALL)


def lay_out(target: Path) -> None:
    """Write the whole source into a folder, which is replaced but for its notebooks."""
    for path in target.iterdir() if target.is_dir() else ():
        if path.name != "notebooks":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    for folder in ("images", "examples", "static"):
        shutil.copytree(DOCS / folder, target / folder, ignore=shutil.ignore_patterns("*.md", "__pycache__"))
    shutil.copy(DOCS / "conf.py", target / "conf.py")
    for name, text in texts().items():
        path = target / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")


def written() -> dict[Path, str]:
    """The pages that are written by hand: each with its name on the site."""
    own = {path: path.relative_to(DOCS).as_posix() for path in sorted(DOCS.rglob("*.md"))}
    kept = {path: name for path, name in own.items() if not name.startswith(("examples/", "platforms/"))}
    return kept | {ROOT / path: name for path, name in FROM_ROOT.items()}


def made() -> dict[str, str]:
    """The pages that are made from the code, by their names on the site."""
    return {name: text for make in MADE for name, text in make().items()}


def texts() -> dict[str, str]:
    """The text of every page by its name on the site."""
    pages, found = written(), made()
    known = {path.resolve(): name for path, name in pages.items()} | {(DOCS / name).resolve(): name for name in found}
    for path, name in pages.items():
        found[name] = linked(path.read_text(encoding="utf-8"), path.parent, Path(name).parent, known)
    for name in [name for name in found if name.endswith("/README.md")]:
        found[name] += _toctree(one.rpartition("/")[2] for one in found if _belongs(one, name))
    found["glossary.md"] = glossary.page(found["glossary.md"], entries())
    found["index.md"] = contents(found["index.md"], found)
    return {name: diagrams.drawn(text) for name, text in found.items()}


def linked(text: str, at: Path, on_site: Path, known: Mapping[Path, str]) -> str:
    """A page whose links lead to pages of the site; a link to any other file of the checkout becomes its name."""

    def link(found: re.Match[str]) -> str:
        words, (to, mark, anchor) = found[1], found[2].partition("#")
        if "://" in to or not to:
            return found[0]
        target = (at / to).resolve()
        if target in known:
            return f"[{words}]({relpath(known[target], on_site)}{mark}{anchor})"
        if target.is_relative_to(DOCS / "examples") and target.is_file() and target.suffix != ".md":
            return f"[{words}]({relpath(target.relative_to(DOCS), on_site)})"
        return f"`{target.relative_to(ROOT).as_posix()}`"

    parts = _FENCE.split(text)
    fences = [found[0] for found in _FENCE.finditer(text)]
    prose = [_LINK.sub(link, part) for part in parts[:: _FENCE.groups + 1]]
    return "".join(part for pair in zip(prose, [*fences, ""], strict=True) for part in pair)


def _belongs(name: str, first: str) -> bool:
    """Whether a page stands in the folder of its first page."""
    return name != first and name.rpartition("/")[0] == first.rpartition("/")[0]


def _toctree(names: Iterable[str], caption: str = "") -> str:
    head = f":caption: {caption}\n" if caption else ""
    return f"\n```{{toctree}}\n:hidden:\n{head}\n" + "\n".join(names) + "\n```\n"


def _as_title(words: str) -> str:
    """The words with a capital letter, unless a name begins them that has its own: eFactory."""
    return words if words[1:2].isupper() else words[0].upper() + words[1:]


def contents(text: str, pages: Mapping[str, str]) -> str:
    """The first page, with a hidden table of contents for each part: the pages that it names, by its words.

    What belongs to a page that is named (``schemes/README.md``) is found through that page's own table. Pages that are
    not named stand behind the named ones of their folder, as the scoreboard of a further paper does.
    """
    told = {to.partition("#")[0] for _, to in _LINK.findall(text)}
    told |= {name for name in pages if f"{name.rpartition('/')[0]}/README.md" in pages}
    first, *parts = re.split(r"^## ", text, flags=re.MULTILINE)
    out = [first]
    for part in parts:
        title = part.partition("\n")[0]
        named = {to.partition("#")[0]: " ".join(words.split()) for words, to in reversed(_LINK.findall(part))}
        own = [f"{_as_title(named[name])} <{name}>" for name in reversed(named) if name in pages]
        folders = {name.rpartition("/")[0] for name in named if "/" in name}
        own += sorted(name for name in pages if name not in told and name.rpartition("/")[0] in folders)
        out.append(f"## {part}{_toctree(own, title)}\n")
    return "".join(out)
