"""Which profile has the machines of a paper: found in the profiles themselves, whose descriptions name their paper."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ...models.profiles.platform import load_platform, platform_names
from ...models.profiles.profiles import read_profile
from ...protocols.scheme import Scheme


def testbed(paper: str) -> str | None:
    """The shipped ``...-testbed`` whose description names the paper (``Du et al., ICPP'21``); None if there is none."""
    wanted = _words(paper)
    for name in platform_names():
        if name.endswith("-testbed") and wanted and wanted in _words(read_profile(name).description):
            return name
    return None


def fits(kind: type[Scheme], platform: str) -> bool:
    """Whether the platform has all the memory devices that the scheme's roles need."""
    devices = load_platform(platform).memory
    return all(device in devices for role in kind.role_types.values() for device in role.memory)


def fitting(kind: type[Scheme], wanted: Iterable[str]) -> list[str]:
    """Those of the platforms that have the scheme's memory; where none has, all shipped ones that do."""
    return [name for name in wanted if fits(kind, name)] or [name for name in platform_names() if fits(kind, name)]


def _words(text: str) -> str:
    return " ".join(re.findall(r"[\w']+", text)).lower()
