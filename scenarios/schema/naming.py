"""The names of a scenario's schemes with its ``options:`` in them, as everything after the file's reading has them.

``options: {replicas: 2}`` goes to every scheme that has the option, ``options: {clover: {replicas: 2}}`` to one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ...protocols.naming import Option
from ...protocols.naming.names import ParsedName, parse_name
from ...sim.errors import nearest
from ...sim.yaml_source import FieldPath, describe
from .known import Complaint, KnownNames


def named(data: Mapping[str, Any]) -> list[str]:
    """The names of schemes that a scenario's data has, where they may be, each once."""
    schemes, expect = data.get("schemes"), data.get("expect")
    names = [schemes] if isinstance(schemes, str) else schemes if isinstance(schemes, list) else []
    names = [*names, *(expect if isinstance(expect, dict) else ())]
    return list(dict.fromkeys(name for name in names if isinstance(name, str)))


def full_names(data: Mapping[str, Any], known: KnownNames) -> tuple[dict[str, str], list[Complaint]]:
    """The full name of each scheme that the data names and that is known, and the mistakes in its ``options:``."""
    parsed = {name: parse_name(name) for name in named(data) if name in known.schemes}
    options = data.get("options")
    if options is None:
        return {name: str(one) for name, one in parsed.items()}, []
    if not isinstance(options, dict):
        return {}, [Complaint(describe(options), "a map of options, e.g. {replicas: 2}", None, ("options",))]
    wrong: list[Complaint] = []
    for path, option, value, schemes in _choices(options, parsed, wrong):
        having = [name for name in schemes if option in known.schemes[name].options]
        if not having and len(parsed) == len(named(data)):
            known_options = sorted({one for name in schemes for one in known.schemes[name].options})
            expected = f"an option of {', '.join(schemes)}: {', '.join(known_options) or 'none has any'}"
            wrong.append(Complaint(f"'{option}'", expected, nearest(option, known_options), path))
        for name in having:
            given, text = parsed[name].system.options, Option.write(value)
            if option in given and given[option] != text:
                found = f"{option}={text} beside '{name}'"
                wrong.append(Complaint(found, "the option here or in the name", None, path))
            try:
                known.schemes[name].options[option].read(value)
            except ValueError as error:
                close = nearest(text, known.schemes[name].options[option].choices)
                wrong.append(Complaint(describe(value), f"{error} for {option} of {name}", close, path))
                continue
            system = replace(parsed[name].system, options={**given, option: _text(known, name, option, value)})
            parsed[name] = replace(parsed[name], system=system)
    return {name: str(one) for name, one in parsed.items()}, wrong


def _choices(
    options: Mapping[Any, Any], parsed: Mapping[str, ParsedName], wrong: list[Complaint]
) -> Iterator[tuple[FieldPath, str, Any, list[str]]]:
    """Each choice of ``options:``: its place, option and value, and the names of the schemes that it is for."""
    for key, value in options.items():
        if not isinstance(value, dict):
            if isinstance(value, bool | int | float | str):
                yield ("options", key), str(key), value, list(parsed)
            else:
                wrong.append(Complaint(describe(value), "a choice", None, ("options", key)))
            continue
        own = [name for name, one in parsed.items() if key in (name, one.word)]
        if not own:
            words = list(dict.fromkeys(one.word for one in parsed.values()))
            expected = f"one of the schemes: {', '.join(words)}"
            wrong.append(Complaint(f"'{key}'", expected, nearest(str(key), words), ("options", key)))
        for option, choice in value.items() if own else ():
            yield ("options", key, option), str(option), choice, own


def _text(known: KnownNames, name: str, option: str, value: Any) -> str:
    """A choice as names have it: a word that YAML takes for a truth is the word again."""
    found = known.schemes[name].options[option].read(value)
    return Option.write(found if known.schemes[name].options[option].quantity is None else value)
