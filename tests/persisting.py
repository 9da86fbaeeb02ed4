"""A client, a server, and a primitive between them: what it took, and what may be lost at its end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rpsim.models.durability.places import Domain
from rpsim.models.durability.rules import Switches
from rpsim.models.durability.views import Views
from rpsim.models.persist.requester import PrimitiveRequester
from rpsim.models.persist.service import Service
from rpsim.models.primitives.language import Primitive
from rpsim.models.primitives.reader import parse_primitive
from rpsim.models.profiles.platform import Platform, load_platform
from rpsim.models.system import NodeSpec, System
from rpsim.models.verbs import FLUSHES, REMOTE, Access, Span
from rpsim.protocols.primitives import primitive

from .rig import LINE, images, line

HEADER = "name: mine\ntitle: mine\nsource: here\nstatus: proposed\n"


def written(steps: str, **fields: str) -> Primitive:
    """A primitive of these steps; ``fields`` are further lines of the file."""
    return parse_primitive(HEADER + "".join(f"{key}: {value}\n" for key, value in fields.items()) + steps, "mine.yaml")


def platform_of(
    domain: str = "adr", *, ddio: bool = True, switches: Mapping[str, bool] | None = None, **changes: Mapping[str, Any]
) -> Platform:
    """Optane behind a persistence domain; ``pmr`` is the region of a drive whose reads are write barriers.

    ``changes`` are those of its parts: ``nic={"mtu_bytes": 1024}``.
    """
    if domain == "pmr":
        profile = load_platform("pmr", pmrwbm=1)
        profile = replace(profile, memory={**profile.memory, "pm": profile.memory["pmr"]})
    else:
        profile = load_platform("optane-eadr" if domain == "eadr" else "optane-adr")
        profile = replace(profile, memory={**profile.memory, "pm": replace(profile.memory["pm"], domain=domain)})
    profile = replace(profile, llc=replace(profile.llc, ddio=ddio), **{"switches": Switches(**(switches or {}))})
    return replace(profile, **{name: replace(getattr(profile, name), **values) for name, values in changes.items()})


class World:
    """One client's queue pairs to one server, whose pool is 64 lines of persistent memory."""

    def __init__(
        self,
        what: str | Primitive,
        platform: Platform | None = None,
        *,
        choices: Mapping[str, str] | None = None,
        connections: int = 1,
        seed: int = 1,
        disturbance: Any = None,
        outages: Any = None,
        relaxed: bool = False,
        lines: int = 64,
        **service: Any,
    ) -> None:
        self.platform = platform or platform_of()
        self.primitive = what if isinstance(what, Primitive) else primitive(what, choices)
        specs = {"client": [NodeSpec(cores=connections)], "server": [NodeSpec(memory=("pm", "dram"))]}
        self.system = System(self.platform, specs, seed, outages=outages, disturbance=disturbance)
        self.clock = self.system.clock
        self.server, self.client = self.system.nodes["server"][0], self.system.nodes["client"][0]
        self.service = Service(self.primitive, self.server, **service)
        self.pm = self.server.memory["pm"]
        self.pool = self.pm.allocate(lines * LINE, "pool", align=4096)
        self._open(relaxed, lines)
        self.requesters = [self._connect(core) for core in range(connections)]
        self.requester = self.requesters[0]
        if self.service.needs_thread:
            self.clock.start(self.service.serve(self.server.thread(0, "server[0]")))

    def _open(self, relaxed: bool, lines: int) -> None:
        access = REMOTE | Access.IBV_ACCESS_RELAXED_ORDERING if relaxed else None
        if access is not None and self.pm.domain is not Domain.PMR:
            access |= FLUSHES
        self.service.register(self.pool, lines * LINE, access)

    def _connect(self, core: int) -> PrimitiveRequester:
        thread = self.client.thread(core, f"client[{core}]")
        thread.span = Span(f"operation of client {core}")
        return self.service.connect(thread, self.client)

    @property
    def now_ps(self) -> int:
        return self.clock.now_ps

    def address(self, number: int, offset: int = 0) -> int:
        return self.pool + number * LINE + offset

    def run(self, code: Any) -> Any:
        """Run code to its end; returns its value."""
        return self.clock.run_until(self.clock.start(code))

    def persist(self, *updates: tuple[int, bytes], requester: int = 0, **how: Any) -> list[tuple[int, int]]:
        """Persist these (line, data); returns where they are to be looked for."""
        pieces = [(self.address(number), data) for number, data in updates]
        return self.run(self.requesters[requester].persist(pieces, **how))

    def settle(self) -> None:
        """Let everything that is under way end."""
        self.clock.run_until(self.now_ps + 10**9)

    # what may be left -------------------------------------------------------------------------------------------
    def views(self) -> Views:
        domains = {device.number: Domain(device.domain) for device in self.server.devices}
        return Views(
            self.system.trace,
            domains,
            lambda key: bytes(LINE),
            whole_lines=True,
            iio_wc_survives=self.platform.switches.iio_wc_survives,
        )

    def keys(self, places: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
        found = []
        for address, length in places:
            device, offset = self.server.memory.locate(address)
            found += [(device.number, number) for number in range(offset // LINE, (offset + length - 1) // LINE + 1)]
        return found

    def images(self, places: Sequence[tuple[int, int]], at_ps: int | None = None) -> set[tuple[bytes, ...]]:
        """What the lines of these places may hold together if the power fails now, or at another instant."""
        return images(self.views(), self.keys(places), self.now_ps if at_ps is None else at_ps)

    def durable(self, places: Sequence[tuple[int, int]], data: bytes, at_ps: int | None = None) -> bool:
        """Whether these places certainly hold that if the power fails."""
        left = {b"".join(image) for image in self.images(places, at_ps)}
        start = places[0][0] % LINE
        return {image[start : start + len(data)] for image in left} == {data}


def outcome(what: str | Primitive, platform: Platform, data: bytes = line(1, 2), **how: Any) -> tuple[bool, World]:
    """Persist one update: whether it is certainly there at the primitive's end."""
    world = World(what, platform, **how)
    places = world.persist((0, data))
    return world.durable(places, data), world
