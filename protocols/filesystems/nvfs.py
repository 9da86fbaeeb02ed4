"""NVFS: HDFS's write pipeline on persistent memory; blocks travel by SEND down a chain of data nodes, which flush them.

Source: Duan et al., SC'21, table 1, names NVFS (Islam et al., ICS'16: HDFS over persistent memory and RDMA) with "SEND,
RC", and nothing more of it was at hand: everything else here is a reading, of HDFS as its own documentation describes
it. A client asks the name node for a block and its pipeline of data nodes, and sends the block to the first one. Each
data node's CPU copies it from the receive buffer to its place in persistent memory, flushes it, sends it on to the next
one, and answers when that has answered. Then the client has the name node complete the file. A read asks the name node
for the file's block, and the block's data nodes in turn for its data, until one has it whole by its checksum.

What the sources leave open is read so. A file is one block. A write is of a new block that takes the old one's place
when it is completed (as a new file that is renamed over the old one); blocks are not used again in a run. The name
node's journal is on persistent memory, too: a word for each file, and one that counts the blocks given out, each
stored and flushed before the answer. Block n is on ``replicas`` data nodes from n modulo their number on; its pipeline
has them in the order of their own numbers, so that no two wait for each other; a data node serves one block after the
other. One checksum covers a block, and the data node compares it when the block is read (HDFS has one for each 512
bytes, which the client compares). That a machine is lost for good is known to all: clients and the data node before it
leave it out, and copies are not made up for; one whose power comes back is waited for. Nothing is recovered: a block
that is not whole is in no file, or is read elsewhere. Over a primitive without a reply of the data node's CPU, that is
asked by a message to pass the block on.
"""

from __future__ import annotations

import zlib
from collections.abc import Hashable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import ClassVar

from typing_extensions import override

from ...models.cpu import Thread
from ...models.persist.service import ServiceEnd
from ...models.primitives.order import Range
from ...models.system import Node, System
from ...sim.bytespace import LINE_BYTES, round_up
from ..guarantees import Claims
from ..layout import U32, U64, WORD, Block, Layout, Rest, number_in, word_of
from ..naming import Option
from ..parts.rpc import Handler, Listener
from ..scheme import OperationFailed, Request, Role, Scheme, Sizes
from .machines import (
    FAILURES,
    PAGE_BYTES,
    Code,
    DataLink,
    FileClient,
    MachineLink,
    MachineLost,
    ToldService,
    check_place,
    check_refusal,
    fill,
    replies,
)  # fmt: skip

Handlers = Mapping[type[Layout], Handler]
DONE = b"done"
BROKEN = b""
"""A data node's reply where it has no such block whole: shorter than any value."""


class BlockData(Layout):
    """A block as it lies on a data node."""

    crc = U32()
    """Of the data."""
    length = U32()
    """Of the data; 0: nothing has come."""
    unused = Block(56)
    data = Rest()


class AddBlock(Layout):
    """To the name node: a new block. The reply is its number."""

    file = U32()


class Complete(Layout):
    """To the name node: the block is the file's from now on."""

    file = U32()
    block = U64()


class Locate(Layout):
    """To the name node: the block of a file. The reply is its number."""

    file = U32()


class PassOn(Layout):
    """To a data node: a block has come, which belongs to the next one too."""

    block = U64()


class ReadBlock(Layout):
    """To a data node: the reply is the data, or BROKEN."""

    block = U64()


HEAD = BlockData.size


def packed(data: bytes) -> bytes:
    """A block's bytes."""
    return BlockData.pack(crc=zlib.crc32(data), length=len(data), unused=bytes(56), data=data)


class Nvfs(Scheme, name="nvfs"):
    """Two calls to the name node; between them a SEND and an answer for each data node."""

    title = "NVFS: HDFS's pipeline, blocks by SEND; each data node's CPU copies, flushes and passes on"
    paper = "Islam et al., ICS'16 (NVFS)"
    section = "a reading of HDFS; Duan et al., SC'21, table 1"
    operations = ("put", "get")
    updates = frozenset({"put"})
    claims: ClassVar[Claims] = {}
    faults: ClassVar = {
        "name-node": ("power", "process", "lost"), "data-node": ("power", "process", "lost"),
        "client": ("power", "process"), "all": ("power",),
    }  # fmt: skip
    over = "send-cpu-copy"
    options: ClassVar[dict[str, Option]] = {
        "replicas": Option(3, at_least=1, at_most=8, source="HDFS's dfs.replication", text="data nodes of each block"),
    }  # fmt: skip

    def __init__(self, system: System, sizes: Sizes) -> None:
        self.blocks = len(sizes.objects) + 3 * sizes.updates + 1
        """So many there are: some writes are done again."""
        self.block_room = HEAD + round_up(sizes.value_bytes)
        super().__init__(system, sizes)

    @override
    @classmethod
    def composed(cls) -> None:
        check_place(cls)

    @property
    def name_node(self) -> Nvfs.NameNode:
        """The only one."""
        node: Nvfs.NameNode = self.roles["name-node"][0]
        return node

    def pipeline(self, block: int) -> Sequence[Nvfs.DataNode]:
        """A block's data nodes that are not lost, in their order."""
        nodes, lost = self.roles["data-node"], self.lost("data-node")
        numbers = {(block + copy) % len(nodes) for copy in range(int(self.option("replicas")))}
        return [nodes[number] for number in sorted(numbers) if nodes[number] not in lost]

    class Client(FileClient):
        """A machine whose processes write and read files."""

        scheme: Nvfs

        @override
        def connect(self, thread: Thread) -> NvfsSession:
            return NvfsSession(thread, self.node, self.scheme)

        @override
        def write(self, session: NvfsSession, number: int, value: bytes) -> Code:
            """A block down its pipeline, then the file; with another block where the pipeline breaks."""
            yield from session.thread.crc32_of(value)
            while True:
                block = number_in((yield from session.names.call(AddBlock, file=number)))
                if block >= self.scheme.blocks:
                    raise OperationFailed("no block is left")
                if (yield from self.send(session, block, packed(value))):
                    break
                session.thread.count("pipelines broken")
                yield from session.restore()
            yield from session.names.call(Complete, file=number, block=block)

        def send(self, session: NvfsSession, block: int, data: bytes) -> Code:
            """Send a block to the first data node; whether all of the pipeline have it."""
            pipeline = self.scheme.pipeline(block)
            if not pipeline:
                raise MachineLost("no data node is left")
            try:
                yield from session.to(pipeline[0]).send(block, data)
            except MachineLost:
                return False
            except FAILURES as error:
                check_refusal(error)
                return False
            return True

        @override
        def read(self, session: NvfsSession, number: int) -> Code:
            """The file's block from the first data node that has it whole."""
            block = number_in((yield from session.names.call(Locate, file=number)))
            for data_node in self.scheme.pipeline(block):
                with suppress(MachineLost):
                    reply = yield from session.to(data_node).call(ReadBlock, block=block)
                    if reply != BROKEN:
                        return reply
            raise OperationFailed("no data node has the block")

    class NameNode(Role, memory=("dram", "pm")):
        """It knows each file's block, and which blocks have been given out."""

        scheme: Nvfs

        def __init__(self, scheme: Nvfs, node: Node, number: int) -> None:
            super().__init__(scheme, node, number)
            self.pm = node.memory["pm"]
            length = len(self.sizes.objects) * LINE_BYTES
            self.read_bytes = WORD
            self.files = self.pm.allocate(length, "files", item_bytes=LINE_BYTES, align=PAGE_BYTES)
            self.given = self.pm.allocate(LINE_BYTES, "blocks given", align=PAGE_BYTES)

        @override
        def begin(self) -> None:
            handlers: Handlers = {AddBlock: self.on_add_block, Complete: self.on_complete, Locate: self.on_locate}
            self.listener = Listener(self.node, handlers)

        @override
        def start(self) -> None:
            self.node.process(self.node.name).start(self.listener.serve(self.node.thread(0, self.node.name)))
            self.listener.listen()

        def file(self, number: int) -> int:
            """Where the number of a file's block is."""
            return self.files + number * LINE_BYTES

        def on_add_block(self, thread: Thread, request: AddBlock) -> Code:
            """Give out a block that nobody has."""
            block = yield from thread.load(self.given, WORD)
            yield from self.journal(thread, self.given, word_of(number_in(block) + 1))
            return block

        def on_complete(self, thread: Thread, request: Complete) -> Code:
            """The file has another block."""
            yield from self.journal(thread, self.file(request.file), word_of(request.block))
            return DONE

        def on_locate(self, thread: Thread, request: Locate) -> Code:
            """Which block the file has."""
            return (yield from thread.load(self.file(request.file), WORD))

        def journal(self, thread: Thread, address: int, data: bytes) -> Code:
            """Store a word, and flush it."""
            yield from thread.store(address, data)
            yield from thread.flush(address, WORD)

    class DataNode(Role, memory=("dram", "pm"), cores=2, many=True, at_least_by="replicas"):
        """It has blocks; one core does the primitive's steps and passes on, the other one serves reads."""

        scheme: Nvfs

        def __init__(self, scheme: Nvfs, node: Node, number: int) -> None:
            super().__init__(scheme, node, number)
            self.pm = node.memory["pm"]
            self.length = scheme.blocks * scheme.block_room
            self.read_bytes = WORD
            self.blocks = self.pm.allocate(self.length, "blocks", item_bytes=scheme.block_room, align=PAGE_BYTES)

        @override
        def begin(self) -> None:
            self.service = ToldService(self.scheme.primitive, self.node, self.scheme.block_room, self.received)
            self.service.register(self.blocks, self.length)
            handlers: Handlers = {ReadBlock: self.on_read, PassOn: self.on_pass_on}
            self.listener = Listener(self.node, handlers, message_bytes=64 + self.scheme.block_room)

        @override
        def start(self) -> None:
            process = self.node.process(self.node.name)
            self.behind: dict[tuple[Thread, Nvfs.DataNode], BlockLink] = {}
            process.start(self.listener.serve(self.node.thread(0, self.node.name)))
            if self.service.needs_thread:
                process.start(self.service.serve(self.node.thread(1, f"{self.node.name} blocks")))
            self.listener.listen()

        def address(self, block: int) -> int:
            """Where a block is."""
            return self.blocks + block * self.scheme.block_room

        # its CPU: a block that has come -------------------------------------------------------------------------------
        def received(self, thread: Thread, end: ServiceEnd, update: Range) -> Code:
            """The block is copied and flushed: pass it on, then answer."""
            yield from self.pass_on(thread, (update[0] - self.blocks) // self.scheme.block_room)
            yield from self.service.answer(thread, end)

        def on_pass_on(self, thread: Thread, request: PassOn) -> Code:
            """The same where the primitive has no reply of this CPU."""
            yield from self.pass_on(thread, request.block)
            return DONE

        def pass_on(self, thread: Thread, block: int) -> Code:
            """Send a block on to the next data node that is not lost, once that is there; return when it answers."""
            data = yield from self.load(thread, block)
            while True:
                behind = [one for one in self.scheme.pipeline(block) if one.number > self.number]
                if not behind:
                    return
                link = self.behind.get((thread, behind[0]))
                if link is None:
                    yield from behind[0].listener.until_listening(thread)
                    link = self.behind[thread, behind[0]] = BlockLink(thread, self.node, behind[0])
                try:
                    yield from link.restore()
                    yield from link.send(block, data)
                    return
                except MachineLost:
                    pass
                except FAILURES as error:
                    check_refusal(error)

        def load(self, thread: Thread, block: int) -> Code:
            """Load a block, as far as it has data."""
            length = BlockData.unpack((yield from thread.load(self.address(block), HEAD))).length
            return (yield from thread.load(self.address(block), HEAD + min(length, self.sizes.value_bytes)))

        def on_read(self, thread: Thread, request: ReadBlock) -> Code:
            """A block, if it is whole."""
            place = self.address(request.block)
            head = BlockData.unpack((yield from thread.load(place, HEAD)))
            if not 0 < head.length <= self.sizes.value_bytes:
                return BROKEN
            if not (yield from thread.crc32_matches(place + HEAD, head.length, head.crc)):
                return BROKEN
            return (yield from thread.load(place + HEAD, head.length))

    # before time zero -----------------------------------------------------------------------------------------------
    @override
    def load(self, objects: Mapping[Hashable, bytes]) -> None:
        names, copies, nodes = self.sizes.objects, int(self.option("replicas")), self.roles["data-node"]

        def block_of(node: int, block: int) -> bytes:
            return packed(objects[names[block]]) if (node - block) % len(nodes) < copies else b""

        for data_node in nodes:
            fill(data_node.pm, data_node.blocks, self.block_room, len(names), partial(block_of, data_node.number))
        name_node = self.name_node
        fill(name_node.pm, name_node.files, LINE_BYTES, len(names), word_of)
        fill(name_node.pm, name_node.given, LINE_BYTES, 1, lambda _: word_of(len(names)))

    @override
    def probe(self, object: Hashable) -> Request:
        return Request.of("get", object)


class NameLink(MachineLink):
    """A client process's way to the name node."""

    role = "name-node"


class BlockLink(DataLink):
    """A thread's way to a data node: of a client, or of the data node before."""

    role = "data-node"
    machine: Nvfs.DataNode

    def send(self, block: int, data: bytes) -> Code:
        """Have a block at the data node, and at those behind it."""
        yield from self.write(self.machine.address(block), data)
        if not replies(self.machine.scheme.primitive):
            yield from self.call(PassOn, block=block)


class NvfsSession:
    """A client process: its links to all machines."""

    def __init__(self, thread: Thread, node: Node, scheme: Nvfs) -> None:
        self.thread = thread
        self.names = NameLink(thread, node, scheme.name_node)
        self.data = [BlockLink(thread, node, data_node) for data_node in scheme.roles["data-node"]]

    def to(self, data_node: Nvfs.DataNode) -> BlockLink:
        """The link to a data node."""
        return self.data[data_node.number]

    def restore(self) -> Code:
        """Connect again where a link is broken; wait for machines that come back."""
        for link in (self.names, *self.data):
            yield from link.restore()
