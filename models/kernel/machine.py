"""The machine as its operating system sees it: what drives, files and sockets take from a node.

``models.system.Node`` is one. The protocol keeps the wing below the system that machines are put together in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from ...sim.clock import Clock
from ..cpu.core import Core
from ..durability.ordering import Ordering
from ..fabric.fabric import Fabric
from ..host.hostmemory import HostMemory
from ..memory.devices import AddressSpace
from ..nic.nic import Nic
from ..profiles.parameters.cpu import CpuParameters
from ..profiles.platform import Platform


class Surroundings(Protocol):
    """The parts that all machines of a system share."""

    @property
    def clock(self) -> Clock:
        """The clock of the system."""

    @property
    def ordering(self) -> Ordering:
        """The door by which drives report what code observed."""

    @property
    def fabric(self) -> Fabric:
        """The network that segments go through."""

    @property
    def platform(self) -> Platform:
        """The numbers of the kernel and of its drives."""


class Machine(Protocol):
    """One machine: its memory, its adapter, its cores."""

    @property
    def system(self) -> Surroundings:
        """The system that the machine belongs to."""

    @property
    def host(self) -> HostMemory:
        """The host's memory, as cores and devices see it."""

    @property
    def memory(self) -> AddressSpace:
        """The machine's memory devices by name; a drive is one of them."""

    @property
    def nic(self) -> Nic:
        """The adapter, whose port TCP segments share with RDMA packets."""

    @property
    def cpu(self) -> CpuParameters:
        """The numbers of the machine's cores."""

    @property
    def cores(self) -> Sequence[Core]:
        """The cores, on which interrupts and softirqs run."""
