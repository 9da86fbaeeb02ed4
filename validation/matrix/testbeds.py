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
    """Whether the platform has all the memory devices, and states all the costs of software, of the scheme's roles."""
    found = load_platform(platform)
    return all(
        needed in known
        for role in kind.role_types.values()
        for known, all_needed in ((found.memory, role.memory), (found.cpu.software, role.software))
        for needed in all_needed
    )


def fitting(kind: type[Scheme], wanted: Iterable[str]) -> list[str]:
    """Those of the platforms that have what the scheme needs; where none has, all shipped ones that do."""
    return [name for name in wanted if fits(kind, name)] or [name for name in platform_names() if fits(kind, name)]


def _words(text: str) -> str:
    return " ".join(re.findall(r"[\w']+", text)).lower()
