"""The RDMA adapter: registration of memory and queue pairs, and what a fault does to it.

Its two halves are ``models.requester`` and ``models.responder``; the way out that they share is ``models.port``.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..sim.clock import Clock
from .fabric import Fabric
from .hostmemory import HostMemory
from .ordering import Ordering
from .platform import Platform
from .requester import Requester
from .responder import Responder
from .verbs import Access, MemoryRegion, QueuePair


class Nic(Requester, Responder):
    """One adapter with one port; ``name`` is its vertex in the fabric."""

    def __init__(
        self,
        clock: Clock,
        ordering: Ordering,
        name: str,
        platform: Platform,
        host: HostMemory,
        fabric: Fabric,
        arbiter: Callable[[], np.random.Generator],
    ) -> None:
        super().__init__(clock, ordering, name, platform, host, fabric, arbiter)
        self._keys = itertools.count(1)
        self._qp_numbers = itertools.count(1)

    # registration -------------------------------------------------------------------------------------
    def register(self, address: int, length: int, access: Access) -> MemoryRegion:
        """Register a range; its key is both ``lkey`` and ``rkey``."""
        region = MemoryRegion(address, length, next(self._keys), access)
        self._regions[region.key] = region
        if Access.IBV_ACCESS_REMOTE_WRITE in access:
            self._writable[region.key] = (address, address + length)
        return region

    def next_qp_number(self) -> int:
        """A queue pair number that is free on this adapter."""
        return next(self._qp_numbers)

    # faults -------------------------------------------------------------------------------------------------
    def power_off(self) -> None:
        """The adapter loses its power: a packet whose last bit has not left the port is lost (a message of several
        is cut in the middle), nothing is accepted any more, and no completion appears."""
        self.silence(self.queue_pairs)

    def silence(self, gone: Iterable[QueuePair]) -> None:
        """These queue pairs of this adapter cease to be now; what they had accepted is still placed.

        A packet that is on its way out keeps its time on the wire, where it is cut off. An acknowledgement counts as
        having left when its first bit is at the switch.
        """
        now_ps, cut = self.clock.now_ps, set()
        for qp in gone:
            if now_ps < qp.off_ps:
                qp.off_ps, qp.error = now_ps, True
                qp.send_queue.clear()
                qp.outstanding.clear()
                qp.receive_queue.clear()
                cut.add(id(qp))
        self.withdraw_requests(lambda work: id(work.qp) in cut, now_ps)
        lost = []

        def unwanted(key: int, function: Any, argument: Any) -> bool:
            owner, name = getattr(function, "__self__", None), getattr(function, "__name__", "")
            if owner is self and name == "_visible":
                return id(argument.qp) in cut
            if owner is self and name == "_push":
                return id(argument[1].qp) in cut
            if name in ("take_in", "serve_read", "_resume"):
                packet = argument[0] if name == "_resume" else argument
                return name != "_resume" and id(packet[0].qp) in cut and packet[4] > now_ps
            if name == "take_response" and id(argument[0].qp.peer) in cut and argument[4] > now_ps:
                lost.append(argument[0])
                return True
            return False

        self.clock.withdraw(unwanted)
        for work in lost:
            work.qp.nic.unanswered(work)
