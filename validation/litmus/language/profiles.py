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
from ....sim.cursor import Cursor
from ....sim.errors import InputError, Mistake, nearest, unknown
from .program import LitmusProfile

DOMAINS = ("media", "adr", "eadr", "wsp", "pmr")
SWITCHES = tuple(field.name for field in fields(Switches))
KEYS = ("platform", "domain", "ddio", "nic", "data_in_order", "pmrwbm", "line", *SWITCHES)
TRUTHS = {"on": True, "off": False, True: True, False: False}

_CHOICES: dict[str, tuple[Any, ...]] = {
    "domain": DOMAINS,
    "nic": tuple(str(placement) for placement in Placement),
    "data_in_order": ("whole message", "128 B", "none"),
    "pmrwbm": (0, 1, 2, 3),
    "line": ("word", "whole"),
}


def read_profiles(at: Cursor) -> dict[str, LitmusProfile]:
    """The section ``profiles`` of a file."""
    given = {} if at.data is None else at.fields("a map from names to settings")
    return {name: _profile(name, settings) for name, settings in given.items()}


def read_primitives(at: Cursor) -> dict[str, Primitive]:
    """The section ``primitives``: a local name for a file, or for a primitive with its switches set."""
    found: dict[str, Primitive] = {}
    for name, value in ({} if at.data is None else at.fields("a map from names to files or primitives")).items():
        settings = dict(value.data) if isinstance(value.data, dict) else {"use": value.data}
        used = settings.pop("use", None)
        if not isinstance(used, str):
            value.wrong("a file, a primitive, or a map with use: and switches")
            continue
        near = FilePath(at.source.file).parent / used
        try:
            path: FilePath | str = near if near.suffix and near.exists() else used
            found[name] = primitive(path, {key: str(choice) for key, choice in settings.items()})
        except InputError as error:
            value.adopt(error)
    return found


def _profile(name: str, at: Cursor) -> LitmusProfile:
    if not at.is_map(f"a map with {', '.join(KEYS[:7])}"):
        return LitmusProfile(name)
    at.keys(KEYS)
    chosen: dict[str, Any] = {}
    for key in [key for key in KEYS if key in at]:
        value = at[key]
        if key == "platform":
            chosen[key] = value.choice(platform_names(), "a shipped platform: {}")
        elif key in _CHOICES:
            chosen[key] = value.choice(_CHOICES[key])
        elif isinstance(value.data, bool | str) and value.data in TRUTHS:
            chosen[key] = TRUTHS[value.data]
        else:
            value.wrong("on or off")
        if not value.sound():
            chosen.pop(key, None)
    return _made(name, chosen, at)


def _made(name: str, chosen: Mapping[str, Any], at: Cursor) -> LitmusProfile:
    """The profile of checked settings, over those of the platform if one is named."""
    switches = {key: value for key, value in chosen.items() if key in SWITCHES}
    values: dict[str, Any] = {}
    if "platform" in chosen:
        base = shipped(chosen["platform"], {key: chosen[key] for key in ("ddio",) if key in chosen})
        values = {"domain": base.domain, "ddio": base.ddio, "whole_lines": base.whole_lines, "platform": base.platform}
        switches = {"iio_wc_survives": base.switches.iio_wc_survives, **switches}
    values |= {key: chosen[key] for key in ("domain", "ddio", "data_in_order", "pmrwbm") if key in chosen}
    if "nic" in chosen:
        values["nic"] = Placement(chosen["nic"])
    if "line" in chosen:
        values["whole_lines"] = chosen["line"] == "whole"
    if values.get("pmrwbm") and values.get("domain") != "pmr":
        at.wrong("domain: pmr", "pmrwbm on a domain that is no PMR")
    if values.get("data_in_order") and values.get("nic", Placement.STRICT) is not Placement.STRICT:
        at.wrong("nic: strict", "data_in_order of regions or queue pairs that keep no order")
    return LitmusProfile(name, **values, switches=Switches(**switches))


def shipped(platform: str, settings: Mapping[str, bool | str], name: str | None = None) -> LitmusProfile:
    """A shipped platform as a profile; raises InputError as ``load_platform`` does."""
    loaded = load_platform(platform, **settings)
    domain = next((memory.domain for memory in loaded.memory.values() if memory.domain in DOMAINS), "media")
    switches = Switches(iio_wc_survives=loaded.iio_wc_survives)
    whole = loaded.line_atomicity == "whole"
    in_order = settings.get("data_in_order")
    return LitmusProfile(
        name or platform,
        domain,
        loaded.llc.ddio,
        data_in_order=None if in_order is None else str(in_order),
        whole_lines=whole,
        switches=switches,
        platform=loaded.name,
    )


def profile_named(name: str, local: Mapping[str, LitmusProfile]) -> LitmusProfile:
    """A local profile, or a shipped platform with settings: ``optane-adr``, ``optane-adr, ddio off``.

    Raises InputError (without a place) if there is none.
    """
    if name in local:
        return local[name]
    platform, *settings = [part.strip() for part in name.split(",")]
    if platform not in platform_names():
        raise InputError(unknown(name, [*local, *platform_names()], "a profile: {}"))
    chosen: dict[str, str] = {}
    for setting in settings:
        key, _, value = setting.partition(" ")
        if key not in platform_settings(platform):
            expected = f"a setting of {platform}: {', '.join(platform_settings(platform))}"
            raise InputError(Mistake(f"'{setting}'", expected, nearest=nearest(key, platform_settings(platform))))
        chosen[key] = value.strip()
    return shipped(platform, chosen, name)
