"""What makes a few operations of a quiet machine take longer than the others, as a platform profile describes it.

Each is a switch; its numbers stand at the component that it belongs to. Timer ticks and stray interrupts of cores have
a switch of their own, ``cpu.os.noise``.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TailParameters:
    """The sources of tails that are switched on."""

    refresh: bool = False
    """DRAM is refreshed: reads wait for ``media.KIND.refresh``, each ``refresh_every``."""
    arbitration: bool = False
    """A message waits up to ``nic.arbitration`` for its turn in the transmit engine, and in the receive engine."""
    replays: bool = False
    """PCIe repeats what a bit error, one in ``pcie.error_every`` bytes, has damaged."""
