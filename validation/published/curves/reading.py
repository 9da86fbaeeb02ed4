"""Which values of a profile no run reads: found by runs that note every parameter that a model looks at.

The runs of :mod:`.reading_runs` take every component through its work. A parameter counts as read where code of the
models asks for its field, directly or through a property; that dataclasses copy, compare or print it does not count.
"""

from __future__ import annotations

import dataclasses
import re
import sys
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from typing_extensions import override

from ....models.profiles.platform import Platform
from ....models.profiles.reader import yaml_key
from .reading_runs import RUNS

_OF_MAPS = re.compile(r"^(media|memory|peers|drives|cpu\.types|cpu\.software|nic\.caches|sockets)\.[^.]+")
"""Groups whose parts have names of their own: a field that is read of one part counts for all."""


def unread(platform: Platform) -> list[str]:
    """The paths that no run reads, in the profile's order.

    The ordering rules read their switches always; prices are for who asks what machines cost.
    """
    read = everything_read()
    return [
        parameter.path
        for parameter in platform.parameters()
        if "." in parameter.path
        and not parameter.path.startswith(("switches.", "cost."))
        and general(parameter.path) not in read
    ]


def general(path: str) -> str:
    """A parameter's path with ``*`` for the name of a medium, a drive, ...: ``drives.*.read``."""
    return _OF_MAPS.sub(r"\1.*", path)


@cache
def everything_read() -> frozenset[str]:
    """The general paths of all that the runs read."""
    seen: set[str] = set()
    for run in RUNS:
        run(lambda platform: noted(platform, seen.add))
    return frozenset(seen)


def noted(platform: Platform, note: Callable[[str], None]) -> Platform:
    """The platform, with groups of parameters that call ``note`` with the general path of each field that is read."""
    groups = {
        field.name: _noting(getattr(platform, field.name), field.name, note)
        for field in dataclasses.fields(platform)
        if field.name not in ("settings", "origins", "switches")
    }
    return dataclasses.replace(platform, **groups)


def _noting(value: Any, path: str, note: Callable[[str], None]) -> Any:
    if isinstance(value, Mapping):
        return {key: _noting(one, f"{path}.*", note) for key, one in value.items()}
    if not dataclasses.is_dataclass(value):
        return value
    kind: Any = type(value)
    names = {field.name: f"{path}.{yaml_key(field.name)}" for field in dataclasses.fields(value)}

    class Noting(kind):  # type: ignore[misc]
        __slots__ = ()

        @override
        def __getattribute__(self, name: str) -> Any:
            if name in names and sys._getframe(1).f_code.co_filename not in _COPIES:
                note(names[name])
            return object.__getattribute__(self, name)

    copy = object.__new__(Noting)
    for name, inner in names.items():
        object.__setattr__(copy, name, _noting(object.__getattribute__(value, name), inner, note))
    return copy


_COPIES = (dataclasses.__file__, "<string>")
"""Where dataclasses' own methods are."""
