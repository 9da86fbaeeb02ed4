"""NVMe drives, their memory that can be addressed, and the kernel's paths, as a platform profile describes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerParameters:
    """A kind of device beside the adapter on PCIe whose memory can be addressed: a drive's persistent memory region
    (PMR), or its controller memory buffer (CMB)."""

    capacity_bytes: int
    pmrwbm: int = 0
    """PMRCAP.PMRWBM: with bit 0 a read of the region is a write barrier, with bit 1 a read of PMRSTS; 0: a CMB."""
    ingress_bits_per_s: int
    """The rate at which it takes writes in."""
    buffer_bytes: int = 0
    """PMREBS: the elasticity buffer, which takes writes in faster than the region does; 0: there is none."""
    sustained_bits_per_s: int = 0
    """PMRSWTP: the rate of the region behind the elasticity buffer; 0: as fast as writes come in."""
    read_bypass: bool = True
    """PMREBS.RBB: reads pass writes in the elasticity buffer that they do not overlap; else they wait for all."""
    peer_write_ps: int
    """From the adapter's root port to the device's buffer, serialisation at the device apart."""
    peer_read_ps: int
    """Round trip of a small read by the adapter, without serialisation."""
    settle_ps: int
    """From the device's buffer to where it lasts, undisturbed."""
    mmio_read_ps: int
    """A core's uncached load of up to ``mmio_width_bytes``."""
    mmio_width_bytes: int
    mapping: Literal["uc", "wc"] = "uc"
    """How cores have it mapped: uncached, loads one after the other; or write-combining, with streaming loads of whole
    lines (MOVNTDQA), ``mmio_overlap`` of them at once."""
    mmio_overlap: int = 1
    """The streaming loads of a core that are under way together."""
    mmio_write_ps: int
    """From a core's store buffer to the device's buffer, serialisation at the device apart."""
    wc_buffers: int = 12
    """Write-combining buffers of a core: so many lines of posted stores are under way before it has to wait."""
    save_bits_per_s: int = 0
    """The rate at which it writes to flash once power has failed; 0: its contents need no saving."""
    hold_up_ps: int = 0
    """How long its capacitors last then."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriveParameters:
    """A kind of NVMe drive."""

    capacity_bytes: int
    block_bytes: int = 4096
    """The size of one logical block."""
    atomic_bytes: int = 4096
    """AWUPF: the unit that a power failure leaves whole or not at all; a divisor of the block, or the block."""
    queue_depth: int = 1024
    """Commands of one queue that may be outstanding."""
    link_bits_per_s: int
    """Of its slot, each way, after encoding and headers."""
    doorbell_ps: int
    """From the store to the doorbell register until the controller sees it."""
    dma_read_ps: int
    """Round trip of the controller's read of host memory: submission entries and the data of writes."""
    posted_write_ps: int
    """From the controller until host memory shows its write: completion entries and the data of reads."""
    command_ps: int
    """How long one command keeps the controller busy: its commands a second are the inverse."""
    write_ps: int
    """From the last byte of a write until the write cache has it and the completion leaves."""
    read_ps: int
    """A block from flash."""
    cache_read_ps: int
    """A block that is in the write cache still."""
    read_ways: int
    """Blocks that flash reads at once."""
    cache_bytes: int
    """The write cache."""
    drain_bits_per_s: int
    """The rate from the write cache to flash."""
    program_ps: int
    """From the write cache to flash, undisturbed."""
    volatile_cache: bool
    """VWC: the write cache is lost with the power, so that the kernel sends FLUSH; else capacitors protect it."""
    flush_ps: int
    """A FLUSH that has nothing to wait for."""
    hold_up_ps: int = 0
    """How long the capacitors of a protected cache last; 0: not stated."""
    memory: str = ""
    """Which of the node's memory devices is inside: its bytes get to flash without crossing PCIe. Empty: none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KernelParameters:
    """How the kernel treats files and sockets, and what that costs beside ``cpu.os``. The defaults are those of the
    base profile, which has their sources."""

    file_ps: int = 2_006_000
    """The file system for one request of up to a page that goes to the drive."""
    page_cache_ps: int = 300_000
    """Looking up and locking one page of the page cache, the copy apart."""
    block_ps: int = 492_000
    """Block layer and NVMe driver for one command."""
    transfer_bytes: int = 131_072
    """The largest command that the block layer builds."""
    page_bytes: int = 4096
    stable_pages: bool = False
    """A page does not change while it is written back."""
    journal: bool = True
    """ext4 with its journal, data=ordered; else a file system that writes its metadata in place."""
    journal_blocks: int = 3
    """Descriptor and metadata of one commit; the commit record is one more."""
    commit_ps: int = 5_000_000
    """Handing a commit to the journal's thread and back, its writes apart."""
    timestamp_ps: int = 4_000_000_000
    """The tick of file times: a write in the same tick as the one before leaves the inode as it is."""
    send_ps: int = 1_050_000
    """Network stack for one message that is sent, the copy apart."""
    receive_ps: int = 1_260_000
    """Network stack (softirq) for one message that has come in, the copy apart."""
    copy_ps_per_byte: int = 100
    """Copying between a socket and its program, each side."""
    segment_work_ps: int = 150_000
    """The time of each segment beyond a message's first, on either side."""
    segment_bytes: int = 1448
    """Payload of one TCP segment."""
    frame_bytes: int = 90
    """Ethernet, IP and TCP headers of a segment, preamble and gap."""
    moderation_ps: int = 4_000_000
    """How long the adapter holds back an interrupt for received packets, for more to come."""
    window_bytes: int = 4_194_304
    """The bytes that a socket holds before its program reads them; a sender waits for room."""
    adapter_ps: int = 1_000_000
    """Doorbell, descriptor and DMA at the sender's adapter, and DMA at the receiver's, each side."""
    epoll_ps: int = 200_000
    """epoll_wait for one ready socket, the system call apart."""
