"""fields.md: every field of a scenario file with its type and default, from the schema that checks files."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...scenarios import arguments
from ...scenarios.schema.maps import FileMap
from ...scenarios.schema.schema import Scenario
from ..pages.markdown import table

HEAD = """# Fields of a scenario

Every map of a scenario's file, with the types of its values as Python has them: sizes and times are text with a unit
(`"256 B"`, `"1.2 us"`). [Scenarios](scenarios.md) says what to do with them; `rpsim.load` takes the same names
([Python](python.md)).
"""


def pages() -> dict[str, str]:
    """The page: the scenario itself, then every map in it."""
    out = [HEAD]
    for model in maps():
        types = _types(model)
        rows = []
        for name, field in model.model_fields.items():
            key = field.alias or name
            usual = "required" if field.is_required() else _default(field.default)
            rows.append([f"`{key}`", field.description or "", f"`{types[key]}`" if key in types else "", usual])
        title = (model.__doc__ or "").partition("\n")[0]
        out += [f"## {_words(model)}", "", title, "", *table(["field", "is", "type", "default"], rows), ""]
    return {"fields.md": "\n".join(out)}


def maps() -> list[type[FileMap]]:
    """The scenario, then the maps in it that have fields of their own, by name."""
    others = sorted((one for one in _below(FileMap) if one is not Scenario and one.model_fields), key=_words)
    return [Scenario, *others]


def _below(model: type[FileMap]) -> Iterator[type[FileMap]]:
    for one in model.__subclasses__():
        yield one
        yield from _below(one)


def _words(model: type[FileMap]) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", model.__name__).capitalize()


def _types(model: type[FileMap]) -> dict[str, str]:
    """The types of the fields as arguments in Python have them: those of the arguments with the same keys."""
    keys = {field.alias or name for name, field in model.model_fields.items()}
    for one in vars(arguments).values():
        if isinstance(one, type) and set(getattr(one, "__annotations__", {})) and _keys(one) == keys:
            return {key: _type(text) for base in one.__mro__ for key, text in _own(base).items()}
    return {}


def _keys(one: type) -> set[str]:
    return set(one.__required_keys__ | one.__optional_keys__) if hasattr(one, "__required_keys__") else set()  # type: ignore[attr-defined]


def _own(one: type) -> dict[str, object]:
    return dict(getattr(one, "__annotations__", {}))


def _type(hint: object) -> str:
    text = str(getattr(hint, "__forward_arg__", hint))
    return re.sub(r"^Required\[(.*)\]$", r"\1", text)


def _default(value: object) -> str:
    if isinstance(value, FileMap) or value in ({}, (), None, ""):
        return "none"
    return f"`{value}`"
