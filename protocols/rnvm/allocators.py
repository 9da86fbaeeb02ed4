"""The allocators of rNVM as schemes: an object is a heap at the back-end, out of which front-ends allocate and free.

Source: rNVM, sections 4.4 and 5.4, table 1. ``rpc-allocator`` is its first design, ``two-tier`` what it uses, and
``pmem-allocator`` and ``glibc-allocator`` are what it compares with: software of others, of which only the price is
known, on the front-end's own machine.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Mapping
from typing import Any, ClassVar

from typing_extensions import override

from ...models.cpu import Thread
from ...models.system import Node
from ..guarantees import ALWAYS, Claims, Condition
from ..naming import Option
from ..parts.onesided import Door, Poster, VerbsError
from ..scheme import OperationFailed, OutcomeUnknown, Request, RequestStep, Role, Scheme
from ..structures.source import RNVM
from ..structures.space import NoRoom
from .bitmap import Bitmap
from .rfp import CallRequest, RfpCaller, RfpServer
from .slabs import ALLOCATE, BlockSource, LocalBlocks, RemoteBlocks, Slabs

Code = Generator[Any, Any, Any]
LINE = 64

SLAB = Option(
    1024, at_least=LINE, at_most=1 << 20, small=LINE, source="table 1: 128 and 1024 bytes; 1024 is the quicker",
    text="the bytes of a slab",
)  # fmt: skip
SURPLUS = Option(
    8, at_least=0, at_most=1 << 20, small=0, source="assumption: section 5.4 has a threshold and gives no number",
    text="so many slabs of a front-end may be empty before one is handed back",
)  # fmt: skip
BLOCK = Option(
    64, at_least=8, at_most=1 << 20, source="assumption: section 4.4 has blocks of one size and does not give it",
    text="the bytes of a block",
)  # fmt: skip


class Heaps:
    """The heaps of a machine, one for each object, and their bits before them."""

    def __init__(self, node: Node, block_bytes: int, blocks: int, count: int) -> None:
        bits = Bitmap.length(blocks)
        each = -(-blocks * block_bytes // LINE) * LINE
        self.device = node.memory["pm"] if "pm" in node.memory.devices else node.memory["dram"]
        self._bits = self.device.allocate(bits * count, "allocation bits", item_bytes=bits)
        self._heap = self.device.allocate(each * count, "heap", item_bytes=each)
        self._shape = bits, each, block_bytes, blocks, count

    def begin(self, kind: type[Bitmap] = Bitmap) -> list[Bitmap]:
        """The bitmaps, as a new process knows them."""
        bits, each, block_bytes, blocks, count = self._shape
        return [kind(self._bits + n * bits, self._heap + n * each, block_bytes, blocks) for n in range(count)]


class AllocatorSession:
    """A front-end process: the heaps as it reaches them, and the lengths of what it has."""

    def __init__(self, sources: list[BlockSource]) -> None:
        self.sources = sources
        self.lengths: dict[int, int] = {}
        """By address."""


class AllocatorScheme(Scheme):
    """What all have in common: a session with a source of blocks for each heap."""

    paper = RNVM
    section = "sections 4.4 and 5.4, table 1"
    model = "allocator"
    is_part = True
    operations = ("alloc", "free")
    updates = frozenset({"alloc", "free"})

    def block_bytes(self) -> int:
        """The bytes of a block of its heaps."""
        return max(int(self.option("block")), LINE if self.sizes.value_bytes > LINE else 8)

    def blocks(self) -> int:
        """How many blocks a heap has: for every update of the run, and some for every client."""
        return (self.sizes.updates + 2 * self.sizes.clients + 2) * self.blocks_each()

    def blocks_each(self) -> int:
        """How many blocks an update of the usual length may take."""
        return -(-self.sizes.value_bytes // self.block_bytes())

    class Client(Role, invokes=True):
        """A front-end."""

        scheme: AllocatorScheme

        @override
        def perform(self, session: AllocatorSession, request: Request) -> Code:
            step = request.step
            source = session.sources[self.sizes.objects.index(step.object)]
            try:
                if step.f == "alloc":
                    return (yield from self.allocate(session, source, step))
                return (yield from self.free(session, source, step))
            except VerbsError as error:
                raise OutcomeUnknown(str(error)) from error

        def allocate(self, session: AllocatorSession, source: BlockSource, step: RequestStep) -> Code:
            """The address of a block, None where there is no room."""
            length = step.number or self.sizes.value_bytes
            try:
                address = yield from source.allocate(length)
            except NoRoom:
                return None
            session.lengths[address] = length
            return address

        def free(self, session: AllocatorSession, source: BlockSource, step: RequestStep) -> Code:
            """Only its own blocks: of others' it does not know the length."""
            if step.number not in session.lengths:
                raise OperationFailed(f"no block of this front-end begins at {step.number}")
            yield from source.free(step.number, session.lengths.pop(step.number))

    @override
    def load(self, objects: Mapping[Hashable, bytes]) -> None:
        """All heaps begin empty, as memory does."""

    @override
    def probe(self, object: Hashable) -> Request:
        return Request.of("alloc", object)


class RemoteAllocator(AllocatorScheme):
    """Heaps at a back-end that a thread there serves."""

    claims: ClassVar[Claims] = {Condition.NO_LOST_ACK: ALWAYS, Condition.DURABLE: ALWAYS}

    class Server(Role, memory=("dram", "pm")):
        """The back-end."""

        scheme: AllocatorScheme
        bitmap: ClassVar[type[Bitmap]] = Bitmap

        def __init__(self, scheme: AllocatorScheme, node: Node, number: int) -> None:
            super().__init__(scheme, node, number)
            self.places = Heaps(node, scheme.block_bytes(), scheme.blocks(), len(self.sizes.objects))

        @override
        def begin(self) -> None:
            self.heaps = self.places.begin(self.bitmap)
            self.door = Door(self.node)
            self.calls = RfpServer(self.node, self.door, self.serve, self.sizes.clients)

        @override
        def start(self) -> None:
            thread = self.node.thread(0, self.node.name)
            self.node.process(self.node.name).start(self.calls.serve(thread))

        def serve(self, thread: Thread, request: CallRequest) -> Code:
            """An allocation or a free of some blocks of a heap."""
            heap = self.heaps[request.f >> 8]
            if request.f & 0xFF == ALLOCATE:
                return (yield from heap.allocate(thread, request.count)) or 0
            yield from heap.free(thread, request.address, request.count)
            return 0

    class Client(AllocatorScheme.Client, invokes=True):
        """A front-end with its calls."""

        scheme: RemoteAllocator

        @override
        def connect(self, thread: Thread) -> AllocatorSession:
            server = self.scheme.roles["server"][0]
            poster = Poster(thread, self.node, LINE)
            caller = server.calls.accept(poster, poster.connect(server.door))
            return AllocatorSession(
                [self.source(thread, caller, heap, number) for number, heap in enumerate(server.heaps)]
            )

        def source(self, thread: Thread, caller: RfpCaller, heap: Bitmap, number: int) -> BlockSource:
            """What a front-end allocates from."""
            return RemoteBlocks(caller, heap, number)


class RpcAllocator(RemoteAllocator, name="rpc-allocator"):
    """Each allocation is a call, each free one whose reply is not awaited."""

    title = "rNVM's first allocator: each malloc and free a call to the back-end"
    options: ClassVar[dict[str, Option]] = {"block": BLOCK}


class TwoTier(RemoteAllocator, name="two-tier"):
    """Slabs from the back-end, out of which the front-end allocates."""

    title = "rNVM's two-tier allocator: slabs by calls, objects in the front-end"
    section = "section 5.4, table 1"
    options: ClassVar[dict[str, Option]] = {"slab": SLAB, "surplus": SURPLUS}

    @override
    def block_bytes(self) -> int:
        return -(-int(self.option("slab")) // LINE) * LINE

    @override
    def blocks(self) -> int:
        each = self.block_bytes() // Slabs.taken_by(self.sizes.value_bytes)[0]
        return -(-self.sizes.updates // each) + 2 * self.sizes.clients + 2 if each else super().blocks()

    class Client(RemoteAllocator.Client, invokes=True):
        """A front-end with its slabs."""

        @override
        def source(self, thread: Thread, caller: RfpCaller, heap: Bitmap, number: int) -> BlockSource:
            calls = super().source(thread, caller, heap, number)
            return Slabs(thread, self.node, calls, heap.block_bytes, int(self.scheme.option("surplus")))


class LocalAllocator(AllocatorScheme):
    """A priced box on the front-end's machine, whose state is a bitmap there."""

    software: ClassVar[tuple[str, str]]
    """The names of what an allocation costs, and a free."""
    bitmap: ClassVar[type[Bitmap]] = Bitmap
    options: ClassVar[dict[str, Option]] = {"block": BLOCK}

    class Client(AllocatorScheme.Client, invokes=True):
        """The machine with the heap: its processes share it."""

        scheme: LocalAllocator

        def __init__(self, scheme: LocalAllocator, node: Node, number: int) -> None:
            super().__init__(scheme, node, number)
            self.places = Heaps(node, scheme.block_bytes(), scheme.blocks(), len(self.sizes.objects))

        @override
        def begin(self) -> None:
            self.heaps = self.places.begin(self.scheme.bitmap)

        @override
        def connect(self, thread: Thread) -> AllocatorSession:
            return AllocatorSession([LocalBlocks(thread, heap, self.scheme.software) for heap in self.heaps])


class Unflushed(Bitmap):
    """A bitmap that is not flushed."""

    @override
    def persist(self, thread: Thread, address: int, length: int) -> Code:
        yield from ()


class GlibcAllocator(LocalAllocator, name="glibc-allocator"):
    """``malloc`` and ``free``: nothing lasts."""

    title = "glibc's malloc, in volatile memory"
    section = "section 5.4, table 1: no persistence"
    claims: ClassVar[Claims] = {}
    software = ("malloc", "free")
    bitmap = Unflushed


class PmemAllocator(LocalAllocator, name="pmem-allocator"):
    """PMDK's allocator; the software's price is what its flushed line leaves of the published time."""

    title = "PMDK's allocator in the front-end's own persistent memory"
    section = "section 5.4, table 1; PMDK (nvml)"
    claims: ClassVar[Claims] = {Condition.NO_LOST_ACK: ALWAYS, Condition.DURABLE: ALWAYS}
    software = ("pmem_alloc", "pmem_free")

    class Client(LocalAllocator.Client, invokes=True, memory=("dram", "pm")):
        """The machine with the persistent heap."""
