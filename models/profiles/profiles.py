"""Platform profiles as files: their names, the profiles they extend, the settings they declare.

``extends`` is a profile or a list of profiles and parts (``parts/*.yaml``: an adapter, a processor, a fabric), the
first one lowest; a part states only its component and is no platform by itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path as FilePath
from typing import Any

from ...sim.cursor import Cursor, Gathered
from ...sim.errors import InputError, Mistake, listed, nearest
from ...sim.yaml_source import read_yaml
from .reader import Group, group, merge

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

    at: Cursor
    """The file; mistakes in those it extends are gathered with its own."""
    name: str
    title: str
    description: str
    settings: Mapping[str, Cursor]
    tree: Group
    extends: tuple[str, ...] = ()
    """The profiles and parts that it is put over, the first one lowest."""
    stated: Mapping[str, str] = field(default_factory=dict)
    """By setting: the value that a file over the one that declares it states for its parameter, in place of the
    default."""

    def over(self, other: ProfileFile) -> ProfileFile:
        """This one's values and settings over another's."""
        inherited = {name: at for name, at in other.settings.items() if name not in self.settings}
        stated = {name: other.stated[name] for name in inherited if name in other.stated}
        for name, at in inherited.items():
            value = _leaf(self.tree, at["sets"].data)
            if value is not None:
                stated[name] = _word(value)
        return replace(
            self,
            tree=merge(other.tree, self.tree),
            settings=dict(other.settings) | dict(self.settings),
            stated=stated | dict(self.stated),
        )

    def declared(self) -> dict[str, ProfileSetting]:
        """The settings by name, without the ones with a mistake."""
        settings: dict[str, ProfileSetting] = {}
        for name, at in self.settings.items():
            sets, values, default, source = (at[key].data for key in ("sets", "values", "default", "source"))
            words = tuple(_word(value) for value in values) if isinstance(values, list) else ()
            if not isinstance(sets, str) or not words or "default" not in at or not isinstance(source, str):
                at.wrong("{sets: group.key, values: [two, or more], default: one of them, source: text}")
            elif _word(default) not in words:
                at["default"].wrong(f"one of {', '.join(words)}", close=nearest(_word(default), words))
            else:
                settings[name] = ProfileSetting(name, sets, words, _word(default), source)
        return settings

    def choices(self, settings: Iterable[ProfileSetting]) -> dict[str, list[tuple[Any, Cursor]]]:
        """By the path of a parameter: every value that these settings may give it, and where the file names it."""
        choices: dict[str, list[tuple[Any, Cursor]]] = {}
        for setting in settings:
            named = [(_data(value), self.settings[setting.name]["values"]) for value in setting.values]
            choices.setdefault(setting.sets, []).extend(named)
        return choices

    def put(self, setting: ProfileSetting, value: str) -> None:
        """Put the setting's value where it belongs in the tree, with the setting's own source."""
        written = self.settings[setting.name]
        *groups, key = setting.sets.split(".")
        part: Group | Cursor | None = self.tree
        for name in groups:
            part = part.parts.get(name) if isinstance(part, Group) else None
        if isinstance(part, Cursor):
            return  # no map, which is a mistake of its own
        if not isinstance(part, Group):
            written["sets"].wrong("the path of a parameter, as in llc.ddio", f"'{setting.sets}'")
            return
        data = {"value": _data(value), "source": setting.source}
        old = part.parts.get(key)
        if isinstance(old, Cursor) and "range" in old:
            data["range"] = old.data["range"]
        part.parts[key] = replace(written, data=data, path=(*groups, key), written=written.path)


def profile_names() -> list[str]:
    """The names of the shipped profiles."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def part_names() -> list[str]:
    """The shipped parts, as ``extends`` names them: ``parts/connectx-3``."""
    return sorted(f"parts/{path.stem}" for path in (FOLDER / "parts").glob("*.yaml"))


def read_profile(name: str) -> ProfileFile:
    """A shipped profile by name, or the file at a path, over the profiles that it extends. Raises InputError."""
    return _read(name, None, (), Gathered())


def _read(name: str, extends: Cursor | None, chain: tuple[FilePath, ...], mistakes: Gathered) -> ProfileFile:
    """The file that ``extends``, a field of the last file of ``chain``, names."""
    path = _find(name, extends, chain[-1].parent if chain else FilePath())
    # Unlike resolve() abspath() does not mind text that is no path; read_yaml reports it.
    if extends is not None and os.path.abspath(path) in map(os.path.abspath, chain):
        extends.wrong("a profile that ends", f"'{name}', which extends this file")
        extends.finish()
    at = Cursor.over(read_yaml(path), "a map with platform, title and the hardware's groups", mistakes)
    own_name, title = at["platform"].text("the profile's name"), at["title"].text("what it is, in one line")
    settings = at.get("settings", {}).fields("a map of settings, as in {ddio: {sets: llc.ddio, ...}}")
    at.finish()
    tree, bases = group(at, _HEAD), _bases(at.data)
    below: ProfileFile | None = None
    for name_of_base in bases:
        base = _read(name_of_base, at["extends"], (*chain, path), mistakes)
        below = base if below is None else base.over(below)
    description = " ".join(str(at.get("description", "").data).split())
    own = ProfileFile(at, own_name, title, description, settings, tree, bases)
    return own if below is None else own.over(below)


def _leaf(tree: Group, path: Any) -> Any:
    """The value that a tree states at a dotted path; None if it states none."""
    part: Group | Cursor | None = tree
    for name in str(path).split("."):
        part = part.parts.get(name) if isinstance(part, Group) else None
    return part.data.get("value") if isinstance(part, Cursor) and isinstance(part.data, Mapping) else None


def _bases(data: Mapping[str, Any]) -> tuple[str, ...]:
    """The profiles and parts that a profile extends, in the order in which they are laid over one another."""
    names = data.get("extends", [])
    return tuple(str(name) for name in names) if isinstance(names, list) else (str(names),)


def _find(name: str, extends: Cursor | None, folder: FilePath) -> FilePath:
    if extends is not None and name in part_names():
        return FOLDER / f"{name}.yaml"
    if name.endswith((".yaml", ".yml")) or "/" in name:
        return folder / name
    names = profile_names()
    if name in names:
        return FOLDER / f"{name}.yaml"
    found, expected = (
        f"the unknown platform '{name}'",
        f"one of {listed(name, names, 'rpsim list platforms')}, or the path of a YAML file",
    )
    if extends is None:
        raise InputError(Mistake(found, expected, nearest=nearest(name, names)))
    extends.wrong(expected, found, nearest(name, [*names, *part_names()]))
    raise InputError(extends.mistakes)


def _data(word: str) -> int | str:
    """The value of a parameter that the word of a setting stands for."""
    return int(word) if word.isdigit() else word


def _word(value: Any) -> str:
    return ("on" if value else "off") if isinstance(value, bool) else str(value)
