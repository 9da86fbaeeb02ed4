"""The names of a scenario's schemes with its ``options:`` in them, as everything after the file's reading has them.

``options: {replicas: 2}`` goes to every scheme that has the option, or whose mode has it; ``options: {clover:
{replicas: 2}}`` to one scheme, ``options: {rnvm-rcb: {batch: 64}}`` to what is on that mode.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from ...protocols.naming import Option
from ...protocols.naming.names import NamePart, ParsedName, parse_name
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
        declared = {name: {**known.schemes[name].mode_options, **known.schemes[name].options} for name in schemes}
        having = [name for name in schemes if option in declared[name]]
        if not having and len(parsed) == len(named(data)):
            known_options = sorted({one for name in schemes for one in declared[name]})
            expected = f"an option of {', '.join(schemes)}: {', '.join(known_options) or 'none has any'}"
            wrong.append(Complaint(f"'{option}'", expected, nearest(option, known_options), path))
        for name in having:
            one, text = declared[name][option], Option.write(value)
            part = "system" if option in known.schemes[name].options else "mode"
            owner: NamePart = getattr(parsed[name], part)
            if option in owner.options and owner.options[option] != text:
                found = f"{option}={text} beside '{name}'"
                wrong.append(Complaint(found, "the option here or in the name", None, path))
            try:
                one.read(value)
            except ValueError as error:
                close = nearest(text, one.choices)
                wrong.append(Complaint(describe(value), f"{error} for the option '{option}' of {name}", close, path))
                continue
            chosen = replace(owner, options={**owner.options, option: _text(one, value)})
            parsed[name] = replace(parsed[name], **{part: chosen})
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
        own = [name for name, one in parsed.items() if key in (name, *_words(one))]
        if not own:
            words = list(dict.fromkeys(word for one in parsed.values() for word in _words(one)))
            expected = f"one of the schemes: {', '.join(words)}"
            wrong.append(Complaint(f"'{key}'", expected, nearest(str(key), words), ("options", key)))
        for option, choice in value.items() if own else ():
            yield ("options", key, option), str(option), choice, own


def _words(name: ParsedName) -> list[str]:
    """The words that options may be for: the system's, and the mode's."""
    return [name.word, *([name.mode.word] if name.mode is not None else [])]


def _text(option: Option, value: Any) -> str:
    """A choice as names have it: a word that YAML takes for a truth is the word again."""
    return Option.write(option.read(value) if option.quantity is None else value)
