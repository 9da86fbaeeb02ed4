"""The mistakes that pydantic finds in a scenario, in plain words and with the place where the user wrote them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from ...sim.errors import Mistake, nearest
from ...sim.units import numeral
from ...sim.yaml_source import FieldPath, Source, describe, dotted
from .failures import DrawnFailures, Failure
from .known import Complaint
from .listed import ListedWorkload, ScheduledOperation
from .network import ChosenPacket, NetworkSection
from .ranking import PageRank
from .schema import CrashSection, Held, Outage, RoleCount, Scenario
from .transactions import Transactions
from .workloads import ClientGroup, Ycsb

WORKLOADS: dict[str, type[BaseModel]] = {
    "ycsb": Ycsb, "mix": Ycsb, "pagerank": PageRank, "transactions": Transactions, "schedule": ListedWorkload,
}  # fmt: skip

_EXPECTED = {
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "finite_number": "a finite number",
    "string_type": "text",
    "greater_than_equal": "at least {ge}",
    "greater_than": "more than {gt}",
    "less_than": "less than {lt}",
    "less_than_equal": "at most {le}",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a map",
    "too_short": "a list with at least {min_length}",
    "string_pattern_mismatch": "a name of letters, digits, '-', '_' and '.'",
}


@dataclass(frozen=True)
class Origin:
    """The place of each part of the data: the file's lines, and the command line's options that replace them."""

    source: Source
    overrides: Mapping[FieldPath, str] = field(default_factory=dict)
    """From a path to the user's text for it (``--set workload.keys``)."""

    def mistake(self, path: FieldPath, found: str, expected: str, hint: str | None = None) -> Mistake:
        """A mistake at ``path``, with the line or the option that it stands in."""
        for length in range(len(path), 0, -1):
            place = self.overrides.get(path[:length])
            if place is not None:
                # The place already names the field, unless the mistake lies deeper.
                deeper = None if place.endswith(dotted(path)) or place == "--seed" else dotted(path)
                return Mistake(found, expected, place, None, deeper, hint)
        return Mistake(found, expected, self.source.file, self.source.line(path), dotted(path) or None, hint)


def mistakes(error: ValidationError, data: Any, origin: Origin) -> list[Mistake]:
    """All that pydantic found, each once."""
    errors = error.errors(include_url=False)
    misspelt = {_meant(_path(details, data), data) for details in errors if details["type"] == "extra_forbidden"}
    found = [
        mistake
        for details in errors
        if not _follows(details, _path(details, data) in misspelt)
        for mistake in _mistakes(details, data, origin)
    ]
    return list(dict.fromkeys(found))


def _follows(details: ErrorDetails, misspelt: bool) -> bool:
    """Whether this is only the consequence of another mistake, which is reported anyway."""
    if details["type"] == "missing":
        return misspelt  # it is there, under a wrong name
    # Pydantic counts only the valid members of a tuple.
    return details["type"] == "too_short" and len(details["input"]) >= details["ctx"]["min_length"]


def _mistakes(details: ErrorDetails, data: Any, origin: Origin) -> Iterator[Mistake]:
    kind, context, given = details["type"], details.get("ctx", {}), details["input"]
    path = _path(details, data)
    if kind == "rpsim":
        for complaint in context["complaints"]:
            assert isinstance(complaint, Complaint)
            at = complaint.path if complaint.from_root else (*path, *complaint.path)
            yield origin.mistake(at, complaint.found, complaint.expected, complaint.nearest)
    elif kind == "extra_forbidden":
        meant = _meant(path, data)
        expected = f"one of {', '.join(_keys(path[:-1], data))}"
        yield origin.mistake(path, f"the unknown key '{path[-1]}'", expected, str(meant[-1]) if meant else None)
    elif kind == "missing":
        yield origin.mistake(path, "nothing", _description(path, data))
    elif kind == "union_tag_not_found":
        yield origin.mistake((*path, "kind"), "nothing", f"a kind of workload: {', '.join(WORKLOADS)}")
    elif kind == "union_tag_invalid":
        tag = str(context["tag"])
        expected = f"a kind of workload: {', '.join(WORKLOADS)}"
        yield origin.mistake((*path, "kind"), describe(tag), expected, nearest(tag, WORKLOADS))
    elif kind in {"model_type", "model_attributes_type"}:
        keys = ", ".join(_keys(path, data)) or f"kind ({' or '.join(WORKLOADS)})"
        yield origin.mistake(path, describe(given), f"a map with {keys}")
    else:
        bounds = {name: numeral(value) if isinstance(value, int | float) else value for name, value in context.items()}
        expected = _EXPECTED[kind].format(**bounds) if kind in _EXPECTED else details["msg"]
        yield origin.mistake(path, describe(given), expected)


def _meant(path: FieldPath, data: Any) -> FieldPath:
    """The path that an unknown key is most likely a misspelling of; empty if none."""
    name = nearest(str(path[-1]), _keys(path[:-1], data))
    return (*path[:-1], name) if name else ()


def _path(details: ErrorDetails, data: Any) -> FieldPath:
    """Pydantic's location without the parts that are not in the data: the names of union members and ``[key]``."""
    location = details["loc"]
    path: list[str | int] = []
    for i, part in enumerate(location):
        inside = (isinstance(data, dict) and part in data) or (
            isinstance(data, list | tuple) and isinstance(part, int) and part < len(data)
        )
        if inside:
            data = data[part]
            path.append(part)
        elif i == len(location) - 1 and details["type"] == "missing":
            path.append(part)
    return tuple(path)


def _model(path: FieldPath, data: Any) -> type[BaseModel] | None:
    """The model of the map at ``path``."""
    match path:
        case ():
            return Scenario
        case ("crash",):
            return CrashSection
        case ("roles", _):
            return RoleCount
        case ("network",):
            return NetworkSection
        case ("network", "packets", _):
            return ChosenPacket
        case ("failures",):
            return DrawnFailures if isinstance(data["failures"], dict) else None
        case ("failures", _):
            return Failure
        case ("outages", _):
            return Outage
        case ("held", _):
            return Held
        case ("workload", "groups", _):
            return ClientGroup
        case ("workload", "operations", _):
            return ScheduledOperation
        case ("workload",):
            workload = data["workload"]
            return WORKLOADS.get(str(workload.get("kind"))) if isinstance(workload, dict) else None
        case _:
            return None


def _keys(path: FieldPath, data: Any) -> list[str]:
    model = _model(path, data)
    keys = [field.alias or name for name, field in model.model_fields.items()] if model else []
    return sorted(keys, key=lambda key: key != "kind")


def _description(path: FieldPath, data: Any) -> str:
    model = _model(path[:-1], data)
    fields = {field.alias or name: field for name, field in model.model_fields.items()} if model else {}
    return (fields[str(path[-1])].description if str(path[-1]) in fields else None) or "a value"
