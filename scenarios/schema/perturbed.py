"""The choices of a further schedule that differ from the undisturbed one: choices that running code can observe.

Within a schedule exploration is exhaustive; the observations of code in it (who came first, what a READ returned) are
fixed. Further schedules draw these choices from the seed and their number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...models.fabric.disturbance import Disturbance
from ...models.profiles.platform import Platform

PAUSES, LAGGING, HARDWARE, PACKETS = "pauses", "lagging", "hardware", "packets"

PAUSING = frozenset({PAUSES, LAGGING})
"""The kinds that a saved case has as outages; all others it draws again."""

PERTURBED: Mapping[str, str] = {
    PAUSES: "servers' cores pause",
    LAGGING: "one of the servers' cores, each in its turn, pauses behind every store to persistent memory, then behind "
    "every second one",
    HARDWARE: "the adapters' arbiters choose among queue pairs and fetch the lines of READs in any order, writes to a "
    "device beside the adapter show later than those to host memory, and what the hardware draws (cache victims, how "
    "late WRITEs are placed that may be late) is drawn anew",
    PACKETS: "packets are lost, late, and sent again",
}
"""Each kind of perturbation, in words."""

LOSS, DELAY_PS = 0.002, 2_000_000
"""Of packets, where a scenario has no ``network`` of its own: a choice of the exploration, no property of a network."""
PEER_LATE_PS = 2_000_000
"""For writes to a device beside the adapter: as long, so that a core has seen a flag in host memory by then."""


def perturbed_platform(platform: Platform, perturb: tuple[str, ...]) -> Platform:
    """The platform of a schedule in which this is perturbed."""
    if HARDWARE not in perturb:
        return platform
    pcie = replace(platform.pcie, staging_order="random", peer_late_ps=PEER_LATE_PS)
    return replace(platform, pcie=pcie)


def punctual_platform(platform: Platform) -> Platform:
    """The platform on which a state that is left is recovered and read: whose writes to devices come as they do."""
    if not platform.pcie.peer_late_ps:
        return platform
    return replace(platform, pcie=replace(platform.pcie, peer_late_ps=0))


def perturbed_network(disturbance: Disturbance | None, perturb: tuple[str, ...]) -> Disturbance | None:
    """What its network does to packets."""
    if PACKETS in perturb and disturbance is None:
        return Disturbance(loss=LOSS, delay_ps=DELAY_PS)
    return disturbance


def in_words(perturb: tuple[str, ...]) -> str:
    """The perturbations as a clause."""
    return "; ".join(PERTURBED[name] for name in perturb)
