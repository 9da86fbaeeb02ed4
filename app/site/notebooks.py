"""Notebooks from their one source: tutorials are text notebooks in MyST's form, labs are ``lab.md``.

jupytext (extra ``[docs]``) makes .ipynb files of them: ``make notebooks``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from . import labs

TUTORIALS = Path(__file__).resolve().parents[2] / "docs" / "tutorials"
KERNEL = """---
jupytext:
  text_representation: {extension: .md, format_name: myst}
kernelspec: {display_name: Python 3, language: python, name: python3}
---
"""
_CELL = re.compile(r"^```\{code-cell\}[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def texts() -> dict[str, str]:
    """The text of every notebook by its name: ``tutorials/first-hour``, ``labs/1``."""
    found = {f"tutorials/{path.stem}": path.read_text(encoding="utf-8") for path in sorted(TUTORIALS.glob("*.md"))}
    return found | {f"labs/{lab.name}": KERNEL + labs.notebook(lab) for lab in labs.all_labs()}


def cells(text: str) -> list[str]:
    """The code of a notebook's cells."""
    return _CELL.findall(text)


def write(found: Mapping[str, str], folder: Path) -> list[Path]:
    """Write .ipynb files into a folder; returns their paths. Needs jupytext."""
    import jupytext

    paths = []
    for name, text in found.items():
        path = folder / f"{name}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        jupytext.write(jupytext.reads(text, fmt="md:myst"), path)
        paths.append(path)
    return paths
