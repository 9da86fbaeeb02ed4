"""The flush primitives that rpsim ships: YAML files in this folder, found without a list.

A file has the steps of one published primitive, with its source and the guarantees that it claims. The language is read
by ``models.primitives``.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from ...models.durability.places import Domain
from ...models.durability.rules import Placement
from ...models.primitives.language import Primitive
from ...models.primitives.reader import read_primitive
from ...models.profiles.platform import load_platform, platform_names, platform_settings
from ...sim.errors import InputError, Mistake, nearest, unknown
from ...sim.yaml_source import read_yaml
from ..guarantees import ALWAYS, Condition, misplaced

_SHIPPED: dict[tuple[str, tuple[tuple[str, str], ...]], Primitive] = {}
"""By name and switches: the shipped ones that have been read. Nobody changes one."""


def known_primitives() -> dict[str, Path]:
    """The shipped ones by name."""
    return {path.stem: path for path in sorted(Path(__file__).parent.glob("*.yaml"))}


def primitive(name: str | Path, switches: Mapping[str, str] | None = None) -> Primitive:
    """The shipped primitive of that name, or the one in that file; ``switches`` choose of its options.

    Raises InputError for a name or a file that there is not, and for everything that is wrong with the file.
    """
    text = str(name)
    key = text, tuple(sorted((switches or {}).items()))
    if key in _SHIPPED:
        return _SHIPPED[key]
    known = known_primitives()
    if text in known:
        return _SHIPPED.setdefault(key, _checked(read_primitive(known[text], switches)))
    if "/" in text or text.endswith((".yaml", ".yml")) or Path(text).exists():
        return _checked(read_primitive(Path(name), switches))
    expected = "a file, or a shipped primitive (rpsim list primitives)"
    wrong = unknown(text, known, expected, field="primitive")
    beside = Path(f"{text}.yaml")
    raise InputError(replace(wrong, nearest=str(beside)) if beside.exists() else wrong)


def _checked(found: Primitive) -> Primitive:
    """Its claims are in the vocabulary of guarantees."""
    names = [str(condition) for condition in Condition]
    wrong = [
        unknown(claim, names, "a condition: {}", file=found.file, field="claims")
        for claim in found.claims
        if claim not in names
    ]
    wrong += [
        Mistake(
            f"'{part}'", "always alone, or a domain, a platform, a switch, a device, as in 'adr, ddio off; eadr'",
            found.file, None, f"claims.{condition}", nearest(part, {ALWAYS, *_places()} - {part}),
        )
        for condition, part in misplaced(found.claims, _is_place)
    ]  # fmt: skip
    if wrong:
        written = read_yaml(Path(found.file))
        paths = [tuple((one.field or "").split(".")) for one in wrong]
        raise InputError([replace(one, line=written.line(path)) for one, path in zip(wrong, paths, strict=True)])
    return found


@functools.cache
def _places() -> frozenset[str]:
    """Where a primitive may be claimed, all devices aside: the words that the matrix has for a platform."""
    settings = [one for platform in platform_names() for one in platform_settings(platform).items()]
    switches = {f"{name} {value}" for name, setting in settings for value in setting.values}
    domains, orderings = map(str, Domain.terms), map(str, (Placement.STRICT, Placement.RELAXED))
    return frozenset({*domains, "ddio on", "ddio off", *orderings, *switches, *platform_names()})


def _is_place(part: str) -> bool:
    if part in _places():
        return True
    return any("pm" in one.memory and one.memory["pm"].device == part for one in map(load_platform, platform_names()))
