"""Platform profiles as files: which there are, what they extend, which settings they declare.

``extends`` is a profile or a list of profiles and parts (``parts/*.yaml``: an adapter, a processor, a fabric), the
first one lowest; a part states only its component and is no platform by itself.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path as FilePath
from typing import Any

from ...sim.errors import InputError, Mistake, nearest
from ...sim.yaml_source import Source, describe, read_yaml
from .reader import Group, Leaf, group, merge

FOLDER = FilePath(__file__).parents[1] / "platforms"

_HEAD = ("platform", "title", "description", "extends", "settings")


@dataclass(frozen=True, slots=True)
class ProfileSetting:
    """A switch of a profile: the parameter it sets and the values it has."""

    name: str
    sets: str
    values: tuple[str, ...]
    default: str
    source: str


@dataclass(frozen=True)
class ProfileFile:
    """A file and those it extends, put over each other, not yet checked."""

    source: Source
    name: str
    title: str
    description: str
    settings: Mapping[str, Leaf]
    tree: Group
    extends: tuple[str, ...] = ()
    """The profiles and parts that it is put over, the first one lowest."""

    def over(self, other: ProfileFile) -> ProfileFile:
        """This one's values and settings over another's."""
        return replace(self, tree=merge(other.tree, self.tree), settings=dict(other.settings) | dict(self.settings))

    def declared(self, mistakes: list[Mistake]) -> dict[str, ProfileSetting]:
        """The settings by name; what is wrong with them goes to ``mistakes``."""
        settings: dict[str, ProfileSetting] = {}
        for name, leaf in self.settings.items():
            data = leaf.data if isinstance(leaf.data, dict) else {}
            sets, values, default, source = (data.get(key) for key in ("sets", "values", "default", "source"))
            words = tuple(_word(value) for value in values) if isinstance(values, list) else ()
            if not isinstance(sets, str) or not words or _word(default) not in words or not isinstance(source, str):
                expected = "{sets: group.key, values: [two, or more], default: one of them, source: text}"
                mistakes.append(leaf.mistake(describe(leaf.data), expected))
            else:
                settings[name] = ProfileSetting(name, sets, words, _word(default), source)
        return settings

    def put(self, setting: ProfileSetting, value: str, mistakes: list[Mistake]) -> None:
        """Put the setting's value where it belongs in the tree, with the setting's own source."""
        leaf = self.settings[setting.name]
        *groups, key = setting.sets.split(".")
        at: Group | Leaf | None = self.tree
        for name in groups:
            at = at.parts.get(name) if isinstance(at, Group) else None
        if not isinstance(at, Group):
            mistakes.append(leaf.mistake(f"'{setting.sets}'", "the path of a parameter, as in llc.ddio", "sets"))
            return
        data = {"value": int(value) if value.isdigit() else value, "source": setting.source}
        old = at.parts.get(key)
        if isinstance(old, Leaf) and isinstance(old.data, dict) and "range" in old.data:
            data["range"] = old.data["range"]
        at.parts[key] = Leaf(data, leaf.origin, (*groups, key), written=leaf.path)


def profile_names() -> list[str]:
    """The shipped profiles."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def part_names() -> list[str]:
    """The shipped parts, as ``extends`` names them: ``parts/connectx-3``."""
    return sorted(f"parts/{path.stem}" for path in (FOLDER / "parts").glob("*.yaml"))


def read_profile(name: str) -> ProfileFile:
    """A shipped profile by name, or the file at a path, and what it extends. Raises InputError."""
    return _read(name, None, ())


def _read(name: str, extended_by: _Asked | None, chain: tuple[str, ...]) -> ProfileFile:
    path = _find(name, extended_by)
    place = os.path.abspath(path)  # unlike resolve() it does not mind what is no path; read_yaml tells
    if place in chain and extended_by is not None:
        raise InputError(extended_by.mistake(f"'{name}', which extends this file", "a profile that ends"))
    source = read_yaml(path)
    data = source.mapping("a map with platform, title and the hardware's groups")
    mistakes = [
        Mistake(describe(data.get(key)), what, source.file, source.line((key,)), key)
        for key, what in (("platform", "the profile's name"), ("title", "what it is, in one line"))
        if not isinstance(data.get(key), str)
    ]
    description, settings = data.get("description", ""), data.get("settings", {})
    if not isinstance(settings, dict):
        expected = "a map of settings, as in {ddio: {sets: llc.ddio, ...}}"
        mistakes.append(Mistake(describe(settings), expected, source.file, source.line(("settings",)), "settings"))
    if mistakes:
        raise InputError(mistakes)
    own_settings = {key: Leaf(value, source, ("settings", key)) for key, value in settings.items()}
    tree = group({key: value for key, value in data.items() if key not in _HEAD}, source)
    bases = _bases(data)
    below: ProfileFile | None = None
    for name_of_base in bases:
        base = _read(name_of_base, _Asked(source, path), (*chain, place))
        below = base if below is None else base.over(below)
    if below is not None:
        tree = merge(below.tree, tree)
        own_settings = dict(below.settings) | own_settings
    text = " ".join(str(description).split())
    return ProfileFile(source, data["platform"], data["title"], text, own_settings, tree, bases)


def _bases(data: Mapping[str, Any]) -> tuple[str, ...]:
    """What a profile extends, in the order in which it is put over one another: one name, or a list of them."""
    names = data.get("extends", [])
    return tuple(str(name) for name in names) if isinstance(names, list) else (str(names),)


@dataclass(frozen=True)
class _Asked:
    """The file whose ``extends`` asks for another."""

    source: Source
    path: FilePath

    def mistake(self, found: str, expected: str, close: str | None = None) -> Mistake:
        return Mistake(found, expected, self.source.file, self.source.line(("extends",)), "extends", close)


def _find(name: str, extended_by: _Asked | None) -> FilePath:
    if extended_by and name in part_names():
        return FOLDER / f"{name}.yaml"
    if name.endswith((".yaml", ".yml")) or "/" in name:
        return extended_by.path.parent / name if extended_by else FilePath(name)
    names = profile_names()
    if name in names:
        return FOLDER / f"{name}.yaml"
    found, expected = f"the unknown platform '{name}'", f"one of {', '.join(names)}, or the path of a YAML file"
    close = nearest(name, [*names, *part_names()] if extended_by else names)
    if extended_by:
        raise InputError(extended_by.mistake(found, expected, close))
    raise InputError(Mistake(found, expected, nearest=close))


def _word(value: Any) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)
