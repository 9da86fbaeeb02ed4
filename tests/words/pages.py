"""The pages of the documentation as the tests read them: blocks, tables, commands."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
AT_ROOT = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
PAGES = [*(ROOT / name for name in AT_ROOT), *sorted((ROOT / "docs").glob("*.md"))]
EXAMPLES = ROOT / "docs" / "examples"


@dataclass(frozen=True)
class Block:
    """A fenced block: its language, its text, and the marker before it (``file`` or ``output``, path)."""

    page: Path
    language: str
    text: str
    marker: tuple[str, str] | None


def blocks(page: Path) -> list[Block]:
    found, marker, language, kept = [], None, None, []
    for text in page.read_text(encoding="utf-8").splitlines():
        fence = re.fullmatch(r"```(\w*)", text)
        if fence and language is None:
            language, kept = fence[1], []
        elif fence:
            found.append(Block(page, language, "\n".join(kept) + "\n", marker))
            language = marker = None
        elif language is not None:
            kept.append(text)
        elif comment := re.fullmatch(r"<!-- (file|output): (\S+) -->", text):
            marker = comment[1], comment[2]
    assert language is None, f"{page.name}: a block does not end"
    return found


def prose(page: Path) -> str:
    return re.sub(r"^```.*?^```$", "", page.read_text(encoding="utf-8"), flags=re.MULTILINE | re.DOTALL)


def section(page: Path, title: str) -> str:
    return re.split(r"^#+ ", page.read_text(encoding="utf-8").partition(f"# {title}\n")[2], flags=re.MULTILINE)[0]


def rows(text: str) -> list[list[str]]:
    """The cells of all tables' rows, heads and rules left out."""
    lines = [text for text in text.splitlines() if text.startswith("|")]
    rules = {i for i, text in enumerate(lines) if re.fullmatch(r"[|:\- ]+", text)}
    heads = {i - 1 for i in rules}
    return [[c.strip() for c in text.strip("|").split("|")] for i, text in enumerate(lines) if i not in rules | heads]


def code(cell: str) -> str:
    return cell.strip("`*")


def commands(page: Path) -> list[tuple[list[str], frozenset[str]]]:
    """Every command line of a page, with the names of what its block copied into place before."""
    found = []
    for block in (block for block in blocks(page) if block.language == "sh"):
        copied: set[str] = set()
        for text in block.text.splitlines():
            words = shlex.split(text, comments=True)
            if words and words[0] == "cp":
                copied.add(Path(words[1]).stem)
            if words:
                found.append((words, frozenset(copied)))
    inline = re.findall(r"`((?:rpsim|make|cp|\.venv/bin/python) [^`]+)`", prose(page))
    return found + [(shlex.split(text), frozenset()) for text in inline]
