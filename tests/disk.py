"""A server with a drive, files on it, and what a power failure may leave of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from rpsim.models.durability.views import Views
from rpsim.models.profiles.platform import load_platform
from rpsim.models.storage.files import Open
from rpsim.models.system import NodeSpec, System

BLOCK = 4096
LINE = 64
US = 10**6


class Disk:
    """One server; ``volatile``: nothing protects the drive's write cache. Fields of drive and kernel by name."""

    def __init__(
        self, volatile: bool = False, cores: int = 4, kernel: dict[str, Any] | None = None, **drive: Any
    ) -> None:
        profile = load_platform("pmr")
        flash = replace(profile.drives["haishen5_flash"], volatile_cache=volatile, **drive)
        domain = "flash" if volatile else "plp"
        memory = {**profile.memory, "ssd": replace(profile.memory["ssd"], domain=domain)}
        platform = replace(
            profile,
            drives={"haishen5_flash": flash},
            memory=memory,
            kernel=replace(profile.kernel, **(kernel or {})),
        )
        self.system = System(platform, {"server": [NodeSpec(cores, ("dram", "pmr", "ssd"))]}, 1)
        self.node = self.system.nodes["server"][0]
        self.kernel = self.node.kernel
        self.os = platform.cpu.os
        self.files = self.kernel.file_system("ssd")
        self.drive = self.kernel.drive("ssd")
        self.clock, self.trace = self.system.clock, self.system.trace
        self.threads = [self.node.thread(core, f"thread {core}") for core in range(cores)]
        self.thread = self.threads[0]

    def run(self, *codes: Any) -> int:
        """Run code to its end; returns how long that took."""
        before = self.clock.now_ps
        for process in [self.clock.start(code) for code in codes]:
            self.clock.run_until(process)
        return self.clock.now_ps - before

    def rest(self) -> None:
        self.clock.run_until()

    def buffer(self, data: bytes, device: str = "dram") -> int:
        memory = self.node.memory[device]
        address = memory.allocate(len(data), "buffer", align=BLOCK)
        memory.space.poke(address - memory.base, data)
        return address

    def views(self) -> Views:
        device = self.node.memory["ssd"]
        return Views(self.trace, {device.number: device.domain}, lambda _: bytes(LINE))

    def images(self, *lines: int, at: int | None = None) -> set[tuple[bytes, ...]]:
        """All that these lines of the drive may hold together after a power failure."""
        at = self.clock.now_ps if at is None else at
        return set(_joint(self.views(), self.node.memory["ssd"].number, lines, at, {}))


def _joint(views: Views, number: int, lines: tuple[int, ...], at: int, cut: Any) -> Iterator[tuple[bytes, ...]]:
    if not lines:
        yield ()
        return
    for content in views.contents((number, lines[0]), at, cut):
        for rest in _joint(views, number, lines[1:], at, content.cut):
            yield (content.data, *rest)


def first_line(file: Any, offset: int = 0) -> int:
    """The number of the drive's line that holds a byte of a file."""
    return (file.inode.base + offset) // LINE


DIRECT = Open.O_DIRECT
