"""Pages from app/templates, by Jinja: one file each that opens anywhere, offline; all text in them is escaped."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

FOLDER = Path(__file__).resolve().parents[1] / "templates"


def render(template: str, **parts: object) -> str:
    """A page as text. Texts among the parts are escaped, Markup is HTML already; ``figures`` are plotly's."""
    return _environment().get_template(template).render(parts)


@cache
def _environment() -> Environment:
    from ... import __version__

    made = Environment(
        loader=FileSystemLoader(FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    made.globals |= {"version": __version__, "file": _file, "plotly": _plotly}
    made.filters["inline"] = inline
    return made


def inline(data: object) -> Markup:
    """JSON that is safe inside a script element."""
    return Markup(json.dumps(data, separators=(",", ":"), default=str).replace("<", "\\u003c"))


def _file(name: str) -> Markup:
    """A style sheet or a script of ours, as it is."""
    return Markup((FOLDER / name).read_text(encoding="utf-8"))


def _plotly() -> Markup:
    from plotly.offline import get_plotlyjs

    return Markup(get_plotlyjs())
