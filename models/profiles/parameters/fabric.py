"""Links and switches, as a platform profile describes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from .counts import ONE, CountOrZero


@dataclass(frozen=True, slots=True)
class FabricParameters:
    """Links and switches: each pair of ports is ``switches`` switches, and one link more, apart."""

    link_bits_per_s: int
    propagation_ps: int
    """Of one link."""
    switch_ps: int
    """Port to port, first bit in to first bit out."""
    switches: CountOrZero = ONE
    """Between any two ports; 0 is a cable between two adapters."""
    phy_ps: int = 0
    """The time that the PHYs of both ends of a link (coding, error correction) add to its propagation."""

    forwarding: Literal["cut_through", "store_and_forward"] = "cut_through"
    """When a switch passes a packet on: once its head is there, or once all of it is."""
    buffer_bytes: int = 0
    """The bytes that the queue at a switch's output holds before it drops packets; 0: no limit (links have flow
    control).
    """

    @property
    def link_ps(self) -> int:
        """From the first bit into a link to the first bit out of it."""
        return self.propagation_ps + self.phy_ps

    @property
    def lead_ps(self) -> int:
        """From the first bit out of a port to the first bit at the last switch (at the other port, of a cable)."""
        return max(1, self.switches) * self.link_ps + max(0, self.switches - 1) * self.switch_ps

    @property
    def crossing_ps(self) -> int:
        """The time through the last switch; 0 without one."""
        return self.switch_ps if self.switches else 0

    @property
    def last_ps(self) -> int:
        """Over the link from the last switch to the port."""
        return self.link_ps if self.switches else 0
