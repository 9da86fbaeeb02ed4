"""A PCIe switch between an adapter and its root port: a second link, and the time to forward a TLP."""

from __future__ import annotations

from .pcie.link import PcieLink, Tlp
from .profiles.parameters.pcie import PcieParameters


class SwitchedLink(PcieLink):
    """The link of an adapter behind a switch; asked like :class:`PcieLink`, answers with what the switch adds."""

    def __init__(self, parameters: PcieParameters, forward_ps: int) -> None:
        super().__init__(parameters)  # between adapter and switch
        self._upper = PcieLink(parameters)  # between switch and root port
        self._forward_ps = forward_ps

    def write(self, now_ps: int, n_bytes: int) -> tuple[int, int]:
        start_ps, at_switch_ps = super().write(now_ps, n_bytes)
        _, at_root_ps = self._upper.write(at_switch_ps + self._forward_ps, n_bytes)
        return start_ps, at_root_ps

    def writes(self, now_ps: int, address: int, length: int) -> list[Tlp]:
        sizes = [size for size, _, _ in PcieLink(self.parameters).writes(0, address, length)]
        return [(size, *self.write(now_ps, size)) for size in sizes]

    def read_request(self, now_ps: int, n_bytes: int, address: int = 0) -> int:
        at_switch_ps = super().read_request(now_ps, n_bytes, address)
        return self._upper.read_request(at_switch_ps + self._forward_ps, n_bytes, address)

    def read_completion(self, ready_ps: int, n_bytes: int, address: int = 0, last_ps: int = 0) -> int:
        at_switch_ps = self._upper.read_completion(ready_ps, n_bytes, address, last_ps)
        return super().read_completion(at_switch_ps + self._forward_ps, n_bytes, address)
