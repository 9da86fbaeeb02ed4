"""Schemes with a seeded fault: the modules that a scheme is made of, executed anew with one of them changed."""

from __future__ import annotations

import ast
import inspect
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from ...protocols.scheme import Scheme
from .operators import Change, changes

_NOT_MUTATED = ("scheme", "guarantees", "layout", "placement")
"""Modules of ``protocols/`` that are no protocol."""


def modules_of(scheme: type[Scheme]) -> list[ModuleType]:
    """The modules that a scheme's code is in, those first that others import: index, store, scheme."""
    names = [cls.__module__ for cls in scheme.__mro__ if issubclass(cls, Scheme)]
    found: list[str] = []

    def visit(name: str) -> None:
        module = sys.modules[name]
        package = name.rpartition(".")[0]
        for value in vars(module).values():
            other = getattr(value, "__module__", None)
            if isinstance(other, str) and other not in seen and package and other.rpartition(".")[0] == package:
                seen.add(other)
                visit(other)
        if name.rpartition(".")[2] not in _NOT_MUTATED:
            found.append(name)

    seen = set(names)
    for name in names[::-1]:
        visit(name)
    return [sys.modules[name] for name in dict.fromkeys(found)]


def seeded(scheme: type[Scheme], shared: bool = True) -> Iterator[tuple[ModuleType, int, Change]]:
    """All seeded faults of a scheme, each with its number in its module.

    Those of its own module; then those of the modules that it shares with others, if asked for.
    """
    own = sys.modules[scheme.__module__]
    modules = [own, *(module for module in modules_of(scheme) if module is not own)] if shared else [own]
    for module in modules:
        for number, change in enumerate(changes(inspect.getsource(module))):
            yield module, number, change


@contextmanager
def planted(scheme: type[Scheme], module: ModuleType, change: Change) -> Iterator[type[Scheme]]:
    """The scheme with the fault in it, under its own name, as long as the context lasts."""
    chain = modules_of(scheme)
    registry, kept = dict(Scheme.registry), {}
    try:
        for old in chain[chain.index(module) :]:
            kept[old.__name__] = old
            tree = change.tree if old is module else ast.parse(inspect.getsource(old))
            new = ModuleType(old.__name__, old.__doc__)
            new.__file__, new.__package__ = old.__file__, old.__package__
            sys.modules[old.__name__] = new
            exec(compile(tree, old.__file__ or old.__name__, "exec"), vars(new))
        mutant = getattr(sys.modules[scheme.__module__], scheme.__name__)
        assert isinstance(mutant, type) and issubclass(mutant, Scheme)
        yield mutant
    finally:
        sys.modules.update(kept)
        Scheme.registry.clear()
        Scheme.registry.update(registry)
