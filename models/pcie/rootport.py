"""The upper end of an adapter's link: the root port itself, or a PCIe switch whose upstream link several devices share.

The switch forwards a TLP once it is whole, ``pcie.switch`` later, onto the link to the root port. Devices meet there in
the order in which their TLPs come to it. A TLP whose call comes later, although it arrived a little earlier, goes
behind the ones already sent (an in-order gate: it is late by less than the time of its neighbours' TLPs in between).
"""

from __future__ import annotations

from typing_extensions import override

from ..profiles.parameters.pcie import PcieParameters
from .link import PcieLink, Tlp


class SharedLink(PcieLink):
    """A link that several devices use: a TLP of an earlier instant than the last one's enters at that one's instant."""

    def __init__(self, parameters: PcieParameters) -> None:
        super().__init__(parameters)
        self._last_up_ps = 0

    @override
    def write(self, now_ps: int, n_bytes: int) -> tuple[int, int]:
        """As on a link for one device, behind the TLPs of the others."""
        now_ps = self._last_up_ps = max(now_ps, self._last_up_ps)
        return super().write(now_ps, n_bytes)

    @override
    def read_request(self, now_ps: int, n_bytes: int, address: int = 0) -> int:
        """As on a link for one device, behind the TLPs of the others."""
        now_ps = self._last_up_ps = max(now_ps, self._last_up_ps)
        return super().read_request(now_ps, n_bytes, address)


class SwitchedLink(PcieLink):
    """The link of a device behind a switch, used like :class:`PcieLink`; ``upstream`` is the switch's own.

    A second device shares it: ``SwitchedLink(parameters, nic.pcie.upstream)``.
    """

    def __init__(self, parameters: PcieParameters, upstream: PcieLink) -> None:
        super().__init__(parameters)
        self.upstream = upstream
        self._forward_ps = parameters.switch_ps

    @override
    def write(self, now_ps: int, n_bytes: int) -> tuple[int, int]:
        """A posted write, through the switch."""
        start_ps, at_switch_ps = super().write(now_ps, n_bytes)
        _, at_root_ps = self.upstream.write(at_switch_ps + self._forward_ps, n_bytes)
        return start_ps, at_root_ps

    @override
    def writes(self, now_ps: int, address: int, length: int) -> list[Tlp]:
        """The TLPs of one write, through the switch."""
        found = []
        for n_bytes, start_ps, at_switch_ps in super().writes(now_ps, address, length):
            _, at_root_ps = self.upstream.write(at_switch_ps + self._forward_ps, n_bytes)
            found.append((n_bytes, start_ps, at_root_ps))
        return found

    @override
    def read_request(self, now_ps: int, n_bytes: int, address: int = 0) -> int:
        """Read requests, through the switch."""
        at_switch_ps = super().read_request(now_ps, n_bytes, address)
        return self.upstream.read_request(at_switch_ps + self._forward_ps, n_bytes, address)

    @override
    def read_completion(self, ready_ps: int, n_bytes: int, address: int = 0, last_ps: int = 0) -> int:
        """Completions, through the switch: each follows once it is whole."""
        at_switch_ps = self.upstream.read_completion(ready_ps, n_bytes, address, last_ps)
        one_bytes = min(n_bytes, self.parameters.most_completion_bytes)
        behind_ps = self.completion_ps(n_bytes, address) - self.completion_ps(one_bytes)
        first_ps = at_switch_ps - max(0, behind_ps) + self._forward_ps
        return super().read_completion(first_ps, n_bytes, address, at_switch_ps + self._forward_ps)


def root_link(parameters: PcieParameters) -> PcieLink:
    """The link of an adapter: to its root port, or with ``pcie.switch`` to a switch that has one like it upstream."""
    if not parameters.switch_ps:
        return PcieLink(parameters)
    return SwitchedLink(parameters, SharedLink(parameters))
