"""Experiments of a PCIe link alone: how much of a stream of transfers of one size gets through."""

from __future__ import annotations

from ....models.pcie.link import PcieLink
from ....models.profiles.platform import Platform
from .experiments import experiment

TRANSFERS = 2000


@experiment("pcie-write-bandwidth", "bytes_per_s", ("nic", "fabric", "imc", "media", "cpu"))
def pcie_write_bandwidth(platform: Platform, size: int) -> float:
    """Payload bytes a second of posted writes, each cut into TLPs."""
    link, end_ps = PcieLink(platform.pcie), 0
    for number in range(TRANSFERS):
        *_, (_, _, end_ps) = link.writes(0, number * 4096, size)
    return TRANSFERS * size * 1e12 / end_ps
