"""Which profile has the machines of a paper: found in the profiles themselves, whose descriptions name their paper."""

from __future__ import annotations

import re

from ...models.profiles.platform import platform_names
from ...models.profiles.profiles import read_profile


def testbed(paper: str) -> str | None:
    """The shipped ``...-testbed`` whose description names the paper (``Du et al., ICPP'21``); None if there is none."""
    wanted = _words(paper)
    for name in platform_names():
        if name.endswith("-testbed") and wanted and wanted in _words(read_profile(name).description):
            return name
    return None


def _words(text: str) -> str:
    return " ".join(re.findall(r"[\w']+", text)).lower()
