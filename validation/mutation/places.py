"""Where a seeded fault is tried: platforms with their switches, and what those are for a scheme."""

from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import override

from ...models.profiles.platform import platform_settings
from ...protocols.scheme import Scheme
from ..matrix import structures
from ..matrix.guarantees import machines
from ..matrix.testbeds import fits, fitting, testbed

DOMAIN, WSP = "domain", "wsp"
ANY = "any-server"
"""The platform that may have any domain."""


def premise(scheme: type[Scheme]) -> str | None:
    """The machines of its paper, if all that their adapters have accepted may last; else None.

    That is what such papers presume. On other platforms a plain WRITE that was acknowledged is lost, so that nothing of
    the scheme is kept there.
    """
    name = testbed(scheme.paper)
    if name is None or not fits(scheme, name) or DOMAIN not in platform_settings(name):
        return None
    return name if WSP in platform_settings(name)[DOMAIN].values else None


@dataclass(frozen=True)
class Place:
    """A platform with its DDIO; without a ``platform``, one in which all that an adapter has accepted lasts."""

    platform: str = ""
    ddio: str = "on"

    @override
    def __str__(self) -> str:
        return f"{self.platform}, ddio {self.ddio}" if self.platform else f"{DOMAIN} {WSP}"

    def has(self, scheme: type[Scheme], *, long: bool = False) -> bool:
        """Whether a scheme is tried there: where its memory is, or in the place of the first one that has it.

        Where all that is accepted lasts, a scheme is tried whose paper presumes that, or which has several machines. In
        ``long`` runs the former is tried there alone, unless a primitive of choice keeps what it writes: elsewhere it
        loses so much that most images are of what it does not keep.
        """
        if not self.platform:
            return premise(scheme) is not None or (machines(scheme) > 1 and fits(scheme, ANY))
        if long and scheme.over is None and premise(scheme) is not None:
            return False
        return fits(scheme, self.platform) or self == ADR

    def settings(self, scheme: type[Scheme]) -> dict[str, str]:
        """What is set there for a scheme: the ``platform`` and its switches.

        Lines tear as wholes where a log's records have checksums, as in the matrix (``structures.logged``).
        """
        name = fitting(scheme, [self.platform])[0] if self.platform else premise(scheme) or ANY
        asked = {"ddio": self.ddio, DOMAIN: "" if self.platform else WSP}
        asked["line_atomicity"] = "whole" if structures.logged(scheme) else ""
        known = platform_settings(name)
        return {"platform": name} | {key: value for key, value in asked.items() if value and key in known}


ADR, EADR = Place("optane-adr"), Place("optane-eadr")
"""Of these the first one is where whoever needs other memory is tried, on a platform that has it, and nowhere else."""
AWAY = Place("optane-adr", "off")
"""DDIO off: what an adapter brings goes to the memory, not to a cache."""
ACCEPTED = Place()
"""All that an adapter has accepted lasts: what is lost there, no flush would have kept."""


def usual_place(scheme: type[Scheme], otherwise: Place = ADR) -> Place:
    """Where each instant is a run of its own, a scheme is tried in one place: as its paper presumes."""
    return otherwise if premise(scheme) is None else ACCEPTED


def other_place(scheme: type[Scheme]) -> Place | None:
    """Where a scheme of several machines is tried besides; None where it is tried in one place alone."""
    return ACCEPTED if premise(scheme) is None and ACCEPTED.has(scheme) else None
