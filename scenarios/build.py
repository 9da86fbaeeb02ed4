"""A scenario put together in Python: typed arguments in, the same checks as of a file, the same Scenario out.

A :class:`Draft` never changes; each step gives a new one. A mistake is the same InputError that a file would cause,
with the argument in place of the line::

    draft = Draft.opened("quickstart").with_(schemes=["saw"], platform="optane-adr", ddio="off")
    scenario = draft.set({"workload.keys": 50}).build()
"""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from pathlib import PurePath
from typing import Any

from typing_extensions import Unpack

from ..sim.errors import InputError, Mistake, nearest
from ..sim.yaml_source import FieldPath, Source
from .arguments import ScenarioFields
from .schema.known import KnownNames
from .schema.load import EXPECTED_ROOT, check, put_field, read_scenario
from .schema.mistakes import Origin
from .schema.schema import Scenario

FIELDS = tuple(field.alias or name for name, field in Scenario.model_fields.items())
"""The keys of a scenario."""


@dataclass(frozen=True)
class Draft:
    """A scenario that is being put together: plain data that is not checked yet, and where each part comes from."""

    source: Source
    """The beginning: a file, or nothing but a name."""
    data: Mapping[str, Any]
    places: Mapping[FieldPath, str] = field(default_factory=dict)
    """The argument behind each part that was changed since."""

    @staticmethod
    def new(called: str, /, **fields: Unpack[ScenarioFields]) -> Draft:
        """A scenario from nothing; ``called`` is its name in messages, and ``scenario`` that in its results."""
        for name in fields:
            _known(name)
        return Draft.given({name: plain(value) for name, value in fields.items() if value is not None}, called)

    @staticmethod
    def given(data: Mapping[str, Any], called: str) -> Draft:
        """Plain data, as a file has it."""
        return Draft(Source(dict(data), called, {}), data)

    @staticmethod
    def opened(name_or_path: str | os.PathLike[str]) -> Draft:
        """A shipped scenario by its name, or a file by its path; raises InputError with the nearest name."""
        try:
            path = os.fspath(name_or_path)
        except TypeError:
            expected = "a shipped scenario's name, the path of a file, a Draft or a Scenario"
            raise InputError(Mistake(repr(name_or_path), expected, field="argument scenario")) from None
        source = read_scenario(path)
        return Draft(source, source.mapping(EXPECTED_ROOT))

    @staticmethod
    def of(scenario: Scenario, called: str | None = None) -> Draft:
        """One that is there already, to be changed; messages call it ``called`` (default: its name)."""
        return Draft.given(scenario.resolved(), called or scenario.name)

    def with_(self, **fields: Unpack[ScenarioFields]) -> Draft:
        """The draft with these fields in place of its own; one that is None is left out.

        A platform or DDIO that is set is no longer varied, and the other way round.
        """
        data, places = copy.deepcopy(dict(self.data)), dict(self.places)
        for name, value in fields.items():
            self._put(name, value, f"argument {name}", data, places)
        return Draft(self.source, data, places)

    def set(self, values: Mapping[str, Any]) -> Draft:
        """The draft with single fields set otherwise, each by its path: ``{"workload.keys": 50}``, as ``--set`` does.

        One that is None is left out: it has its default again.
        """
        if not isinstance(values, Mapping) or not all(isinstance(path, str) for path in values):
            expected = 'a map from paths of fields to values, as in {"workload.keys": 50}'
            raise InputError(Mistake(repr(values), expected, field="argument set"))
        data, places = copy.deepcopy(dict(self.data)), dict(self.places)
        for path, value in values.items():
            self._put(path, value, f"argument set: {path}", data, places)
        return Draft(self.source, data, places)

    def build(self, *, known: KnownNames | None = None) -> Scenario:
        """The scenario; raises InputError with all mistakes at once. ``known`` are the names that it may use."""
        return check(copy.deepcopy(dict(self.data)), Origin(self.source, self.places), known)

    def _put(self, path: str, value: Any, place: str, data: dict[str, Any], places: dict[FieldPath, str]) -> None:
        _known(path.partition(".")[0].partition("[")[0])
        put_field(path, plain(value), place, data, places)
        if value is None:  # as if it had not been given
            *above, last = path.split(".")
            node: Any = data
            for part in above:
                node = node[part]
            node.pop(last, None)


def _known(name: str) -> None:
    if name not in FIELDS:
        expected = f"one of {', '.join(FIELDS)}"
        raise InputError(Mistake(f"the unknown argument '{name}'", expected, nearest=nearest(name, FIELDS)))


def plain(value: Any) -> Any:
    """An argument as a file would have it: maps and lists of texts, numbers and truths."""
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, Mapping):
        return {str(plain(key)): plain(one) for key, one in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(one) for one in (sorted(value) if isinstance(value, set | frozenset) else value)]
    return os.fspath(value) if isinstance(value, PurePath) else value
