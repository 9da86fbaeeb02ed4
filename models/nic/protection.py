"""Memory regions of one adapter, and the requests that each of them allows.

A request is refused with the status that its requester's completion gets (IBTA 1.4, 9.7.4 and 10.6; FLUSH and ATOMIC
WRITE: Linux, drivers/infiniband/sw/rxe, check_rkey and the checks of each opcode).
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from ..durability.places import Domain
from ..durability.rules import Target
from ..host.hostmemory import HostMemory
from ..verbs.files import FileRegion
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
        self.files = 0
        """How many files have been registered."""

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

    def register_file(self, ranges: Sequence[tuple[int, int]], access: Access) -> FileRegion:
        """Register a file that lies in these ranges. Raises ValueError as :meth:`register`, and for what is no file."""
        self._check_file(ranges)
        first = self.register(*ranges[0], access, page_bytes=ranges[0][1])
        region = FileRegion(0, 0, first.key, access).appended(ranges)
        self._by_key[region.key] = region
        self.files += 1
        return region

    def change_file(self, region: FileRegion) -> FileRegion:
        """A file has other extents; returns it as it was. Raises ValueError for one that has changed meanwhile."""
        before = self._by_key.get(region.key)
        if not isinstance(before, FileRegion) or before.numbered >= region.numbered:
            raise ValueError(f"the region {region.key} is no file that is registered, or has changed since")
        self._check_file([(extent.address, extent.length) for extent in region.extents])
        self._by_key[region.key] = region
        return before

    def _check_file(self, ranges: Sequence[tuple[int, int]]) -> None:
        devices = {
            self._host.memory.locate(at)[0].name for start, length in ranges for at in (start, start + length - 1)
        }
        if len(devices) != 1 or any(length <= 0 for _, length in ranges):
            found = ", ".join(sorted(devices)) or "none"
            raise ValueError(f"a file of {len(ranges)} extents, in {found}: none is empty, and all are in one device")

    def places(self, key: int, address: int, length: int) -> list[tuple[int, int]]:
        """Where the bytes lie in memory that a request with this key names: pieces, if it is a file's."""
        region = self._by_key.get(key)
        return region.places(address, length) if isinstance(region, FileRegion) else [(address, length)]

    def place(self, work: SendWR) -> int:
        """Where the first byte lies in memory that a request names."""
        region = self._by_key.get(work.rkey)
        if not isinstance(region, FileRegion):
            return work.remote_address
        return region.places(work.remote_address, 1)[0][0]

    def deregister(self, region: MemoryRegion) -> None:
        """Remove a region: its key is invalid from now on. Raises KeyError if it was not registered."""
        del self._by_key[region.key]

    def find(self, key: int) -> MemoryRegion | None:
        """The region of a key, if there is one."""
        return self._by_key.get(key)

    def flushed(self, work: SendWR) -> list[tuple[int, int]]:
        """Where the range of a FLUSH lies in memory, as :meth:`places`: its own range, or that of its key's region."""
        if work.flush_level == FlushLevel.IBV_FLUSH_MR:
            return self.all_places(work.rkey)
        return self.places(work.rkey, work.remote_address, work.length)

    def all_places(self, key: int) -> list[tuple[int, int]]:
        """Where a whole region lies in memory, as :meth:`places`."""
        region = self._by_key[key]
        return self.places(key, region.address, region.length)

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
        """Whether the adapter may read (or write) a local buffer: none is named by a file's key."""
        if lkey is None:
            return True
        region = self._by_key.get(lkey)
        if region is None or isinstance(region, FileRegion) or not region.covers(address, length):
            return False
        return not written or Access.IBV_ACCESS_LOCAL_WRITE in region.access
