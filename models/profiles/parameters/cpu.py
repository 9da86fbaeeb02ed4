"""Cores and the operating system's costs on them, as a platform profile describes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

MICROSECOND, MILLISECOND = 10**6, 10**9


@dataclass(frozen=True, slots=True)
class CoreType:
    """Cores of another kind, such as the ARM cores of a SmartNIC."""

    speed_percent: int
    """How fast they are: 100 is as fast as the platform's cores."""
    hop_ps: int
    """The time by which a hand-over between the adapter and such a core takes longer than with a host's core."""
    core_milliwatts: int = 0
    """The power that such a core draws while it works or polls; 0: not known."""


@dataclass(frozen=True, slots=True)
class SoftwareCost:
    """A piece of software whose time only somebody's set-up tells: an allocator's call, a visit of a tree's node."""

    time_ps: int
    """For each call, on the platform's own cores."""


@dataclass(frozen=True, slots=True)
class OperatingSystem:
    """How threads get cores, sleep and are woken. The shipped profiles state these with their sources."""

    scheduler: Literal["cooperative", "fair"] = "cooperative"
    """``cooperative``: threads of one core take turns instruction by instruction. ``fair``: as Linux' CFS."""
    smt: int = 1
    """Hardware threads of a core; with 2, cores 2k and 2k + 1 of a node are siblings (``fair`` only)."""
    smt_slowdown_percent: int = 160
    """The time of work whose sibling is busy too, in percent of its time alone."""
    sched_latency_ps: int = 24 * MILLISECOND
    """Within which every thread that waits for a core gets its share."""
    min_granularity_ps: int = 3 * MILLISECOND
    """The shortest slice."""
    wakeup_granularity_ps: int = 4 * MILLISECOND
    """By how much less than the running thread a woken one must have run to preempt it."""
    switch_ps: int = 600_000
    """A context switch, on the core that makes it."""
    syscall_ps: int = 300_000
    """Into the kernel and back, with the work of a read, a futex or an epoll_wait there."""
    permission_check_ps: int = 200_000
    """The kernel looks up what a call names, and whether its caller may use it."""
    interrupt_ps: int = 1_500_000
    """A device's interrupt on the core that takes it: entry, handler, softirq, and waking who waits."""
    wake_ps: int = 2 * MICROSECOND
    """From the waking until the woken thread's core goes for it: inter-processor interrupt, leaving an idle state."""
    epoll: bool = True
    """Whether programs wait for an event in epoll_wait and then read it (two system calls instead of one)."""
    spin_ps: int = 20 * MICROSECOND
    """How long a thread that waits adaptively spins before it sleeps."""
    req_notify_ps: int = 100_000
    """``ibv_req_notify_cq``: the doorbell record and a posted write."""
    reg_mr_ps: int = 30 * MICROSECOND
    """``ibv_reg_mr``: system call, key, command to the adapter."""
    reg_mr_page_ps: int = 250_000
    """For each page: pinned, and its address given to the adapter."""
    dereg_mr_page_ps: int = 250_000
    """For each page of a region that is deregistered: unpinned. As ``reg_mr_page`` by default."""
    page_bytes: int = 4096
    noise: Literal["off", "on"] = "off"
    """Whether timer ticks and stray interrupts take cores away now and then."""
    tick_every_ps: int = 4 * MILLISECOND
    tick_ps: int = 1_500_000
    stray_every_ps: int = 50 * MILLISECOND
    """Of other interrupts and kernel threads, on the average: they come at random."""
    stray_ps: int = 20 * MICROSECOND


@dataclass(frozen=True, slots=True)
class CpuParameters:
    """The cores of a node. Times are those for which the issuing core is held."""

    cores: int
    store_ps: int
    """A store to a cached line."""
    load_ps: int
    """A load that hits."""
    flush_instruction: Literal["clflush", "clflushopt", "clwb"]
    """The best this processor has."""
    clwb_invalidates: bool
    clwb_ps: int
    """Issue, per line; the way to the write pending queue is ``Media.clwb_to_wpq_ps`` and awaited by sfence."""
    clflushopt_ps: int
    clflush_ps: int
    """Per line, the way to the write pending queue included: clflush is in order with later stores."""
    clflush_clean_ps: int
    """Per line of which there is nothing to write back."""
    ntstore_ps: int
    """Issue, per line; the way to the write pending queue is ``Media.ntstore_to_wpq_ps``, and takes a fill buffer."""
    sfence_ps: int
    """The fence itself, without the stores that it waits for."""
    memcpy_bits_per_s: int
    crc32_ps_per_byte: int
    """By tables, in software."""
    poll_loop_ps: int
    """One round of a loop that polls an empty completion queue."""
    spin_loop_ps: int
    """One round of a loop that looks at a cached word."""
    request_ps: int
    """Server software per request: parse, dispatch, look up, build the reply; without flushes, copies and CRCs."""
    crc32: Literal["table", "instruction"] = "table"
    """How checksums are computed."""
    crc32_instruction_ps_per_byte: int = 170
    """By the processor's instruction, one after the other."""
    ntstore_hold_ps: int = 0
    """Until the completion of a non-temporal store is back, from when its line leaves: so long its fill buffer is taken
    at least. Fences do not wait for it."""
    memcpy_start_ps: int = 0
    """The time of a copy by string instructions before its first byte, ..."""
    memcpy_string_bytes: int = 2048
    """... which is how copies from this size on are made."""
    memcpy_overlaps: bool = False
    """Whether a copy's loads and stores overlap, within the fill buffers; else all loads come before all stores."""
    core_milliwatts: int = 0
    """The power that a core draws while it works or polls; 0: not known, and no energy is computed."""
    os: OperatingSystem = field(default_factory=OperatingSystem)
    types: Mapping[str, CoreType] = field(default_factory=dict)
    """Other cores that nodes may have."""
    software: Mapping[str, SoftwareCost] = field(default_factory=dict)
    """Named costs that schemes charge by ``Thread.software``."""
    socket: str = ""
    """The socket of the first core: a key of ``Platform.sockets``; empty: the first. The others come after it."""

    @property
    def crc_ps_per_byte(self) -> int:
        """The time of a checksum for each byte, the way this platform computes it."""
        return self.crc32_ps_per_byte if self.crc32 == "table" else self.crc32_instruction_ps_per_byte

    def of_type(self, kind: CoreType) -> CpuParameters:
        """These parameters as they are for a slower (or faster) kind of core: what software takes, not the hardware."""
        scaled = {
            f.name: getattr(self, f.name) * 100 // kind.speed_percent
            for f in fields(self)
            if f.name.endswith(("_ps", "_ps_per_byte"))
        }
        system = {
            name: getattr(self.os, name) * 100 // kind.speed_percent
            for name in (
                "switch_ps",
                "syscall_ps",
                "permission_check_ps",
                "interrupt_ps",
                "reg_mr_ps",
                "reg_mr_page_ps",
                "dereg_mr_page_ps",
            )
        }
        rate = self.memcpy_bits_per_s * kind.speed_percent // 100
        costs = {name: SoftwareCost(cost.time_ps * 100 // kind.speed_percent) for name, cost in self.software.items()}
        own: dict[str, Any] = {"core_milliwatts": kind.core_milliwatts, "memcpy_bits_per_s": rate, "software": costs}
        return replace(self, **scaled, **own, os=replace(self.os, **system))
