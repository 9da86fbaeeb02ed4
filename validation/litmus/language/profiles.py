"""Local names of litmus files: profiles (settings, or a shipped platform), and primitives."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path as FilePath
from typing import Any

from ....models.durability.rules import Placement, Switches
from ....models.primitives.language import Primitive
from ....models.profiles.platform import load_platform, platform_names, platform_settings
from ....protocols.primitives import primitive
from ....sim.errors import InputError, Mistake, nearest
from ....sim.yaml_source import FieldPath, Source, describe, dotted
from .program import LitmusProfile

DOMAINS = ("media", "adr", "eadr", "wsp", "pmr")
SWITCHES = tuple(field.name for field in fields(Switches))
KEYS = ("platform", "domain", "ddio", "nic", "pmrwbm", "line", *SWITCHES)
TRUTHS = {"on": True, "off": False, True: True, False: False}

_CHOICES: dict[str, tuple[Any, ...]] = {
    "domain": DOMAINS,
    "nic": tuple(str(placement) for placement in Placement),
    "pmrwbm": (0, 1, 2, 3),
    "line": ("word", "whole"),
}


def read_profiles(source: Source, data: Any, mistakes: list[Mistake]) -> dict[str, LitmusProfile]:
    """The section ``profiles`` of a file."""
    if data is None:
        return {}
    if not isinstance(data, dict):
        mistakes.append(_mistake(source, ("profiles",), describe(data), "a map from names to settings"))
        return {}
    return {name: _profile(source, name, settings, mistakes) for name, settings in data.items()}


def read_primitives(source: Source, data: Any, mistakes: list[Mistake]) -> dict[str, Primitive]:
    """The section ``primitives``: a local name for a file, or for a primitive with its switches set."""
    if data is None:
        return {}
    if not isinstance(data, dict):
        mistakes.append(_mistake(source, ("primitives",), describe(data), "a map from names to files or primitives"))
        return {}
    found: dict[str, Primitive] = {}
    for name, value in data.items():
        here: FieldPath = ("primitives", name)
        settings = dict(value) if isinstance(value, dict) else {"use": value}
        used = settings.pop("use", None)
        if not isinstance(used, str):
            expected = "a file, a primitive, or a map with use: and switches"
            mistakes.append(_mistake(source, here, describe(value), expected))
            continue
        near = FilePath(source.file).parent / used
        try:
            path: FilePath | str = near if near.suffix and near.exists() else used
            found[str(name)] = primitive(path, {key: str(choice) for key, choice in settings.items()})
        except InputError as error:
            for one in error.mistakes:
                if one.file is None:
                    mistakes.append(_mistake(source, here, one.found, one.expected, one.nearest))
                else:
                    mistakes.append(one)
    return found


def _mistake(source: Source, path: FieldPath, found: str, expected: str, close: str | None = None) -> Mistake:
    return Mistake(found, expected, source.file, source.line(path), dotted(path), close)


def _profile(source: Source, name: str, data: Any, mistakes: list[Mistake]) -> LitmusProfile:
    here: FieldPath = ("profiles", name)
    if not isinstance(data, dict):
        mistakes.append(_mistake(source, here, describe(data), f"a map with {', '.join(KEYS[:6])}"))
        return LitmusProfile(name)
    chosen: dict[str, Any] = {}
    for key, value in data.items():
        path = (*here, key)
        if key not in KEYS:
            expected = f"one of {', '.join(KEYS)}"
            mistakes.append(_mistake(source, path, f"the unknown key '{key}'", expected, nearest(key, KEYS)))
        elif key == "platform":
            if value in platform_names():
                chosen[key] = value
            else:
                expected = f"a shipped platform: {', '.join(platform_names())}"
                close = nearest(str(value), platform_names())
                mistakes.append(_mistake(source, path, describe(value), expected, close))
        elif key in _CHOICES:
            if value in _CHOICES[key] and not isinstance(value, bool):
                chosen[key] = value
            else:
                expected = f"one of {', '.join(map(str, _CHOICES[key]))}"
                close = nearest(str(value), map(str, _CHOICES[key]))
                mistakes.append(_mistake(source, path, describe(value), expected, close))
        elif isinstance(value, bool | str) and value in TRUTHS:
            chosen[key] = TRUTHS[value]
        else:
            mistakes.append(_mistake(source, path, describe(value), "on or off"))
    return _made(name, chosen, lambda text: mistakes.append(_mistake(source, here, *text)))


def _made(name: str, chosen: Mapping[str, Any], complain: Any) -> LitmusProfile:
    """The profile of checked settings, over those of the platform if one is named."""
    switches = {key: value for key, value in chosen.items() if key in SWITCHES}
    values: dict[str, Any] = {}
    if "platform" in chosen:
        base = shipped(chosen["platform"], {key: chosen[key] for key in ("ddio",) if key in chosen})
        values = {"domain": base.domain, "ddio": base.ddio, "whole_lines": base.whole_lines, "platform": base.platform}
        switches = {"iio_wc_survives": base.switches.iio_wc_survives, **switches}
    values |= {key: chosen[key] for key in ("domain", "ddio", "pmrwbm") if key in chosen}
    if "nic" in chosen:
        values["nic"] = Placement(chosen["nic"])
    if "line" in chosen:
        values["whole_lines"] = chosen["line"] == "whole"
    if values.get("pmrwbm") and values.get("domain") != "pmr":
        complain(("pmrwbm on a domain that is no PMR", "domain: pmr"))
    return LitmusProfile(name, **values, switches=Switches(**switches))


def shipped(platform: str, settings: Mapping[str, bool | str], name: str | None = None) -> LitmusProfile:
    """A shipped platform as a profile; raises InputError as ``load_platform`` does."""
    loaded = load_platform(platform, **settings)
    domain = next((memory.domain for memory in loaded.memory.values() if memory.domain in DOMAINS), "media")
    switches = Switches(iio_wc_survives=loaded.iio_wc_survives)
    whole = loaded.line_atomicity == "whole"
    return LitmusProfile(
        name or platform, domain, loaded.llc.ddio, whole_lines=whole, switches=switches, platform=loaded.name
    )


def profile_named(name: str, local: Mapping[str, LitmusProfile]) -> LitmusProfile:
    """A local profile, or a shipped platform with settings: ``optane-adr``, ``optane-adr, ddio off``.

    Raises InputError (without a place) if there is none.
    """
    if name in local:
        return local[name]
    platform, *settings = [part.strip() for part in name.split(",")]
    if platform not in platform_names():
        known = [*local, *platform_names()]
        raise InputError(Mistake(f"'{name}'", f"a profile: {', '.join(known)}", nearest=nearest(name, known)))
    chosen: dict[str, str] = {}
    for setting in settings:
        key, _, value = setting.partition(" ")
        if key not in platform_settings(platform):
            expected = f"a setting of {platform}: {', '.join(platform_settings(platform))}"
            raise InputError(Mistake(f"'{setting}'", expected, nearest=nearest(key, platform_settings(platform))))
        chosen[key] = value.strip()
    return shipped(platform, chosen, name)
