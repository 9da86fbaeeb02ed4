"""What lies where in a back-end's persistent memory: the naming area, and for each structure its words, logs and data.

Source: rNVM, section 4.1 ("global naming"): a fixed place has each structure's roots, the addresses of its logs and
their LPNs. Places follow from sizes alone, so that whoever starts after a failure finds the naming area; all else is
read from there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from typing_extensions import override

from ...models.memory.devices import MemoryDevice
from ..layout import U64, Layout
from ..structures.space import Image
from .bitmap import Bitmap
from .records import LINE, WORD, Position, lines_of

if TYPE_CHECKING:
    from ..structures.structure import Structure

FIRST = 1
"""The number of a log's first record: what was never written has 0."""


class Name(Layout):
    """A structure's line in the naming area."""

    root = U64()
    memory_log = U64()
    operation_log = U64()
    log_lines = U64()
    data = U64()
    data_bytes = U64()


PAGE_BYTES = 4096
"""Memory is registered from the beginning of a page on: a front-end may READ all of it into its cache."""
EACH_BYTES = 1 << 16
"""Address space for the data of an object or an update; memory is there where it is written."""
BLOCKS_EACH = 11
"""The same in blocks, at least: the surplus that a front-end may keep, and some for whoever takes over after it."""
NAME_LINES = 5
"""The name, the sequence number, both LPNs, and the word that says which data are taken: each has a line."""


@dataclass
class Ring:
    """A log: ``lines`` lines, and as many behind them for the record that begins in the last ones.

    So a record never has two pieces: what follows it begins where it would end, counted around the ring.
    """

    address: int
    lines: int

    @property
    def length(self) -> int:
        """Bytes in all."""
        return 2 * self.lines * LINE

    def at(self, position: Position) -> int:
        """The address of the record at a position."""
        line: int = position.line
        return self.address + line * LINE

    def behind(self, position: Position, body_bytes: int) -> Position:
        """The position behind a record with a body of that length."""
        return self.place(position.sequence + 1, position.line + lines_of(body_bytes))

    def renumbered(self, position: Position) -> Position:
        """The same place with a number that no record has which is left in the ring from before."""
        return self.place(position.sequence + self.lines, position.line)

    def place(self, sequence: int, line: int) -> Position:
        """A position; lines are counted around the ring."""
        return Position.unpack(Position.pack(sequence=sequence, line=line % self.lines))


def word_of(position: Position) -> bytes:
    """A position as one word."""
    return Position.pack(sequence=position.sequence, line=position.line)


class Area:
    """The places of one structure: in the naming area its words, elsewhere its root, logs and data."""

    def __init__(
        self, pm: MemoryDevice, number: int, name: int, root_bytes: int, log_bytes: int, most: int, block_bytes: int
    ) -> None:
        """``name`` is where its lines of the naming area begin, ``most`` how many bytes of data it may have.

        The data are blocks of ``block_bytes`` each, of which a bitmap says which are taken; 0: there is none.
        """
        self.number = number
        self.name = name
        self.sequence = name + LINE
        """Where the sequence number SN lies: odd while a transaction is replayed."""
        self.lpn = name + 2 * LINE
        self.operations_lpn = name + 3 * LINE
        self.copied, self.operations_copied = self.lpn + WORD, self.operations_lpn + WORD
        """Beside each LPN: up to where the log is on the mirror, as a back-end says that copies it."""
        self.taken = name + 4 * LINE
        """The word that says up to which address data are taken."""
        self.root_bytes = -(-root_bytes // LINE) * LINE
        self.root = pm.allocate(self.root_bytes, "root")
        self.memory_log = Ring(0, log_bytes // LINE)
        self.operation_log = Ring(0, log_bytes // LINE)
        if log_bytes:
            self.memory_log.address = pm.allocate(self.memory_log.length, "memory log", item_bytes=LINE)
            self.operation_log.address = pm.allocate(self.operation_log.length, "operation log", item_bytes=LINE)
        self.block_bytes = block_bytes
        self.blocks = most // block_bytes if block_bytes else 0
        self.bits = pm.allocate(Bitmap.length(self.blocks), "allocation bits", item_bytes=LINE) if block_bytes else 0
        self.data = pm.allocate(most, "data", item_bytes=LINE)
        self.data_bytes = most

    def bitmap(self) -> Bitmap:
        """What the back-end's allocator knows of its blocks, as a new process."""
        return Bitmap(self.bits, self.data, self.block_bytes, self.blocks)

    def words(self) -> Iterator[tuple[int, bytes]]:
        """The naming area's words before time zero; nothing has been loaded."""
        yield self.name, Name.pack(
            root=self.root, memory_log=self.memory_log.address, operation_log=self.operation_log.address,
            log_lines=self.memory_log.lines, data=self.data, data_bytes=self.data_bytes,
        )  # fmt: skip
        first = Position.pack(sequence=FIRST, line=0)
        yield self.lpn, first
        yield self.operations_lpn, first


class AreaLayout(NamedTuple):
    """Where a machine has its structures: the same on every machine that is laid out for the same run."""

    areas: list[Area]
    start: int
    length: int

    @staticmethod
    def on(pm: MemoryDevice, scheme: Structure, log_bytes: int) -> AreaLayout:
        """Take the device's memory for all structures of a run, each with two logs of that length (0: with none)."""
        count, sizes = scheme.structures(), scheme.sizes
        start = pm.allocate(NAME_LINES * LINE * count, "naming", item_bytes=LINE)
        room = (pm.base + pm.space.size_bytes - start) // (2 * count) - 6 * log_bytes
        root_bytes, block_bytes = scheme.algorithm.root_bytes, scheme.mode.block_bytes()  # type: ignore[attr-defined]
        each = max(EACH_BYTES, BLOCKS_EACH * block_bytes)
        most = min(each * (len(sizes.objects) + sizes.updates + 1), room // LINE * LINE)
        areas = [
            Area(pm, turn, start + turn * NAME_LINES * LINE, root_bytes, log_bytes, most, block_bytes)
            for turn in range(count)
        ]
        page = start // PAGE_BYTES * PAGE_BYTES
        return AreaLayout(areas, page, areas[-1].data + most - page)


class Loading(Image):
    """The data of one structure while they are loaded."""

    def __init__(self, pm: MemoryDevice, area: Area) -> None:
        self.pm = pm
        self.area = area
        self.next = area.data

    @override
    def allocate(self, length: int) -> int:
        address = self.next
        self.next += -(-length // LINE) * LINE
        if self.next > self.area.data + self.area.data_bytes:
            raise MemoryError(f"no room for {self.next - self.area.data} bytes of data")
        return address

    @override
    def put(self, address: int, data: bytes) -> None:
        self.pm.space.poke(address - self.pm.base, data)

    @override
    def compute(self, address: int, length: int, source: Callable[[int], bytes]) -> None:
        first = (address - self.pm.base) // LINE
        self.pm.space.compute(address - self.pm.base, length, lambda line: source(line - first))

    def done(self) -> None:
        """All is loaded: the word, and the bits, that say what is taken."""
        area = self.area
        self.put(area.taken, self.next.to_bytes(WORD, "little"))
        if area.block_bytes:
            area.bitmap().reserve(self.pm, -(-(self.next - area.data) // area.block_bytes))
