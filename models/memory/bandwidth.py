"""Other processes that take memory bandwidth: the share of a machine's DIMMs, and of their channels, that is left.

They are not simulated access by access: a process that writes 10 GB/s to DRAM leaves its DIMMs 10 GB/s less to write
with, and as much less to read with, since a store to a line that no cache holds reads it first. Both go over the
channels, which DIMMs of DRAM and of Optane share: a line of either has its turn so much more rarely. Spread evenly over
DIMMs and channels.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from ...sim.bytespace import LINE_BYTES
from ...sim.units import PS_PER_S
from ..profiles.platform import Platform


def without(platform: Platform, stolen: Iterable[tuple[str, int]]) -> Platform:
    """``platform`` as a machine has it on which others take (memory device, bits per second).

    Raises ValueError for a device that is behind PCIe or that has not so much, and for more than the channels carry.
    """
    media, imc = dict(platform.media), platform.imc
    channels_bits_per_s = imc.channels * 8 * LINE_BYTES * PS_PER_S // imc.wpq_accept_ps if imc.wpq_accept_ps else 0
    over_channels = 0
    for name, bits_per_s in stolen:
        device = platform.memory[name]
        if device.device not in media:
            raise ValueError(f"{name} has no DIMMs whose bandwidth could be taken")
        medium = media[device.device]
        share = -(-bits_per_s // device.dimms)
        if share >= min(medium.write_bandwidth_bits_per_s, medium.read_bandwidth_bits_per_s):
            most = min(medium.write_bandwidth_bits_per_s, medium.read_bandwidth_bits_per_s) * device.dimms
            raise ValueError(f"{bits_per_s / 8e9:g} GB/s of {name}: its DIMMs have {most / 8e9:g} GB/s")
        over_channels += 2 * bits_per_s
        if channels_bits_per_s and over_channels >= channels_bits_per_s:
            most = channels_bits_per_s // 2
            raise ValueError(f"{bits_per_s / 8e9:g} GB/s of {name}: its channels carry {most / 8e9:g} GB/s both ways")
        media[device.device] = replace(
            medium,
            write_bandwidth_bits_per_s=medium.write_bandwidth_bits_per_s - share,
            read_bandwidth_bits_per_s=medium.read_bandwidth_bits_per_s - share,
        )
    if channels_bits_per_s:
        line_ps = imc.wpq_accept_ps * channels_bits_per_s // (channels_bits_per_s - over_channels)
        imc = replace(imc, wpq_accept_ps=line_ps)
    return replace(platform, media=media, imc=imc)
