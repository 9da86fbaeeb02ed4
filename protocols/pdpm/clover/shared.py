"""What the parts of Clover share: its options' values, where buffers lie, who serves, the history of buffers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from typing_extensions import override

from ....models.meter import PartHistory
from ....models.system import System
from ....sim.units import parse_share
from ...scheme import Sizes
from ..data import DataRegion, OverData
from .header import ChainCursor, Pointer
from .pool import Geometry, Pool
from .space import BufferSpace

HISTORY_OF = 1024
"""Up to so many keys the history of buffers is kept."""


class CloverParts(OverData):
    """The scheme as its roles see it; ``clover.py`` has the rest."""

    def __init__(self, system: System, sizes: Sizes) -> None:
        self.copies = int(self.option("replicas"))
        self.batch = int(self.option("batch"))
        self.checks = self.option("gc") == "versions"
        self.pool = self._pool(sizes, len(system.nodes["data"]))
        self.buffers_history = PartHistory(system.clock)
        self.histories = {"buffers": self.buffers_history.rows}
        self._out: set[int] = set()
        """By that history: the buffers that are not free."""
        super().__init__(system, sizes)
        self.geometry = Geometry(self.pool, self.roles["data"])

    @classmethod
    def _pool(cls, sizes: Sizes, nodes: int) -> Pool:
        copies, batch = int(cls.option("replicas")), int(cls.option("batch"))
        return Pool(sizes, nodes, copies, float(cls.option("spare")), batch, int(cls.option("copied")))

    @override
    @classmethod
    def data_regions(cls, sizes: Sizes, nodes: int) -> Sequence[DataRegion]:
        return cls._pool(sizes, nodes).regions()

    def cached_keys(self) -> int | None:
        """Of how many keys a client machine caches metadata; None: of all."""
        millionths = parse_share(str(self.option("cache")))
        return None if millionths == 10**6 else millionths * len(self.sizes.objects) // 10**6

    # metadata servers ------------------------------------------------------------------------------------------------
    def serving(self) -> Any:
        """The metadata server that serves from its start on: the first, or after a failure the only one that is not
        lost. Several find out first whose rows are the newest.
        """
        servers = self.roles["metadata"]
        if not self.failed("metadata"):
            return servers[0]
        there = [one for one in servers if one not in self.lost("metadata")]
        return there[0] if len(there) == 1 and there[0] in self.failed("metadata") else None

    def nobody_lives(self) -> bool:
        """Whether all clients have failed with the machines that recover."""
        return not self.standing("client")

    def full_space(self) -> BufferSpace:
        """All buffers as they are before time zero: those that nothing is loaded into are free."""
        free = [range(self.pool.loaded, self.pool.buffers) for _ in range(self.pool.nodes)]
        return BufferSpace(self.pool, free, checks=self.checks)

    def empty_space(self) -> BufferSpace:
        """No free buffers, and nothing known of any."""
        return BufferSpace(self.pool, [[] for _ in range(self.pool.nodes)], checks=self.checks, known=False)

    def loaded_chain(self, key: int) -> ChainCursor | None:
        """A key's chain before time zero, as the metadata server and the clients know it."""
        raise NotImplementedError

    def given(self, process: str, pointer: Pointer) -> None:
        """A buffer has been given to a client."""
        self._note(process, "alloc", pointer)

    def freed(self, process: str, pointer: Pointer) -> None:
        """A buffer has come back."""
        self._note(process, "free", pointer)

    def found_free(self, process: str, pointer: Pointer) -> None:
        """The metadata server takes a buffer for free: it has come back, if somebody had it and nobody has it now.

        The history alone looks into clients' hands, where a buffer with two owners shows.
        """
        libraries = [client.library for client in self.standing("client")]
        held = {one.location for library in libraries if library.in_contact() for one in library.held()}
        if pointer.location in self._out - held:
            self.freed(process, pointer)

    def _note(self, process: str, f: str, pointer: Pointer) -> None:
        if len(self.sizes.objects) <= HISTORY_OF:
            (self._out.add if f == "alloc" else self._out.discard)(pointer.location)
            size = self.pool.buffer_bytes
            address = pointer.location * size
            self.buffers_history.add(process, "invoke", f, size if f == "alloc" else address)
            self.buffers_history.add(process, "ok", f, [address, size] if f == "alloc" else address)
