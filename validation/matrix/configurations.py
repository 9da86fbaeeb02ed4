"""The platforms of a matrix: a profile with its settings chosen, a short label, and the words that claims use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from ...models.durability.rules import Placement
from ...models.profiles.platform import Platform, load_platform, platform_settings
from ...sim.errors import InputError, Mistake, nearest

SERVER, DRIVE = "any-server", "any-pmr"
BARRIERS = {1: "barrier by read", 2: "barrier by PMRSTS", 3: "either barrier"}
_SHORT = {"per_mkey": "", "force_relax": "ro", "optane": "", "dram": "dram"}


@dataclass(frozen=True)
class Configuration:
    """A platform with its settings, and the label that people use: ``adr, ddio off, ro``."""

    platform: str
    settings: tuple[tuple[str, str], ...]
    label: str

    def load(self) -> Platform:
        """The platform with its settings."""
        return load_platform(self.platform, **dict(self.settings))

    def vary(self, **more: str) -> dict[str, list[str]]:
        """The ``vary`` of a scenario that runs on it alone; ``more`` where the platform has the setting."""
        known = platform_settings(self.platform)
        chosen = dict(self.settings) | {key: value for key, value in more.items() if key in known}
        return {"platform": [self.platform], **{key: [value] for key, value in chosen.items()}}

    def words(self) -> str:
        """The words that claims may name: domain, DDIO, ordering, medium, the profile and its settings."""
        platform = self.load()
        pm = platform.memory["pm"]
        ddio = "on" if platform.llc.ddio else "off"
        relaxed = platform.nic.write_ordering == "force_relax"
        ordering = str(Placement.RELAXED if relaxed else Placement.STRICT)
        named = [self.platform, pm.domain, f"ddio {ddio}", ordering, pm.device]
        return ", ".join([*map(str, named), *(f"{key} {value}" for key, value in self.settings)])


def _server(domain: str, ddio: str, ordering: str = "per_mkey", pm: str = "optane") -> Configuration:
    settings = (("domain", domain), ("ddio", ddio), ("ordering", ordering), ("pm", pm))
    label = ", ".join(filter(None, (domain, f"ddio {ddio}", _SHORT[ordering], _SHORT[pm])))
    return Configuration(SERVER, settings, label)


def _drive(pmrwbm: int) -> Configuration:
    return Configuration(DRIVE, (("pmrwbm", str(pmrwbm)),), f"pmr, {BARRIERS[pmrwbm]}")


def usual() -> list[Configuration]:
    """Domain x DDIO, then a battery, relaxed ordering, DRAM and a drive's region, one thing at a time."""
    more = [_server("wsp", "on"), _server("adr", "off", "force_relax"), _server("adr", "off", pm="dram"), _drive(1)]
    return [*quick(), *more]


def quick() -> list[Configuration]:
    """Persistence domains ADR and eADR, each with DDIO on and off."""
    return [_server(domain, ddio) for domain in ("adr", "eadr") for ddio in ("on", "off")]


def methods() -> list[Configuration]:
    """Each domain that survives caches or not, and the battery, with DDIO on and off."""
    return [_server(domain, ddio) for domain in ("adr", "eadr", "wsp") for ddio in ("on", "off")]


def every() -> list[Configuration]:
    """Domain x DDIO x ordering x medium, and the drive's region with each barrier."""
    domains, orderings, media = ("media", "adr", "eadr", "wsp"), ("per_mkey", "force_relax"), ("optane", "dram")
    servers = [_server(*chosen) for chosen in product(domains, ("on", "off"), orderings, media)]
    return [*servers, *(_drive(pmrwbm) for pmrwbm in BARRIERS)]


SETS: Mapping[str, Any] = {"usual": usual, "quick": quick, "methods": methods, "every": every}


def configurations(names: Sequence[str]) -> list[Configuration]:
    """The configurations that a list of names means: a set, labels of :func:`every`, or profiles (DDIO on and off, or
    as in ``optane-adr, ddio on``).

    Raises InputError with the nearest name.
    """
    found: dict[str, Configuration] = {}
    for name in names:
        for one in _named(name):
            found.setdefault(one.label, one)
    return list(found.values())


def configuration(name: str, field: str) -> Configuration:
    """The one configuration that a name means. Raises InputError for a name that means several, and for an unknown one;
    ``field`` is where the name stands.
    """
    try:
        found = configurations([name])
    except InputError as error:
        raise InputError(
            [Mistake(m.found, m.expected, m.file, m.line, field, m.nearest) for m in error.mistakes]
        ) from None
    if len(found) > 1:
        expected = " or ".join(f"'{one.label}'" for one in found)
        raise InputError(Mistake(f"'{name}', which is {len(found)} platforms", expected, field=field))
    return found[0]


def _named(name: str) -> Iterable[Configuration]:
    if name in SETS:
        return list(SETS[name]())
    labels = {one.label: one for one in every()}
    parts = {part.strip() for part in name.split(",")}
    fitting = [one for label, one in labels.items() if parts <= set(label.split(", "))]
    if fitting:
        return [labels[name]] if name in labels else fitting
    platform = name.partition(", ddio ")[0]
    try:
        settings = platform_settings(platform)
    except InputError as error:
        if not name.endswith((".yaml", ".yml")):
            expected = f"{', '.join(SETS)}, a label such as 'adr, ddio on', or a platform (rpsim list platforms)"
            close = nearest(name, [*SETS, *labels]) or error.mistakes[0].nearest
            raise InputError(Mistake(f"'{name}'", expected, field="--platforms", nearest=close)) from None
        raise
    found = profile(platform, "ddio" in settings)
    if platform == name:
        return found
    known = [one.label for one in found]
    if name not in known:
        expected = " or ".join(f"'{one}'" for one in (platform, *known))
        raise InputError(Mistake(f"'{name}'", expected, field="--platforms"))
    return [one for one in found if one.label == name]


def profile(name: str, ddio: bool = True) -> list[Configuration]:
    """A profile, with DDIO on and off if it has that setting."""
    if not ddio:
        return [Configuration(name, (), name)]
    return [Configuration(name, (("ddio", value),), f"{name}, ddio {value}") for value in ("on", "off")]
