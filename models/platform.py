"""Platforms: what the hardware of one system is like, read from ``platforms/*.yaml`` with every number's origin.

All times are integers of picoseconds, sizes are bytes, rates are bits per second. A profile is one YAML file;
``extends: other`` lets it state only what differs. A profile's *settings* are switches such as ``ddio: on | off``
that a scenario may turn.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ..sim.errors import InputError, Mistake, nearest
from .profile_reader import Group, Leaf, Parameter, Reader
from .profiles import Profile, Setting, profile_names, read_profile
from .rules import Switches

Domain = Literal["media", "adr", "eadr", "wsp", "none", "pmr"]
"""What of a memory device survives a power failure, beyond the medium itself (``none``: not even that)."""


@dataclass(frozen=True, slots=True)
class Headers:
    """Bytes that a packet carries beside its payload, link and transport together."""

    write_bytes: int
    """First or only packet of a WRITE (with RETH)."""
    middle_bytes: int
    """Middle and last packets of a WRITE or SEND, and middle packets of a READ response."""
    send_bytes: int
    immediate_bytes: int
    """What an immediate adds."""
    read_request_bytes: int
    read_response_bytes: int
    """First, last or only packet of a READ response (with AETH)."""
    ack_bytes: int


@dataclass(frozen=True, slots=True)
class Nic:
    """An RDMA adapter and what its user-space driver costs the CPU."""

    doorbell_ps: int
    """From the store to the adapter's register until the adapter sees it."""
    post_wqe_ps: int
    """CPU time to build one work request and ring the doorbell."""
    blueflame: bool
    """A post of a single work request carries it in the doorbell: no WQE fetch."""
    inline_max_bytes: int
    wqe_bytes: int
    tx_processing_ps: int
    """Adapter's time for one message, from knowing the WQE (and payload) to its first byte on the wire."""
    rx_processing_ps: int
    """Adapter's time for one packet, from its last byte on the wire to staging."""
    ack_processing_ps: int
    """From acceptance of a packet to its ACK's first byte on the wire, and again from the ACK's arrival to the CQE."""
    recv_processing_ps: int
    """What a SEND takes longer than a WRITE at the responder (matching a receive request)."""
    cqe_bytes: int
    poll_ps: int
    """CPU time of a poll that finds a completion."""
    staging_bytes: int
    """Inbound SRAM, volatile."""
    mtu_bytes: int
    outstanding_reads: int
    """READs and atomics that a queue pair may have under way."""
    rnr_timer_ps: int
    """Wait after an RNR NAK before the SEND is repeated."""
    headers: Headers


@dataclass(frozen=True, slots=True)
class Fabric:
    """Links and switches."""

    link_bits_per_s: int
    propagation_ps: int
    """Of one link."""
    switch_ps: int
    """Port to port, first bit in to first bit out."""


@dataclass(frozen=True, slots=True)
class Pcie:
    """The slot of the adapter; ``tlp_bits_per_s`` is after encoding and data-link packets, before TLP headers."""

    generation: int
    lanes: int
    tlp_bits_per_s: int
    mps_bytes: int
    """Maximum payload of a TLP."""
    mrrs_bytes: int
    """Maximum size of a read request."""
    rcb_bytes: int
    """Read completion boundary."""
    tlp_header_write_bytes: int
    tlp_header_read_bytes: int
    tlp_header_completion_bytes: int
    dma_read_ps: int
    """Round trip of a small read that misses the LLC and is answered by DRAM, without serialisation."""
    posted_write_ps: int
    """From the root port until coherent memory shows a posted write (LLC, or iio_wc with DDIO off)."""


@dataclass(frozen=True, slots=True)
class Llc:
    """The shared cache, and how the adapter's writes meet it."""

    size_bytes: int
    ways: int
    io_ways: int
    """Ways in which DMA writes that miss may allocate."""
    line_bytes: int
    ddio: bool
    """DMA writes allocate in the LLC; off: they pass through iio_wc to the memory controller."""
    dma_read_hit_saving_ps: int
    """What a DMA read saves when it hits."""
    iio_wc_drain_ps: int
    """From iio_wc to the write pending queue, undisturbed."""


@dataclass(frozen=True, slots=True)
class Imc:
    """The memory controllers of one node."""

    channels: int
    wpq_bytes: int
    """Write pending queue of one channel."""
    wpq_accept_ps: int
    """What one line takes to be accepted, per channel."""
    interleave_bytes: int


@dataclass(frozen=True, slots=True)
class Media:
    """A kind of DIMM."""

    line_bytes: int
    """What the medium writes at once (an XPLine of Optane)."""
    capacity_bytes: int
    """Of one DIMM."""
    load_ps: int
    """A core's load that misses all caches."""
    dma_read_extra_ps: int
    """What a DMA read that misses the LLC takes longer here than from DRAM."""
    write_ps: int
    """From the write pending queue to the medium, undisturbed."""
    read_bandwidth_bits_per_s: int
    """Of one DIMM."""
    write_bandwidth_bits_per_s: int
    """Of one DIMM."""
    clwb_to_wpq_ps: int
    """From the issue of a clwb or clflushopt until the line is in the write pending queue."""
    ntstore_to_wpq_ps: int


@dataclass(frozen=True, slots=True)
class Peer:
    """A kind of device beside the adapter on PCIe whose memory can be addressed: a drive's persistent memory region."""

    capacity_bytes: int
    pmrwbm: int
    """PMRCAP.PMRWBM: with bit 0 a read of the region is a write barrier, with bit 1 a read of PMRSTS."""
    ingress_bits_per_s: int
    """What it takes in."""
    peer_write_ps: int
    """From the adapter's root port to the device's buffer, serialisation at the device apart."""
    peer_read_ps: int
    """Round trip of a small read by the adapter, without serialisation."""
    settle_ps: int
    """From the device's buffer to where it lasts, undisturbed."""
    mmio_read_ps: int
    """A core's uncached load of up to ``mmio_width_bytes``."""
    mmio_width_bytes: int
    mmio_write_ps: int
    """From a core's store buffer to the device's buffer, serialisation at the device apart."""


@dataclass(frozen=True, slots=True)
class MemoryDevice:
    """A memory of a node, as protocols name it (``pm``, ``dram``, ``pmr``)."""

    device: str
    """The kind of DIMM or device: a key of ``Platform.media`` or of ``Platform.peers``."""
    domain: Domain
    dimms: int
    """How many of them there are, interleaved; of a device beside the adapter there is one."""


@dataclass(frozen=True, slots=True)
class Cpu:
    """The cores of a node. Times are what the issuing core is held."""

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
    ntstore_ps: int
    """Issue, per line."""
    sfence_ps: int
    """The fence itself, without what it waits for."""
    memcpy_bits_per_s: int
    crc32_ps_per_byte: int
    poll_loop_ps: int
    """One round of a loop that polls an empty completion queue."""
    spin_loop_ps: int
    """One round of a loop that looks at a cached word."""
    request_ps: int
    """Server software per request: parse, dispatch, look up, build the reply; without flushes, copies and CRCs."""


@dataclass(frozen=True, slots=True)
class Platform:
    """One profile with its settings chosen."""

    name: str
    title: str
    description: str
    settings: Mapping[str, str]
    """The settings in force: ``{"ddio": "on"}``."""
    line_atomicity: Literal["word", "whole"]
    """What of a line a power failure may leave before it is accepted whole: any of its 8 B words, or all or nothing."""
    nic: Nic
    fabric: Fabric
    pcie: Pcie
    llc: Llc
    imc: Imc
    media: Mapping[str, Media]
    memory: Mapping[str, MemoryDevice]
    cpu: Cpu
    origins: tuple[Parameter, ...] = field(repr=False, compare=False)
    peers: Mapping[str, Peer] = field(default_factory=dict)
    switches: Switches = field(default_factory=Switches)
    """How the ordering rules read what their sources leave open."""

    @property
    def iio_wc_survives(self) -> bool:
        """Whether eADR covers iio_wc."""
        return self.switches.iio_wc_survives

    def parameters(self) -> list[Parameter]:
        """Every value with its source, in the order of the dataclasses."""
        return list(self.origins)


_NOT_READ = ("name", "title", "description", "settings", "origins")


def platform_names() -> list[str]:
    """The shipped profiles."""
    return profile_names()


def platform_title(name: str) -> str:
    """What one profile is, in a line. Raises InputError like :func:`load_platform`."""
    return read_profile(name).title


def platform_settings(name: str) -> dict[str, Setting]:
    """The settings that a profile has. Raises InputError like :func:`load_platform`."""
    mistakes: list[Mistake] = []
    settings = read_profile(name).declared(mistakes)
    if mistakes:
        raise InputError(mistakes)
    return settings


def load_platform(name: str, **settings: str | bool | int) -> Platform:
    """A shipped profile by name, or a user's by the path to its YAML file, with ``settings`` over its defaults.

    Shipped profiles are read once. Raises InputError with every mistake at once: unknown names (with the nearest),
    values without a unit or a source, keys that are missing or unknown.
    """
    load = _load_shipped if name in platform_names() else _load
    return load(name, tuple(settings.items()))


def _load(name: str, settings: tuple[tuple[str, str | bool | int], ...]) -> Platform:
    profile = read_profile(name)
    reader = Reader()
    declared = profile.declared(reader.mistakes)
    chosen = {key: setting.default for key, setting in declared.items()}
    for key, value in settings:
        text = ("on" if value else "off") if isinstance(value, bool) else str(value)
        if key not in declared:
            known = f"one of {', '.join(declared)}" if declared else "no settings: this platform has none"
            found = f"the unknown setting '{key}' of {profile.name}"
            reader.mistakes.append(Mistake(found, known, nearest=nearest(key, declared)))
        elif text not in declared[key].values:
            expected = f"one of {', '.join(declared[key].values)}"
            found = f"'{text}' for the setting {key} of {profile.name}"
            reader.mistakes.append(Mistake(found, expected, nearest=nearest(text, declared[key].values)))
        else:
            chosen[key] = text
    for key, setting in declared.items():
        profile.put(setting, chosen[key], reader.mistakes)
    values = reader.read(Platform, profile.tree, skip=_NOT_READ)
    if not reader.mistakes:
        _check(values, profile, reader.mistakes)
    if reader.mistakes:
        raise InputError(reader.mistakes)
    return Platform(
        name=profile.name,
        title=profile.title,
        description=profile.description,
        settings=chosen,
        origins=tuple(reader.parameters),
        **values,
    )


_load_shipped = functools.lru_cache(maxsize=64)(_load)


def _check(values: Mapping[str, Any], profile: Profile, mistakes: list[Mistake]) -> None:
    """What no single value can tell."""
    file, tree = profile.source.file, profile.tree
    media, llc, nic = values["media"], values["llc"], values["nic"]

    def wrong(found: str, expected: str, path: str, close: str | None = None) -> None:
        at: Group | Leaf = tree
        for name in path.split("."):
            at = at.parts[name] if isinstance(at, Group) else at
        mistakes.append(Mistake(found, expected, at.origin.file or file, at.origin.line(at.path), path, close))

    for name, memory in values["memory"].items():
        _check_memory(name, memory, media, values.get("peers", {}), wrong)
    if llc.io_ways > llc.ways:
        wrong(str(llc.io_ways), f"at most the {llc.ways} ways of the cache", "llc.io_ways")
    if nic.mtu_bytes not in (256, 512, 1024, 2048, 4096):
        wrong(f"{nic.mtu_bytes} B", "256 B, 512 B, 1 KiB, 2 KiB or 4 KiB", "nic.mtu")
    for name, peer in values.get("peers", {}).items():
        if peer.pmrwbm > 3:
            wrong(str(peer.pmrwbm), "1, 2 or 3: bits 0 and 1 of PMRCAP.PMRWBM", f"peers.{name}.pmrwbm")
    for path, size in (("llc.line", llc.line_bytes), ("pcie.mps", values["pcie"].mps_bytes)):
        if size < 8 or size & (size - 1):
            wrong(f"{size} B", "a power of two from 8 B", path)


def _check_memory(
    name: str, memory: MemoryDevice, media: Mapping[str, Media], peers: Mapping[str, Peer], wrong: Callable[..., None]
) -> None:
    kinds = [*media, *peers]
    if memory.device not in kinds:
        expected = f"one of {', '.join(kinds)} (a key of media or peers)"
        wrong(f"'{memory.device}'", expected, f"memory.{name}.device", nearest(memory.device, kinds))
    elif memory.device in media and memory.domain == "pmr":
        expected = f"the domain of a DIMM; {memory.device} has no persistent memory region"
        wrong("'pmr'", expected, f"memory.{name}.domain")
    elif memory.device in peers and memory.domain not in ("pmr", "none", "wsp"):
        expected = f"pmr, wsp or none: {memory.device} is behind PCIe"
        wrong(f"'{memory.domain}'", expected, f"memory.{name}.domain")
    elif memory.device in peers and memory.dimms != 1:
        wrong(str(memory.dimms), f"1: {memory.device} is one device", f"memory.{name}.dimms")
