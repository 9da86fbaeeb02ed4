"""Where a seeded fault is tried: platforms with their switches, and what those are for a scheme."""

from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import override

from ...models.profiles.platform import platform_settings
from ...protocols.scheme import Scheme
from ..matrix import structures
from ..matrix.testbeds import fits, fitting, testbed

DOMAIN = "domain"
WSP = "wsp"


@dataclass(frozen=True)
class Place:
    """A platform with its DDIO; without a ``platform``, the machines of the scheme's paper in the ``domain``."""

    platform: str = ""
    ddio: str = "on"
    domain: str = ""

    @override
    def __str__(self) -> str:
        return f"{self.platform}, ddio {self.ddio}" if self.platform else f"its testbed, {DOMAIN} {self.domain}"

    def has(self, scheme: type[Scheme], *, long: bool = False) -> bool:
        """Whether a scheme is tried there: where its memory is, or in the place of the first one that has it; on the
        machines of its paper if their domain may be that. In ``long`` runs it is tried there alone, since elsewhere it
        loses so much that most images are of what it does not keep, unless a primitive of choice keeps it.
        """
        if self.platform:
            elsewhere = not long or scheme.over is not None or not TESTBED.has(scheme)
            return elsewhere and (fits(scheme, self.platform) or self == ADR)
        name = testbed(scheme.paper)
        known = None if name is None or not fits(scheme, name) else platform_settings(name).get(DOMAIN)
        return known is not None and self.domain in known.values

    def settings(self, scheme: type[Scheme]) -> dict[str, str]:
        """What is set there for a scheme: the ``platform`` and its switches.

        Lines tear as wholes where a log's records have checksums, as in the matrix (``structures.logged``).
        """
        name = fitting(scheme, [self.platform])[0] if self.platform else testbed(scheme.paper)
        assert name is not None, f"{scheme.name} is tried on a testbed that it has not"
        asked = {"ddio": self.ddio, DOMAIN: self.domain, "line_atomicity": "whole" if structures.logged(scheme) else ""}
        known = platform_settings(name)
        return {"platform": name} | {key: value for key, value in asked.items() if value and key in known}


ADR, EADR = Place("optane-adr"), Place("optane-eadr")
"""Of these the first one is where whoever needs other memory is tried, on a platform that has it, and nowhere else."""
AWAY = Place("optane-adr", "off")
"""DDIO off: what an adapter brings goes to the memory, not to a cache."""
TESTBED = Place(domain=WSP)
"""All that the adapter has accepted lasts: the premise of papers whose testbed may have this domain. A plain WRITE that
was acknowledged is lost on the other platforms, so that nothing of such a scheme is kept there.
"""


def usual_place(scheme: type[Scheme], otherwise: Place = ADR) -> Place:
    """Where each instant is a run of its own, a scheme is tried in one place: its testbed if that keeps what an adapter
    has accepted.
    """
    return TESTBED if TESTBED.has(scheme) else otherwise
