"""What a program says to an adapter, as libibverbs names it: queue pairs, work requests, completions, regions.

Nothing here takes time: what happens to a posted request is the business of the adapter (``models.nic``).
Programs import these names from here.
"""

from .cross_channel import CrossChannelQueue, CrossChannelWR, enable, wait
from .device import Device
from .files import FileRegion, MappedExtent
from .objects import (
    ACK_TIMEOUT_PS,
    CompletedWithError,
    CompletionQueue,
    ProtectionDomain,
    QueuePair,
    SharedReceiveQueue,
    WorkCompletion,
)
from .opcodes import (
    CARRIES,
    FLUSHES,
    RECEIVE_COMPLETIONS,
    REMOTE,
    Access,
    DataInOrder,
    FlushLevel,
    FlushType,
    Opcode,
    QpType,
    SendFlags,
    Status,
)
from .span import Span
from .work import INLINE, SIGNALED, WQE_BYTES, ManagedQueue, MemoryRegion, RecvWR, ScatterRecvWR, SendWR

__all__ = [
    "ACK_TIMEOUT_PS",
    "CARRIES",
    "FLUSHES",
    "INLINE",
    "RECEIVE_COMPLETIONS",
    "REMOTE",
    "SIGNALED",
    "WQE_BYTES",
    "Access",
    "CompletedWithError",
    "CompletionQueue",
    "CrossChannelQueue",
    "CrossChannelWR",
    "DataInOrder",
    "Device",
    "FileRegion",
    "FlushLevel",
    "FlushType",
    "ManagedQueue",
    "MappedExtent",
    "MemoryRegion",
    "Opcode",
    "ProtectionDomain",
    "QpType",
    "QueuePair",
    "RecvWR",
    "ScatterRecvWR",
    "SendFlags",
    "SendWR",
    "SharedReceiveQueue",
    "Span",
    "Status",
    "WorkCompletion",
    "enable",
    "wait",
]
