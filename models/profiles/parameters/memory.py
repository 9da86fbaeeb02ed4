"""Memory controllers, DIMMs and memory devices, as a platform profile describes them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from ...durability.places import Domain
from .counts import NONE, CountOrZero


@dataclass(frozen=True, slots=True)
class ImcParameters:
    """The memory controllers of one node."""

    channels: int
    wpq_bytes: int
    """Write pending queue of one channel."""
    wpq_accept_ps: int
    """The time of one line on the bus of its channel, which reads share, until it is accepted."""
    interleave_bytes: int
    port_order: Literal["kept", "drawn"] = "drawn"
    """How lines of one root port that wait for a full queue go in: in their order, or drawn like those of cores."""
    partial_ntstore: Literal["free", "read"] = "free"
    """``read``: a non-temporal store of a part of a line reads the line before a write pending queue has it."""
    wpq_hit_ps: int = 50_000
    """A core's load of a line that is in the write pending queue still."""


@dataclass(frozen=True, slots=True)
class Controller:
    """The controller of an Optane DIMM between its bus and its medium (FAST'20 calls it the XPController)."""

    buffer_bytes: int = 0
    """XPBuffer, in whole XPLines; 0: the DIMM has no controller, its medium takes line by line."""
    read_buffer_bytes: int = 0
    """A buffer of its own for lines read, first in first out, a line gone once a core has it; 0: one for both."""
    eviction: Literal["random", "lru", "fifo"] = "random"
    """Which XPLine goes when the buffer is full."""
    full_lines: Literal["at_once", "periodic", "evicted"] = "at_once"
    """When an XPLine is written whose lines have all been written: at once, from time to time, or with the others."""
    full_line_period_ps: int = 0
    """With ``periodic``: how long after that."""
    lsq_bytes: int = 4096
    """Queue of the lines that wait for a place in the buffer."""
    lsq_combines: bool = False
    """Whether lines of one XPLine that meet in that queue go on together."""
    ingest_ps: int = 0
    """The time of one line from the write pending queue into the DIMM, one after the other."""
    fence_drains: bool = False
    """Whether a core's fence waits until its lines have left the write pending queue: timing, no further promise."""
    read_after_persist_ps: int = 0
    """How long a read waits of an XPLine to which a line has come that nobody has read since; 0: not at all."""
    settle_ps: int = 0
    """So long after the last line has come to an XPLine nobody waits for it any more."""
    ait_bytes: int = 0
    """The memory that the cache of the address indirection table covers; 0: all of the DIMM."""
    ait_page_bytes: int = 4096
    ait_miss_ps: int = 0
    """The time by which a read takes longer if that cache does not have its page."""
    wear_block_bytes: int = 65536
    wear_writes: int = 0
    """After so many writes to one block of the medium it is moved elsewhere; 0: never."""
    wear_pause_ps: int = 0
    """How long the DIMM writes nothing else meanwhile."""
    wear_counts: Literal["each block", "hottest block"] = "each block"
    """What ``wear_writes`` counts: the writes to each block, or by how much those to one block lead all others."""


@dataclass(frozen=True, slots=True)
class MediaParameters:
    """A kind of DIMM: sizes, times and its controller."""

    line_bytes: int
    """The unit that the medium writes at once (an XPLine of Optane)."""
    capacity_bytes: int
    """Of one DIMM."""
    load_ps: int
    """A core's load that misses all caches and all buffers of the DIMM."""
    dma_read_extra_ps: int
    """The time by which a DMA read that misses the LLC takes longer here than from DRAM."""
    write_ps: int
    """From the write pending queue to the medium, undisturbed."""
    read_bandwidth_bits_per_s: int
    """Of one DIMM."""
    write_bandwidth_bits_per_s: int
    """Of one DIMM."""
    clwb_to_wpq_ps: int
    """From the issue of a clwb or clflushopt until the line is in the write pending queue."""
    ntstore_to_wpq_ps: int
    near_load_ps: int = 0
    """A load of a buffered XPLine, or of a DRAM row that is open; 0: as any other."""
    row_bytes: int = 0
    """The bytes that a bank of DRAM holds open; 0: rows make no difference."""
    banks: int = 16
    row_cycle_ps: int = 0
    """Between two rows that one bank opens (tRC); 0: a bank opens any number of rows at once."""
    refresh_every_ps: int = 0
    """Between two refreshes of a rank (tREFI); 0: not known. They happen with ``tails.refresh``."""
    refresh_ps: int = 0
    """How long it reads nothing then (tRFC)."""
    read_behind_writes: CountOrZero = NONE
    """The most writes of the medium's unit that a read waits for which the medium was given before; 0: it waits for
    none."""
    interleave_bytes: int = 0
    """Over the DIMMs of a device; 0: ``ImcParameters.interleave_bytes``."""
    write_delay_ps: int = 0
    """The time added to writes where DRAM stands for slower memory."""
    write_delay_per: Literal["line", "write", "flush", "flushed line", "medium"] = "line"
    """The unit that waits for it: each line, each run of lines that follow each other, each run that a flush writes
    back, or each line that a flush does. ``medium``: none of them, the medium takes so much longer for each line.
    """
    controller: Controller = field(default_factory=Controller)


@dataclass(frozen=True, slots=True)
class MemoryParameters:
    """A memory of a node, as protocols name it (``pm``, ``dram``, ``pmr``)."""

    device: str
    """The kind of DIMM or device: a key of ``Platform.media``, ``peers``, ``devices`` or ``drives``."""
    domain: Domain
    """Its persistence domain: the places whose bytes survive a power failure (``models.durability.places``)."""
    dimms: int
    """How many of them there are, interleaved; of a device beside the adapter there is one."""
    socket: str = ""
    """The socket whose memory controllers, or root port, they are at: a key of ``Platform.sockets``; empty: the first.
    """
