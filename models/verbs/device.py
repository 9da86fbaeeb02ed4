"""An adapter as programs see it: what libibverbs asks of a provider's driver. ``models.nic`` has one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from ...sim.clock import Clock
from ..profiles.parameters.adapter import NicParameters
from .files import FileRegion
from .opcodes import Access
from .work import MemoryRegion, SendWR

if TYPE_CHECKING:
    import simpy

    from .objects import QueuePair


class Device(Protocol):
    """``ibv_context``: an adapter that a program has opened."""

    name: str
    """Of the machine that it is in."""
    parameters: NicParameters
    """Its limits, among others (``ibv_device_attr``)."""
    clock: Clock
    """Of the simulation that it is in."""

    def register(self, address: int, length: int, access: Access, page_bytes: int) -> MemoryRegion:
        """Open a range of memory. Raises ValueError for access that the memory cannot give."""

    def register_file(self, ranges: Sequence[tuple[int, int]], access: Access) -> FileRegion:
        """Open a file that lies in these ranges of memory. Raises ValueError for what cannot be one."""

    def change_file(self, region: FileRegion) -> None:
        """The file of a key has other extents from now on."""

    def deregister(self, region: MemoryRegion) -> None:
        """Its key opens nothing any more."""

    def next_qp_number(self) -> int:
        """A queue pair number that is free on this adapter."""

    def open(self, qp: QueuePair) -> Any:
        """Make room for a new queue pair; returns what the adapter keeps of it (:attr:`QueuePair.end`)."""

    def connect(self, qp: QueuePair, peer: QueuePair) -> None:
        """Requests of ``qp`` go to ``peer`` from now on."""

    def ring(self, qp: QueuePair, work: SendWR, payload: bytes) -> None:
        """The doorbell of a post of one work request has left the core; ``payload`` is its inline data, if any."""

    def ring_list(self, qp: QueuePair, works: Sequence[SendWR], payloads: Sequence[bytes]) -> None:
        """The one doorbell of a posted list has left the core."""

    def flush(self, qp: QueuePair) -> None:
        """Complete all that was posted to a broken queue pair with IBV_WC_WR_FLUSH_ERR."""

    def silence(self, gone: Iterable[QueuePair]) -> None:
        """These queue pairs of this adapter cease to be now; what they had accepted is still placed."""

    def placed(self, qp: QueuePair) -> simpy.Event:
        """An event: all that a queue pair which has been destroyed had accepted is visible."""
