"""Platforms with single parameters set otherwise: for sweeps over the ranges of parameters that are badly known."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, get_type_hints

from ...sim.errors import InputError, Mistake
from .platform import Platform
from .reader import Parameter, convert, yaml_key

UNCERTAIN = (
    "nic.staging",
    "pcie.posted_write",
    "pcie.dma_read",
    "pcie.posted_headers",
    "pcie.posted_data",
    "imc.wpq",
    "media.optane.controller.read_buffer",
)
"""Parameters whose sources are weak or conflict, and that results may depend on: swept by ``--sweep``. Parameters that
a platform does not have are left out (:func:`uncertain`).
"""


def uncertain(platform: Platform) -> list[Parameter]:
    """The low-confidence parameters of a platform that state a range."""
    return [parameter for parameter in platform.parameters() if parameter.range and parameter.path in UNCERTAIN]


def timings(platform: Platform) -> list[Parameter]:
    """All assumed times and rates that state a range: what verdicts may not hang on."""
    return [p for p in platform.parameters() if p.range and isinstance(p.value, int) and _is_timing(p.text)]


def _is_timing(text: str) -> bool:
    return text.endswith((" ps", " ns", " us", " ms", " s", "b/s", "B/s"))


def ends(parameters: Iterable[Parameter]) -> Iterator[tuple[str, str]]:
    """(path, text) of both ends of each parameter's range, but for the end that it is at already."""
    for parameter in parameters:
        assert parameter.range is not None
        for text in parameter.range:
            if text != parameter.text:
                yield parameter.path, text


def varied(platform: Platform, values: Mapping[str, str]) -> Platform:
    """The platform with these parameters (``nic.staging``) set to the given texts; parameters it has not are left out.

    Raises InputError for a text that means nothing.
    """
    for path, text in values.items():
        platform = _with(platform, path.split("."), text, path)
    return platform


def value_of(platform: Platform, path: str) -> tuple[str, Any] | None:
    """The field that a path (``nic.staging``) leads to, and its value; None where the platform has no such thing."""
    group: Any = platform
    name = ""
    for key in path.split("."):
        if isinstance(group, Mapping):
            if key not in group:
                return None
            group = group[key]
            continue
        fields = dataclasses.fields(group) if dataclasses.is_dataclass(group) else ()
        names = [field.name for field in fields if yaml_key(field.name) == key]
        if not names:
            return None
        name, group = names[0], getattr(group, names[0])
    return name, group


def _with(group: Any, path: list[str], text: str, whole: str) -> Any:
    key, *rest = path
    if isinstance(group, Mapping):
        return {**group, key: _with(group[key], rest, text, whole)} if key in group else group
    names = [field.name for field in dataclasses.fields(group) if yaml_key(field.name) == key]
    if not names:
        return group
    (name,) = names
    if rest:
        return dataclasses.replace(group, **{name: _with(getattr(group, name), rest, text, whole)})
    data: Any = int(text) if text.isdigit() else text
    try:
        value = convert(get_type_hints(type(group))[name], name, data)
    except ValueError as error:
        found, _, expected = str(error).partition(": ")
        raise InputError(Mistake(found, expected, field=whole)) from None
    return dataclasses.replace(group, **{name: value})
