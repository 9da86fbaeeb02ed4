"""Which scheme a name stands for: one that is listed, one of a user's own file, or one put together of parts."""

from __future__ import annotations

import functools
import importlib
import pkgutil
import re
from dataclasses import replace
from typing import Any, cast

from ..sim.errors import InputError, Mistake, listed, nearest
from .naming import Mode
from .naming.names import NamePart, ParsedName, parse_name, place
from .naming.options import Option, chosen_of
from .naming.own import LOADED, error_of, example_of, load_file
from .primitives import primitive
from .scheme import ANY_PRIMITIVE, Scheme


def schemes() -> dict[str, type[Scheme]]:
    """Every shipped scheme whose name is complete, without those that are parts of systems.

    Importing this folder's modules and packages registers them.
    """
    return {name: kind for name, kind in _shipped() if kind.complete() and not kind.is_part}


def structures() -> dict[str, type[Scheme]]:
    """The shipped systems that are half a scheme: each goes ``on`` a mode (:func:`modes_of`)."""
    return {name: kind for name, kind in _shipped() if kind.on is not None and not kind.complete()}


def parts() -> dict[str, type[Scheme]]:
    """The shipped parts of systems that can be run alone."""
    return {name: kind for name, kind in _shipped() if kind.is_part and kind.complete()}


def modes_of(kind: type[Scheme]) -> dict[str, type[Mode]]:
    """The modes of the family that a system goes on; a mode may still refuse it."""
    assert kind.on is not None
    return {name: mode for name, mode in sorted(Mode.registry.items()) if issubclass(mode, kind.on)}


def modes() -> dict[str, type[Mode]]:
    """All shipped modes of the shipped structures."""
    found = {name: mode for kind in structures().values() for name, mode in modes_of(kind).items()}
    return {name: mode for name, mode in found.items() if is_shipped(mode)}


def is_shipped(kind: type[Scheme] | type[Mode]) -> bool:
    """Whether a scheme or a mode stands in this folder, and not in a file of a user's own, or in a test."""
    return kind.__module__.startswith(f"{__package__}.") and kind.__module__ not in LOADED


def _shipped() -> list[tuple[str, type[Scheme]]]:
    """What is registered and shipped, by its name."""
    _find_schemes()
    return [(name, kind) for name, kind in sorted(Scheme.registry.items()) if is_shipped(kind)]


def going_on(kind: type[Scheme]) -> dict[str, type[Scheme]]:
    """By shipped mode: the scheme that a system makes with it, for those on which it goes."""
    found = {}
    for mode in (name for name, one in modes_of(kind).items() if is_shipped(one)):
        try:
            found[mode] = scheme(f"{kind.name} on {mode}")
        except InputError:
            continue
    return found


@functools.cache
def _find_schemes() -> None:
    """Import what is in this folder: once, since a fault that is executed asks for its scheme at every instant."""
    package = importlib.import_module(__package__ or "rpsim.protocols")
    for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
        importlib.import_module(module.name)


def scheme(name: str) -> type[Scheme]:
    """The scheme that a name stands for, in the grammar of :mod:`rpsim.protocols.naming.names`.

    A name with options, a mode or a primitive stands for a class of its own, made anew and not registered. Raises
    InputError with the nearest known name and the position of a wrong part.
    """
    known = schemes()
    parsed = parse_name(name)
    kind = known[name] if name in known else _system(parsed, name)
    return kind if parsed.plain and kind.complete() else _composed(kind, parsed, name)


def small_options(kind: type[Scheme] | type[Mode]) -> dict[str, str]:
    """The options that a scheme, or a mode, declares for small runs and that its name leaves open."""
    declared = {name: one.small for name, one in kind.options.items() if name not in kind.chosen}
    return {name: Option.write(value) for name, value in declared.items() if value is not None}


def small(kind: type[Scheme]) -> type[Scheme]:
    """A scheme as small runs have it, in which what is rare otherwise comes."""
    chosen = small_options(kind)
    mode = getattr(kind, "mode", None)
    chosen_of_mode = {} if mode is None else small_options(mode)
    if not chosen and not chosen_of_mode:
        return kind
    parsed = parse_name(kind.name)
    system = replace(parsed.system, options={**parsed.system.options, **chosen})
    on = parsed.mode and replace(parsed.mode, options={**parsed.mode.options, **chosen_of_mode})
    return scheme(str(replace(parsed, system=system, mode=on)))


def is_more_than_listed(name: str) -> bool:
    """Whether a name may stand for a scheme that :func:`schemes` does not list, or says less than a whole name."""
    if not re.fullmatch(r"[\w-]+", name):
        return True
    found = Scheme.registry.get(name)
    if found is None:
        return example_of(name) is not None
    return not found.complete() or found.is_part or not is_shipped(found)


def _system(parsed: ParsedName, name: str) -> type[Scheme]:
    """The scheme that the first part of a name says."""
    word = parsed.word
    if parsed.file is not None:
        module = load_file(parsed.file)
        own = {kind.name: kind for kind in Scheme.registry.values() if kind.__module__ == module.__name__}
        if not word and len(own) == 1:
            word = next(iter(own))
    else:
        if word not in Scheme.registry and (example := example_of(word)) is not None:
            load_file(example)
        own = Scheme.registry
    if word not in own:
        at = parsed.system.at + len(parsed.system.word) - len(word)  # behind the path of its file
        where = place(name, word, at) if word else f"'{name}', which has {len(own)} schemes"
        command = "" if parsed.file is not None else "rpsim list schemes, also structures and parts"
        expected = f"a scheme: {listed(word, sorted(own), command) or 'the file has none'}"
        raise InputError(Mistake(where, expected, field="scheme", nearest=nearest(word, own)))
    found = own[word]
    if found.__module__ in LOADED and found.complete() and (missing := found.missing()):
        raise error_of(found, f"no {', no '.join(missing)}", "all that a scheme has to have (docs/adding.md)")
    return found


def _composed(kind: type[Scheme], parsed: ParsedName, name: str) -> type[Scheme]:
    """The scheme with the options, on the mode and over the primitive that a name says."""
    if parsed.primitive is not None and kind.over_primitive is not None:
        kind = kind.over_primitive
    system, title = parsed.system, kind.title
    made: dict[str, Any] = {"__module__": kind.__module__, "__doc__": kind.__doc__, "name": str(parsed)}
    made["chosen"] = {**kind.chosen, **chosen_of(kind.name, kind.options, system.options, name, system.at)}
    if (part := _part_of(kind.name, "on", parsed.mode, kind.on is not None, kind.on is not None, name)) is not None:
        mode = _mode(kind, part, name)
        made |= {"mode": mode, "claims": {**kind.claims, **mode.claims}}
        title = f"{title}, on {mode.title}"
    wanted = kind.over == ANY_PRIMITIVE
    if (part := _part_of(kind.name, "over", parsed.primitive, kind.over is not None, wanted, name)) is not None:
        try:
            made["primitive"] = primitive(part.word, part.options)
        except InputError as error:
            raise InputError(
                [m if m.file else replace(m, found=place(name, part.word, part.at)) if part.word in m.found else m
                 for m in error.mistakes]
            ) from None  # fmt: skip
        made["over"] = str(part)
        title = f"{title}, over {made['primitive'].title}"
    found = cast("type[Scheme]", type(kind.__name__, (kind,), {**made, "title": title}))
    found.composed()
    return found


def _part_of(system: str, word: str, part: NamePart | None, possible: bool, wanted: bool, name: str) -> NamePart | None:
    """The part behind ``on`` or ``over``, if there is one; it has to be possible, and there where it is wanted."""
    what = {"on": "a mode", "over": "a primitive"}[word]
    if part is not None and not possible:
        raise InputError(
            Mistake(place(name, part.word, part.at), f"no '{word}': {system} goes {word} none", field="scheme")
        )
    if part is None and wanted:
        raise InputError(Mistake(f"'{name}'", f"'{system} {word}' and {what}", field="scheme"))
    return part


def _mode(kind: type[Scheme], part: NamePart, name: str) -> type[Mode]:
    """The mode that a name says, with its options chosen."""
    modes = modes_of(kind)
    if part.word not in modes:
        expected = f"a mode of {kind.name}: {listed(part.word, modes, 'rpsim list modes')}"
        found = place(name, part.word, part.at)
        raise InputError(Mistake(found, expected, field="scheme", nearest=nearest(part.word, modes)))
    mode = modes[part.word]
    chosen = chosen_of(mode.name, mode.options, part.options, name, part.at)
    return type(mode.__name__, (mode,), {"chosen": chosen, "name": str(part), "__module__": mode.__module__})
