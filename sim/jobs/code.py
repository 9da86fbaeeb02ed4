"""Hashes of everything that a job's answer depends on: its description, and the code and data of its function.

A module reaches the modules that it imports anywhere in its file (but for a type checker), their packages, and the data
that it finds from its own place, as in ``Path(__file__).parent / "library"``. Libraries are not followed. Where a name
that is imported is computed (a registry of schemes, of experiments), the caller names the modules that count.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path

_FOR_TYPES = re.compile(r"^if TYPE_CHECKING:\n(?:[ \t]+[^\n]*\n|\n)+", re.MULTILINE)
_IMPORT = re.compile(
    r"^[ \t]*(?:from[ \t]+(?P<source>[.\w]+)[ \t]+import[ \t]+(?P<names>\([^)]*\)|[^\n]*)"
    r"|import[ \t]+(?P<modules>[^\n]*))",
    re.MULTILINE,
)
"""An import statement. To parse the files into trees would take a second; this takes a tenth of it."""


def digest(function: Callable[..., object], description: object, *modules: str) -> str:
    """The name of a job: a hash of its description (plain data) and of all that its function and ``modules`` reach."""
    code = _fingerprint(frozenset((function.__module__, *modules)))
    return hashlib.sha256((json.dumps(description, sort_keys=True) + code).encode()).hexdigest()[:16]


@cache
def _fingerprint(modules: frozenset[str]) -> str:
    return _CODE.fingerprint({name: Path(sys.modules[name].__file__ or "") for name in modules})


class Code:
    """Files of code, each read once."""

    def __init__(self) -> None:
        self._read: dict[str, tuple[list[str], list[Path]]] = {}
        """By module: the modules that it imports; its file and its data."""
        self._hashes: dict[Path, bytes] = {}

    def fingerprint(self, roots: Mapping[str, Path]) -> str:
        """A hash of all that these modules reach."""
        total = hashlib.sha256()
        for name, path in self.reached(roots).items():
            if path not in self._hashes:
                self._hashes[path] = hashlib.sha256(path.read_bytes()).digest()
            total.update(name.encode() + self._hashes[path])
        return total.hexdigest()

    def reached(self, roots: Mapping[str, Path]) -> dict[str, Path]:
        """The files that these modules reach, sorted by their places below the folders of their top-level packages."""
        folders = {name.partition(".")[0]: _folder(name, path) for name, path in roots.items() if _at_home(name, path)}
        found: dict[str, Path] = {}
        todo = list(roots)
        seen = set(todo)
        while todo:
            name = todo.pop()
            path = roots.get(name) or _file(folders, name)
            if path is None:
                continue
            top = name.partition(".")[0]
            if name not in self._read:
                self._read[name] = list(imported(name, path)), [path, *data(path, folders[top])]
            others, files = self._read[name]
            inside, own = folders[top], f"{name} in {path.name}"
            for file in files:
                found[f"{top}/{file.relative_to(inside).as_posix()}" if inside in file.parents else own] = file
            for other in others:
                parts = other.split(".")
                above = (".".join(parts[:end]) for end in range(1, len(parts) + 1))
                new = [one for one in above if one not in seen and parts[0] in folders]
                seen.update(new)
                todo += new
        return dict(sorted(found.items()))


_CODE = Code()


def imported(module: str, path: Path) -> Iterator[str]:
    """Every module that a file may import when it runs, by absolute name; names that are no modules as well."""
    package = module if path.name == "__init__.py" else module.rpartition(".")[0]
    yield package
    text = _FOR_TYPES.sub("", path.read_text(encoding="utf-8"))
    for found in _IMPORT.finditer(text):
        if found["modules"] is not None:
            yield from (name.split()[0] for name in _listed(found["modules"]))
            continue
        dots = len(found["source"]) - len(found["source"].lstrip("."))
        above = package.split(".")[: len(package.split(".")) + 1 - dots] if dots else []
        source = ".".join([*above, *filter(None, [found["source"][dots:]])])
        yield source
        yield from (f"{source}.{name.split()[0]}" for name in _listed(found["names"]))


def _listed(names: str) -> list[str]:
    """The names of an import statement, each perhaps with ``as`` behind it."""
    plain = re.sub(r"#[^\n]*", "", names).strip("() \n")
    return [name for name in map(str.strip, plain.split(",")) if name]


def _at_home(module: str, path: Path) -> bool:
    """Whether a file lies where its module's name says; a user's own is named as if it lay in a package of rpsim's."""
    place, names = path.parent if path.name == "__init__.py" else path.with_suffix(""), module.split(".")[1:]
    return list(place.parts[len(place.parts) - len(names) :]) == names


def _folder(module: str, path: Path) -> Path:
    """The folder of the top-level package of a module that is in this file."""
    depth = module.count(".") - (path.name != "__init__.py")
    return path.parents[max(depth, 0)]


def _file(folders: Mapping[str, Path], module: str) -> Path | None:
    top, *rest = module.split(".")
    place = folders[top].joinpath(*rest)
    candidates = (place / "__init__.py", place.with_suffix(".py")) if rest else (place / "__init__.py",)
    return next((path for path in candidates if path.is_file()), None)


def data(path: Path, top: Path) -> list[Path]:
    """The data files below ``top`` that a module finds from its own place."""
    text = path.read_text(encoding="utf-8")
    todo: list[ast.AST] = [ast.parse(text)] if "__file__" in text else []
    found: set[Path] = set()
    for node in todo:
        place = _place(node, path)
        if place is None:
            todo += ast.iter_child_nodes(node)
        elif top in place.parents:
            found.update(_files(place))
    return sorted(found)


def _files(place: Path) -> Iterator[Path]:
    """A data file, or those of a folder and of the folders in it that are no packages."""
    if place.is_dir():
        for inner in place.iterdir():
            if inner.name != "__pycache__" and not (inner / "__init__.py").exists():
                yield from _files(inner)
    elif place.suffix != ".py" and place.exists():
        yield place


def _place(node: ast.AST, path: Path) -> Path | None:
    """The path of an expression that starts from ``Path(__file__)``, as far as it is constant."""
    match node:
        case ast.Call(args=[ast.Name(id="__file__")]):
            return path
        case ast.Call(func=ast.Attribute(value=value, attr="resolve" | "absolute"), args=[]):
            return _place(value, path)
        case ast.Attribute(value=value, attr="parent"):
            above = _place(value, path)
            return above and above.parent
        case ast.Subscript(value=ast.Attribute(value=value, attr="parents"), slice=ast.Constant(value=int(count))):
            below = _place(value, path)
            return below and below.parents[count]
        case ast.BinOp(left=left, op=ast.Div(), right=ast.Constant(value=str(name))):
            folder = _place(left, path)
            return folder and folder / name
    return None
