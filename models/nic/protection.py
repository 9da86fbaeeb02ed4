"""Memory regions of one adapter, and the requests that each of them allows.

A request is refused with the status that its requester's completion gets (IBTA 1.4, 9.7.4 and 10.6; FLUSH and ATOMIC
WRITE: Linux, drivers/infiniband/sw/rxe, check_rkey and the checks of each opcode).
"""

from __future__ import annotations

import itertools

from ..durability.places import Domain
from ..durability.rules import Target
from ..host.hostmemory import HostMemory
from ..verbs.opcodes import ATOMICS, FLUSHES, Access, FlushLevel, FlushType, Opcode, Status
from ..verbs.work import MemoryRegion, SendWR
from .packets import ATOMIC_BYTES

_UNCHECKED_IF_EMPTY = (Opcode.IBV_WR_RDMA_READ, Opcode.IBV_WR_RDMA_WRITE, Opcode.IBV_WR_RDMA_WRITE_WITH_IMM)
_NEEDED = {
    Opcode.IBV_WR_RDMA_READ: Access.IBV_ACCESS_REMOTE_READ,
    Opcode.IBV_WR_ATOMIC_CMP_AND_SWP: Access.IBV_ACCESS_REMOTE_ATOMIC,
    Opcode.IBV_WR_ATOMIC_FETCH_AND_ADD: Access.IBV_ACCESS_REMOTE_ATOMIC,
}
_FLUSH_NEEDED = {
    FlushType.IBV_FLUSH_GLOBAL: Access.IBV_ACCESS_FLUSH_GLOBAL,
    FlushType.IBV_FLUSH_PERSISTENT: Access.IBV_ACCESS_FLUSH_PERSISTENT,
    FlushType.IBV_FLUSH_GLOBAL | FlushType.IBV_FLUSH_PERSISTENT: FLUSHES,
}


class Regions:
    """The adapter's table of keys; a region's key is both ``lkey`` and ``rkey``."""

    def __init__(self, host: HostMemory, force_relaxed: bool = False) -> None:
        self._host = host
        self._force_relaxed = force_relaxed
        self._by_key: dict[int, MemoryRegion] = {}
        self._keys = itertools.count(1)

    def register(self, address: int, length: int, access: Access, page_bytes: int) -> MemoryRegion:
        """Register a range whose mapping has pages of ``page_bytes``.

        Raises ValueError for IBV_ACCESS_FLUSH_PERSISTENT on memory that loses everything with the power (rxe demands
        persistent memory), and for either FLUSH flag on a peer device (ibv_reg_dmabuf_mr takes neither).
        """
        device, _ = self._host.memory.locate(address)
        if access & FLUSHES and self._host.destination(address).target is Target.PMR:
            raise ValueError(f"FLUSH access to {device.name}, a peer device's memory")
        if Access.IBV_ACCESS_FLUSH_PERSISTENT in access and device.domain is Domain.NONE:
            raise ValueError(f"IBV_ACCESS_FLUSH_PERSISTENT on {device.name}, which keeps nothing without power")
        region = MemoryRegion(address, length, next(self._keys), access, page_bytes)
        self._by_key[region.key] = region
        return region

    def deregister(self, region: MemoryRegion) -> None:
        """Remove a region: its key is invalid from now on. Raises KeyError if it was not registered."""
        del self._by_key[region.key]

    def find(self, key: int) -> MemoryRegion | None:
        """The region of a key, if there is one."""
        return self._by_key.get(key)

    def flushed_range(self, work: SendWR) -> tuple[int, int]:
        """The range (address, length) of a FLUSH: its own, or that of its key's region."""
        if work.flush_level == FlushLevel.IBV_FLUSH_MR:
            region = self._by_key[work.rkey]
            return region.address, region.length
        return work.remote_address, work.length

    def relaxed(self, key: int) -> bool:
        """Whether requests with this key carry PCIe's relaxed-ordering bit."""
        region = self._by_key.get(key)
        return region is not None and (self._force_relaxed or Access.IBV_ACCESS_RELAXED_ORDERING in region.access)

    def refuses(self, work: SendWR) -> Status | None:
        """The status with which a request to this adapter's memory is refused; None if it is allowed."""
        if work.opcode is Opcode.IBV_WR_FLUSH:
            return self._refuses_flush(work)
        length = work.length
        if not length and work.opcode in _UNCHECKED_IF_EMPTY:  # IBTA C9-88
            return None
        if work.opcode in ATOMICS or work.opcode is Opcode.IBV_WR_ATOMIC_WRITE:
            misshapen = work.opcode is Opcode.IBV_WR_ATOMIC_WRITE and length != ATOMIC_BYTES
            if misshapen or work.remote_address % ATOMIC_BYTES:
                return Status.IBV_WC_REM_INV_REQ_ERR
            length = ATOMIC_BYTES
        region = self._by_key.get(work.rkey)
        needed = _NEEDED.get(work.opcode, Access.IBV_ACCESS_REMOTE_WRITE)
        if region is None or not region.allows(needed, work.remote_address, length):
            return Status.IBV_WC_REM_ACCESS_ERR
        return None

    def _refuses_flush(self, work: SendWR) -> Status | None:
        """The key of a FLUSH is always checked, its range only where the FLUSH uses it."""
        region, needed = self._by_key.get(work.rkey), _FLUSH_NEEDED.get(FlushType(work.flush_type))
        if region is None or needed is None or needed not in region.access:
            return Status.IBV_WC_REM_ACCESS_ERR
        if work.flush_level == FlushLevel.IBV_FLUSH_MR:
            return None
        if work.flush_level != FlushLevel.IBV_FLUSH_RANGE:
            return Status.IBV_WC_REM_ACCESS_ERR
        if work.length and not region.covers(work.remote_address, work.length):
            return Status.IBV_WC_REM_ACCESS_ERR
        return None

    def local(self, lkey: int | None, address: int, length: int, written: bool) -> bool:
        """Whether the adapter may read (or write) a local buffer."""
        if lkey is None:
            return True
        region = self._by_key.get(lkey)
        if region is None or not region.covers(address, length):
            return False
        return not written or Access.IBV_ACCESS_LOCAL_WRITE in region.access
