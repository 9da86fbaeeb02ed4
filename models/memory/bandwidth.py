"""Other processes that take memory bandwidth: the share of a machine's DIMMs that is left for everybody else.

They are not simulated access by access: a process that writes 10 GB/s to DRAM leaves its DIMMs 10 GB/s less to write
with, and as much less to read with, since a store to a line that no cache holds reads it first. Spread evenly over the
DIMMs.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ..profiles.platform import Platform


def without(platform: Platform, stolen: Iterable[tuple[str, int]]) -> Platform:
    """``platform`` as a machine has it on which others take (memory device, bits per second).

    Raises ValueError for a device that is behind PCIe or that has not so much.
    """
    media = dict(platform.media)
    for name, bits_per_s in stolen:
        device = platform.memory[name]
        if device.device not in media:
            raise ValueError(f"{name} has no DIMMs whose bandwidth could be taken")
        medium = media[device.device]
        share = -(-bits_per_s // device.dimms)
        if share >= min(medium.write_bandwidth_bits_per_s, medium.read_bandwidth_bits_per_s):
            most = min(medium.write_bandwidth_bits_per_s, medium.read_bandwidth_bits_per_s) * device.dimms
            raise ValueError(f"{bits_per_s / 8e9:g} GB/s of {name}: its DIMMs have {most / 8e9:g} GB/s")
        media[device.device] = replace(
            medium,
            write_bandwidth_bits_per_s=medium.write_bandwidth_bits_per_s - share,
            read_bandwidth_bits_per_s=medium.read_bandwidth_bits_per_s - share,
        )
    return replace(platform, media=media)
