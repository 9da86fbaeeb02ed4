"""api.md: what ``import rpsim`` has, with types and texts from the docstrings (Sphinx reads them)."""

from __future__ import annotations

from importlib import import_module

HEAD = """# Python API

What `import rpsim` has; nothing else is promised to stay as it is. [rpsim from Python](python.md) shows it at work.
"""


def pages() -> dict[str, str]:
    """The page: functions first, then the classes of arguments and answers."""
    public = import_module(__name__.partition(".")[0])
    found = {name: getattr(public, name) for name in public.__all__ if not name.startswith("_")}
    classes = [name for name, one in found.items() if isinstance(one, type)]
    functions = [name for name in found if name not in classes]
    out = [HEAD, "## Functions", ""]
    out += [line for name in functions for line in _directive("autofunction", name)]
    out += ["## Classes", ""]
    out += [line for name in classes for line in _directive("autoclass", name)]
    return {"api.md": "\n".join(out)}


def _directive(kind: str, name: str) -> list[str]:
    options = ["   :members:", "   :undoc-members:"] if kind == "autoclass" else []
    return ["```{eval-rst}", f".. {kind}:: rpsim.{name}", *options, "```", ""]
