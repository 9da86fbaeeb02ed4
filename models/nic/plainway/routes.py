"""The keys under which requests may take the plain way at their responder: one like them has come there before."""

from __future__ import annotations

from ...durability.rules import Placement
from ...memory.devices import DEVICE_SPAN_BITS, HOST_MEMORY, OFFSET_MASK
from ...verbs.files import FileRegion
from ...verbs.opcodes import Opcode
from ..adapter import Adapter
from ..ends import ReceiveEnd
from ..message import Message

_WRITE = Opcode.IBV_WR_RDMA_WRITE


def open_writes(nic: Adapter, to: ReceiveEnd, message: Message) -> None:
    """A WRITE has been accepted whose ACK proves nothing: later ones with its key may be plain."""
    found = _in_host_memory(nic, to, message)
    if found is not None:
        start, stop = found
        lanes = to.inbound.lanes(start)
        memory, base = nic.host.attached[start >> DEVICE_SPAN_BITS], start & ~OFFSET_MASK
        own = to.order, to.inbound, to.writers[_WRITE]
        to.routes[message.work.rkey] = start, stop, memory, base, lanes, lanes.in_order, *own


def open_reads(nic: Adapter, to: ReceiveEnd, message: Message) -> None:
    """A READ has been executed: later ones with its key may be plain."""
    found = _in_host_memory(nic, to, message)
    if found is not None:
        start, stop = found
        device = nic.host.attached[start >> DEVICE_SPAN_BITS].device
        to.read_routes[message.work.rkey] = start, stop, to.inbound.lanes(start), device


def _in_host_memory(nic: Adapter, to: ReceiveEnd, message: Message) -> tuple[int, int] | None:
    """The range of the region that ``message`` names, if it is host memory where requests are placed in order, and no
    file.
    """
    key = message.work.rkey
    region = nic.regions.find(key)
    in_order = to.inbound.placement(nic.regions.relaxed(key)) is Placement.STRICT
    if (
        region is None
        or isinstance(region, FileRegion)
        or not in_order
        or nic.host.destination(region.address).number != HOST_MEMORY
    ):
        return None
    return region.address, region.address + region.length
