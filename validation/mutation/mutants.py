"""Schemes with a seeded fault: the modules that a scheme is made of, executed anew with one of them changed."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType

from typing_extensions import override

from ...protocols.naming import Mode
from ...protocols.registry import scheme as scheme_named
from ...protocols.registry import schemes
from ...protocols.scheme import Scheme
from .operators import Change, blocks, changes

_NOT_MUTATED = ("scheme", "guarantees", "layout", "placement", "failures")
"""Modules of ``protocols/`` that are no protocol; of two copies of ``failures`` no failure equals one of the other."""
_PROTOCOLS = scheme_named.__module__.rpartition(".")[0]
_INTERFACE = Scheme.__module__.rpartition(".")[0]
"""The package of what a scheme and a role are: no protocol either."""


def modules_of(scheme: type[Scheme]) -> list[ModuleType]:
    """The modules that a scheme's code is in, those first that others import: index, store, scheme."""
    names = [cls.__module__ for cls in scheme.__mro__ if issubclass(cls, Scheme)]
    names = [*_of_mode(scheme), *names]
    found: list[str] = []
    seen: set[str] = set()

    def visit(name: str) -> None:
        seen.add(name)
        module = sys.modules[name]
        package = _package(name)
        for value in vars(module).values():
            other = getattr(value, "__module__", None)
            if isinstance(other, str) and other not in seen and package and _package(other) == package:
                visit(other)
        if name.rpartition(".")[2] not in _NOT_MUTATED and name.rpartition(".")[0] != _INTERFACE:
            found.append(name)

    for name in names[::-1]:
        if name not in seen:
            visit(name)
    return [sys.modules[name] for name in dict.fromkeys(found)]


def _of_mode(scheme: type[Scheme]) -> list[str]:
    """The modules of the mode that a scheme is on, and of the roles that the mode brings; none for one without."""
    mode = getattr(scheme, "mode", None)
    if mode is None:
        return []
    kinds = [mode, *getattr(mode, "role_types", {}).values()]
    found = dict.fromkeys(one.__module__ for kind in kinds for one in kind.__mro__)
    return [
        name
        for name in found
        if _package(name) == _PROTOCOLS and name.rpartition(".")[0] not in (_PROTOCOLS, _INTERFACE)
    ]


def _own(scheme: type[Scheme]) -> list[ModuleType]:
    """A scheme's own module, and those beside it in a folder that has no other scheme or bears its name; of a structure
    on a mode also those of the mode.
    """
    folder = scheme.__module__.rpartition(".")[0]
    others = {one.__module__ for one in schemes().values()} - {scheme.__module__}
    theirs = {name for name in others if name.rpartition(".")[0] == folder}
    beside = [one.__name__ for one in modules_of(scheme) if one.__name__.rpartition(".")[0] == folder]
    alone = folder not in ("", _PROTOCOLS) and (
        not theirs or scheme.__module__.endswith(f".{folder.rpartition('.')[2]}")
    )
    names = [scheme.__module__, *(beside if alone else ()), *_of_mode(scheme)]
    return [sys.modules[name] for name in dict.fromkeys(names) if name not in theirs]


def _package(module: str) -> str:
    """The package whose modules are mutated together: ``protocols/`` with all its folders, or a user's own."""
    return _PROTOCOLS if module.startswith(f"{_PROTOCOLS}.") else module.rpartition(".")[0]


def seeded(scheme: type[Scheme], shared: bool = True) -> Iterator[tuple[ModuleType, int, Change]]:
    """All seeded faults of a scheme, each with its number in its module.

    First the faults of its own module and of its mode; then, if ``shared``, those of what it shares with others.
    """
    modules = _own(scheme)
    modules += [module for module in modules_of(scheme) if module not in modules] if shared else []
    for module in modules:
        for number, change in enumerate(changes(inspect.getsource(module))):
            yield module, number, change


@contextmanager
def planted(scheme: type[Scheme], module: ModuleType, change: Change) -> Iterator[type[Scheme]]:
    """The scheme with the fault in it, under its own name, as long as the context lasts."""
    chain = modules_of(scheme)
    behind = chain[chain.index(module) :]
    with _anew(scheme, {old: change.tree if old is module else _tree(old) for old in behind}, {}) as mutant:
        yield mutant


Reached = dict[str, set[int]]
"""By module: the lines of the statements that were executed; with a minus those of conditions that were false."""


@contextmanager
def watched(scheme: type[Scheme]) -> Iterator[tuple[type[Scheme], Reached]]:
    """The scheme as it is, noting which of its statements are executed."""
    chain = modules_of(scheme)
    reached: Reached = {module.__name__: set() for module in chain}
    trees = {module: ast.fix_missing_locations(_Noting().visit(_tree(module))) for module in chain}
    with _anew(scheme, trees, {name: {_NOTE: lines.add} for name, lines in reached.items()}) as same:
        yield same, reached


@contextmanager
def _anew(
    scheme: type[Scheme], trees: Mapping[ModuleType, ast.Module], names: Mapping[str, Mapping[str, object]]
) -> Iterator[type[Scheme]]:
    """Modules executed anew from other trees, in this order, with further ``names`` in them; then all as before."""
    schemes()  # those that would be imported meanwhile would be forgotten with the fault
    defined = getattr(sys.modules[scheme.__module__], scheme.__name__, None) is scheme  # else made from its name
    registry, modes, kept = dict(Scheme.registry), dict(Mode.registry), {}
    try:
        for old, tree in trees.items():
            kept[old.__name__] = old
            new = ModuleType(old.__name__, old.__doc__)
            new.__file__, new.__package__ = old.__file__, old.__package__
            vars(new).update(names.get(old.__name__, {}))
            sys.modules[old.__name__] = new
            exec(compile(tree, old.__file__ or old.__name__, "exec"), vars(new))
        mutant = getattr(sys.modules[scheme.__module__], scheme.__name__) if defined else scheme_named(scheme.name)
        assert isinstance(mutant, type) and issubclass(mutant, Scheme)
        yield mutant
    finally:
        sys.modules.update(kept)
        Scheme.registry.clear()
        Scheme.registry.update(registry)
        Mode.registry.clear()
        Mode.registry.update(modes)


def _tree(module: ModuleType) -> ast.Module:
    return ast.parse(inspect.getsource(module))


_NOTE = "_note_that_this_line_is_reached"


class _Noting(ast.NodeTransformer):
    """Has every statement of a function note its line before it is executed, and every condition where it is false."""

    @override
    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        for block in blocks(node):
            for statement in block:
                if isinstance(statement, ast.If):
                    statement.test = ast.BoolOp(ast.Or(), [statement.test, self._note(-statement.lineno)])
            block[:] = [each for statement in block for each in (self._noting(statement), statement)]
        return node

    def _noting(self, statement: ast.stmt) -> ast.stmt:
        return ast.copy_location(ast.Expr(self._note(statement.lineno)), statement)

    @staticmethod
    def _note(number: int) -> ast.expr:
        """A call that has the number noted, and returns nothing."""
        return ast.Call(ast.Name(_NOTE, ast.Load()), [ast.Constant(number)], [])
