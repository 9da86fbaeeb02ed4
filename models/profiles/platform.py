"""Platforms: the hardware of one system, read from ``platforms/*.yaml`` with every number's origin.

All times are integers of picoseconds, sizes are bytes, rates are bits per second. A profile is one YAML file;
``extends: other`` lets it state only what differs. A profile's *settings* are switches such as ``ddio: on | off``
that a scenario may turn.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from ...sim.cursor import Cursor
from ...sim.errors import Mistake, nearest
from ..durability.places import Domain
from ..durability.rules import Switches
from .kinds import KindParameters, find_kinds
from .parameters import pcie_rate
from .parameters.adapter import NicParameters
from .parameters.caches import LlcParameters, PrivateCacheParameters, TlbParameters
from .parameters.cost import ADAPTER, HOST, PartCost
from .parameters.cpu import CpuParameters
from .parameters.fabric import FabricParameters
from .parameters.memory import ImcParameters, MediaParameters, MemoryParameters
from .parameters.pcie import PcieParameters
from .parameters.sockets import InterconnectParameters, SocketParameters
from .parameters.storage import DriveParameters, KernelParameters, PeerParameters
from .parameters.tails import TailParameters
from .parameters.transport import TransportParameters
from .profiles import ProfileSetting, profile_names, read_profile
from .reader import Group, Parameter, ProfileReader, place
from .tails import check_tails


@dataclass(frozen=True, slots=True)
class Platform:
    """One profile with its settings chosen."""

    name: str
    title: str
    description: str
    settings: Mapping[str, str]
    """The settings in force: ``{"ddio": "on"}``."""
    line_atomicity: Literal["word", "whole"]
    """The parts of a line that a power failure may leave before it is accepted whole: any of its 8 B words, or all or
    nothing.
    """
    nic: NicParameters
    fabric: FabricParameters
    pcie: PcieParameters
    llc: LlcParameters
    imc: ImcParameters
    media: Mapping[str, MediaParameters]
    memory: Mapping[str, MemoryParameters]
    cpu: CpuParameters
    origins: tuple[Parameter, ...] = field(repr=False, compare=False)
    peers: Mapping[str, PeerParameters] = field(default_factory=dict)
    devices: Mapping[str, KindParameters] = field(default_factory=dict)
    """Memory of kinds that have a file of their own (``models.profiles.kinds``)."""
    private: PrivateCacheParameters = field(default_factory=PrivateCacheParameters)
    """The caches that each core has to itself."""
    tlb: TlbParameters = field(default_factory=TlbParameters)
    drives: Mapping[str, DriveParameters] = field(default_factory=dict)
    kernel: KernelParameters = field(default_factory=KernelParameters)
    transport: TransportParameters = field(default_factory=TransportParameters)
    sockets: Mapping[str, SocketParameters] = field(default_factory=dict)
    """By name, in the order in which cores are numbered; none: a machine is one socket."""
    interconnect: InterconnectParameters = field(default_factory=InterconnectParameters)
    """The link between sockets."""
    tails: TailParameters = field(default_factory=TailParameters)
    """What makes a few operations take longer, as far as it is switched on."""
    switches: Switches = field(default_factory=Switches)
    """How the ordering rules read what their sources leave open."""
    cost: Mapping[str, PartCost] = field(default_factory=dict)
    """Prices by part of a machine: ``host``, ``adapter``, a name in ``memory``; a name in ``cpu.types`` for a machine
    with such cores, in place of ``host``. No shipped profile has any: they are a study's own.
    """

    @property
    def iio_wc_survives(self) -> bool:
        """Whether eADR covers the I/O write cache."""
        return self.switches.iio_wc_survives

    @property
    def poll_ps(self) -> int:
        """A poll that finds a completion: with DDIO off its line is in DRAM, and no cache has it."""
        dram = self.media.get(self.memory["dram"].device) if "dram" in self.memory else None
        if self.llc.ddio or self.llc.completions == "at_hand" or dram is None:
            return self.nic.poll_ps
        return self.nic.poll_ps + max(0, dram.load_ps - self.llc.load_ps)

    def kind_of(self, name: str) -> MediaParameters | PeerParameters | KindParameters | DriveParameters:
        """The parameters of a kind of DIMM or device, as ``MemoryParameters.device`` names it."""
        for kinds in (self.media, self.peers, self.devices, self.drives):
            if name in kinds:
                return kinds[name]
        raise KeyError(name)

    def parameters(self) -> list[Parameter]:
        """Every value with its source, in the order of the dataclasses."""
        return list(self.origins)


PAGES = (4 << 10, 2 << 20, 1 << 30)
"""Sizes of pages of x86."""
TABLES = ("contexts", "protection", "translations", "work_requests")
"""The host's tables of which an adapter may have a cache (``models.nic.sram``)."""
_OF_DIMMS = (Domain.MEDIA, Domain.ADR, Domain.EADR, Domain.WSP, Domain.NONE)
_OF_PEERS = (Domain.PMR, Domain.WSP, Domain.NONE)
_GROUPS = "media, peers, devices or drives"
_NOT_READ = ("name", "title", "description", "settings", "origins")


def platform_names() -> list[str]:
    """The names of the shipped profiles."""
    return profile_names()


def platform_title(name: str) -> str:
    """The title of one profile. Raises InputError like :func:`load_platform`."""
    return read_profile(name).title


def platform_settings(name: str) -> dict[str, ProfileSetting]:
    """The settings that a profile has. Raises InputError like :func:`load_platform`."""
    profile = read_profile(name)
    settings = profile.declared()
    profile.at.finish()
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
    declared = profile.declared()
    reader, mistakes = ProfileReader(profile.choices(declared.values())), profile.at.mistakes
    chosen = {key: setting.default for key, setting in declared.items()}
    for key, value in settings:
        text = ("on" if value else "off") if isinstance(value, bool) else str(value)
        if key not in declared:
            known = f"one of {', '.join(declared)}" if declared else "no settings: this platform has none"
            found = f"the unknown setting '{key}' of {profile.name}"
            mistakes.append(Mistake(found, known, nearest=nearest(key, declared)))
        elif text not in declared[key].values:
            expected = f"one of {', '.join(declared[key].values)}"
            found = f"'{text}' for the setting {key} of {profile.name}"
            mistakes.append(Mistake(found, expected, nearest=nearest(text, declared[key].values)))
        else:
            chosen[key] = text
    given = {key for key, _ in settings}
    for key, setting in declared.items():
        stated = None if key in given else profile.stated.get(key)
        if stated is None:
            profile.put(setting, chosen[key])
        else:
            chosen[key] = stated
    if "devices" in profile.tree.parts:
        find_kinds()
    values = reader.read(Platform, profile.tree, skip=_NOT_READ)
    if not mistakes:
        _check(values, profile.tree)
    mistakes.finish()
    return Platform(
        name=profile.name,
        title=profile.title,
        description=profile.description,
        settings=chosen,
        origins=tuple(reader.parameters),
        **values,
    )


_load_shipped = functools.lru_cache(maxsize=64)(_load)


def _check(values: Mapping[str, Any], tree: Group) -> None:
    """Report mistakes that only several values together make."""
    llc, nic = values["llc"], values["nic"]

    def wrong(found: str, expected: str, path: str, close: str | None = None) -> None:
        part: Group | Cursor = tree
        for name in path.split("."):
            part = part.parts[name] if isinstance(part, Group) else part
        place(part).wrong(expected, found, close)

    for name, memory in values["memory"].items():
        _check_memory(name, memory, values, wrong)
    if llc.io_ways > llc.ways:
        wrong(str(llc.io_ways), f"at most the {llc.ways} ways of the cache", "llc.io_ways")
    private, tlb = values.get("private", PrivateCacheParameters()), values.get("tlb", TlbParameters())
    if private.l2_bytes and not llc.line_bytes * private.l1_ways <= private.l1_bytes <= private.l2_bytes:
        expected = "a first level of a set of lines at least, and no larger than the second"
        wrong(f"a first level of {private.l1_bytes} B", expected, "private.l2")
    if tlb.page_bytes not in PAGES:
        wrong(f"{tlb.page_bytes} B", "4 KiB, 2 MiB or 1 GiB", "tlb.page")
    if nic.mtu_bytes not in (256, 512, 1024, 2048, 4096):
        wrong(f"{nic.mtu_bytes} B", "256 B, 512 B, 1 KiB, 2 KiB or 4 KiB", "nic.mtu")
    for name in nic.caches:
        if name not in TABLES:
            found, expected = f"the unknown cache '{name}'", f"one of {', '.join(TABLES)}"
            wrong(found, expected, f"nic.caches.{name}", nearest(name, TABLES))
    for name, peer in values.get("peers", {}).items():
        if peer.pmrwbm > 3:
            wrong(str(peer.pmrwbm), "1, 2 or 3: bits 0 and 1 of PMRCAP.PMRWBM", f"peers.{name}.pmrwbm")
    parts = (HOST, ADAPTER, *values["memory"], *values["cpu"].types)
    for name in values.get("cost", {}):
        if name not in parts:
            wrong(f"the unknown part '{name}'", f"one of {', '.join(parts)}", f"cost.{name}", nearest(name, parts))
    _check_storage(values, wrong)
    _check_sockets(values, wrong)
    check_tails(values, wrong)
    pcie = values["pcie"]
    for path, found, known in (
        ("pcie.generation", pcie.generation, pcie_rate.GIGATRANSFERS),
        ("pcie.lanes", pcie.lanes, pcie_rate.LANES),
    ):
        if found not in known:
            wrong(str(found), f"one of {', '.join(map(str, known))}", path)
    if pcie.posted_data_bytes < pcie.mps_bytes:
        wrong(f"{pcie.posted_data_bytes} B", f"at least the {pcie.mps_bytes} B of pcie.mps", "pcie.posted_data")
    for path, size in (
        ("llc.line", llc.line_bytes),
        ("pcie.mps", pcie.mps_bytes),
        ("pcie.mrrs", pcie.mrrs_bytes),
        ("pcie.rcb", pcie.rcb_bytes),
    ):
        if size < 8 or size & (size - 1):
            wrong(f"{size} B", "a power of two from 8 B", path)


def _check_memory(name: str, memory: MemoryParameters, values: Mapping[str, Any], wrong: Callable[..., None]) -> None:
    media: Mapping[str, MediaParameters] = values["media"]
    peers: Mapping[str, PeerParameters] = values.get("peers", {})
    devices: Mapping[str, KindParameters] = values.get("devices", {})
    drives: Mapping[str, DriveParameters] = values.get("drives", {})
    kinds = [*media, *peers, *devices, *drives]
    if memory.device not in kinds:
        expected = f"one of {', '.join(kinds)} (a key of {_GROUPS if devices else 'media, peers or drives'})"
        wrong(f"'{memory.device}'", expected, f"memory.{name}.device", nearest(memory.device, kinds))
    elif memory.device in media:
        if memory.domain not in _OF_DIMMS:
            expected = f"the domain of a DIMM; {memory.device} is no drive and has no persistent memory region"
            wrong(f"'{memory.domain}'", expected, f"memory.{name}.domain")
    elif memory.device in drives:
        _check_drive(name, memory, drives[memory.device], wrong)
    else:
        allowed = devices[memory.device].domains if memory.device in devices else _OF_PEERS
        if memory.domain not in allowed:
            *others, last = allowed
            words = f"{', '.join(others)} or {last}" if others else last
            wrong(f"'{memory.domain}'", f"{words}: {memory.device} is behind PCIe", f"memory.{name}.domain")
        elif memory.domain is Domain.PMR and memory.device in peers and not peers[memory.device].pmrwbm:
            wrong("'pmr'", f"none or wsp: {memory.device} has no write barrier (pmrwbm)", f"memory.{name}.domain")
        elif memory.dimms != 1:
            wrong(str(memory.dimms), f"1: {memory.device} is one device", f"memory.{name}.dimms")


def _check_drive(name: str, memory: MemoryParameters, drive: DriveParameters, wrong: Callable[..., None]) -> None:
    domains = ("flash", "none") if drive.volatile_cache else ("plp", "none")
    if memory.domain not in domains:
        cache = "a volatile" if drive.volatile_cache else "a protected"
        expected = f"{' or '.join(domains)}: {memory.device} has {cache} write cache"
        wrong(f"'{memory.domain}'", expected, f"memory.{name}.domain")
    elif memory.dimms != 1:
        wrong(str(memory.dimms), f"1: {memory.device} is one device", f"memory.{name}.dimms")


def _check_sockets(values: Mapping[str, Any], wrong: Callable[..., None]) -> None:
    """What belongs to a socket belongs to one that there is, and there is a link between two."""
    sockets: Mapping[str, SocketParameters] = values.get("sockets", {})
    expected = f"one of {', '.join(sockets)}" if sockets else "nothing: this platform has no sockets"
    named = [(f"memory.{name}", memory.socket) for name, memory in values["memory"].items()]
    for path, socket in (*named, ("nic", values["nic"].socket), ("cpu", values["cpu"].socket)):
        if socket and socket not in sockets:
            wrong(f"the unknown socket '{socket}'", expected, f"{path}.socket", nearest(socket, sockets))
    interconnect: InterconnectParameters = values.get("interconnect", InterconnectParameters())
    if len(sockets) > 1 and not (interconnect.link_bits_per_s and interconnect.crossing_ps):
        found = "a link without " + ("a bandwidth" if interconnect.crossing_ps else "the time of a crossing")
        missing = "link" if interconnect.crossing_ps else "crossing"
        wrong(found, f"interconnect.{missing}, since there are {len(sockets)} sockets", "sockets")
    cores = sum(socket.cores for socket in sockets.values())
    if sockets and cores != values["cpu"].cores:
        wrong(f"{cores} cores on {len(sockets)} sockets", f"the {values['cpu'].cores} cores of cpu.cores", "sockets")


def _check_storage(values: Mapping[str, Any], wrong: Callable[..., None]) -> None:
    """Blocks and pages fit into one another, and contents to be saved after a power failure are saved in time."""
    for name, drive in values.get("drives", {}).items():
        at = f"drives.{name}"
        if drive.block_bytes % drive.atomic_bytes:
            wrong(f"{drive.atomic_bytes} B", f"a part of the block of {drive.block_bytes} B", f"{at}.atomic")
        page_bytes = values["kernel"].page_bytes if "kernel" in values else KernelParameters().page_bytes
        if page_bytes % drive.block_bytes:
            expected = f"what pages of {page_bytes} B are made of"
            wrong(f"{drive.block_bytes} B", expected, f"{at}.block" if drive.block_bytes != 4096 else at)
        if drive.memory and drive.memory not in values["memory"]:
            expected = f"one of {', '.join(values['memory'])}"
            wrong(f"'{drive.memory}'", expected, f"{at}.memory", nearest(drive.memory, values["memory"]))
        if not drive.volatile_cache:
            _check_hold_up(drive.cache_bytes, drive.drain_bits_per_s, drive.hold_up_ps, f"{at}.hold_up", wrong)
    for name, peer in values.get("peers", {}).items():
        if peer.buffer_bytes and not peer.sustained_bits_per_s:
            wrong(f"{peer.buffer_bytes} B", "a buffer with what it hands on (sustained)", f"peers.{name}.buffer")
        if peer.save_bits_per_s:
            hold_up = f"peers.{name}.hold_up"
            _check_hold_up(peer.capacity_bytes, peer.save_bits_per_s, peer.hold_up_ps, hold_up, wrong)


def _check_hold_up(n_bytes: int, bits_per_s: int, hold_up_ps: int, path: str, wrong: Callable[..., None]) -> None:
    """Capacitors last until all that they protect is on flash; 0: not stated."""
    needed_ps = n_bytes * 8 * 10**12 // bits_per_s
    if 0 < hold_up_ps < needed_ps:
        wrong(f"{hold_up_ps / 10**9:g} ms", f"at least {needed_ps / 10**9:g} ms, to save {n_bytes} B", path)
