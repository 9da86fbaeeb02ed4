"""Kinds of memory that have a file of their own: a platform lists them under ``devices``, each with its ``kind``."""

from __future__ import annotations

import functools
import importlib
import pkgutil
from dataclasses import dataclass
from typing import ClassVar

from ..durability.places import Domain


@dataclass(frozen=True)
class KindParameters:
    """The facts that every kind states; a subclass adds its own numbers, each under a name that says its unit."""

    kinds: ClassVar[dict[str, type[KindParameters]]] = {}
    """By name: the parameters of the kinds whose files have been imported."""
    kind: ClassVar[str]
    """Its name in a platform's YAML."""
    domains: ClassVar[tuple[Domain, ...]] = ()
    """The persistence domains that it may have."""

    capacity_bytes: int


@functools.cache
def find_kinds() -> None:
    """Import the files of ``models/host/``, in which kinds of memory register."""
    host = importlib.import_module("..host", __package__)
    for module in pkgutil.iter_modules(host.__path__, f"{host.__name__}."):
        importlib.import_module(module.name)
