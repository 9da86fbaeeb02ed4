"""Which values of a profile any model reads: found in the source of models/ and validation/, not kept by hand.

A parameter counts as read where an attribute with its field's name is read of something called as its group is
(``pcie.lanes`` of ``x.pcie.lanes``), or of something whose name tells nothing (``parameters``, ``profile``).
"""

from __future__ import annotations

import ast
import importlib
import pkgutil
from dataclasses import fields, is_dataclass
from functools import cache
from pathlib import Path

from ....models.profiles import parameters
from ....models.profiles.platform import Platform
from ....models.profiles.reader import yaml_key

ROOT = Path(__file__).resolve().parents[3]
CALLED = frozenset({"parameters", "platform", "loaded", "profile", "own", "of"})
"""What a group of parameters is called by those who read it, besides its own name."""
NO_READERS = ("profiles/platform.py", "profiles/reader.py", "reading.py", "vary.py")


def unread(platform: Platform) -> list[str]:
    """The paths that no model reads, in the profile's order. Switches of the rules are always read."""
    reading, known = _attributes(), _fields()
    return [
        parameter.path
        for parameter in platform.parameters()
        if not parameter.path.startswith("switches.") and not _is_read(parameter.path, reading, known)
    ]


def _is_read(path: str, reading: frozenset[tuple[str, str]], known: dict[str, set[str]]) -> bool:
    *owners, leaf = path.split(".")
    called = {*owners, *CALLED, *(owner.rstrip("s") for owner in owners)}
    return any((owner, name) in reading for owner in called for name in known.get(leaf, {leaf}))


@cache
def _fields() -> dict[str, set[str]]:
    """By YAML key: the names of the fields that stand under it in some group."""
    found: dict[str, set[str]] = {}
    modules = [
        importlib.import_module(f"{parameters.__name__}.{m.name}") for m in pkgutil.iter_modules(parameters.__path__)
    ]
    for group in [Platform, *(group for module in modules for group in vars(module).values())]:
        if isinstance(group, type) and is_dataclass(group):
            for field in fields(group):
                found.setdefault(yaml_key(field.name), set()).add(field.name)
    return found


@cache
def _attributes() -> frozenset[tuple[str, str]]:
    """(last name before the dot, attribute) of all that models and validation read, naive models left out."""
    found = set()
    for path in (path for floor in ("models", "validation") for path in (ROOT / floor).rglob("*.py")):
        if path.as_posix().endswith(NO_READERS) or path.parent.name == "naive":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute):
                owners = ast.walk(node.value.value) if isinstance(node.value, ast.Subscript) else [node.value]
                names = (getattr(owner, "attr", getattr(owner, "id", "")) for owner in owners)
                found |= {(name.lstrip("_"), node.attr) for name in names}
    return frozenset(found)
