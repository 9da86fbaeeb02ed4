"""HyperLoop: a store whose redo log adapters replicate along a chain, while replicas' CPUs have no part in it.

Source: Kim et al., SIGCOMM'18, as far as the RDMA Flush paper (section 4.5) and the Clover paper (section 7) tell; the
rest is remembered, and marked as our reading. A transaction is an entry of the redo log: gWRITE and gFLUSH, and it is
acknowledged. Later the entry is applied: gCAS takes a lock at all replicas, gMEMCPY copies from the log to the data,
gFLUSH makes that durable, gCAS releases the lock, and the log's head moves. The chain itself is in ``offload.py``.

What the sources leave open is read so. The paper's client is the machine called ``head`` here: it appends, and others
call it. gFLUSH is the primitive ``gflush`` unless the name says another; that has to be one that adapters do alone. An
entry has a CRC32. Entries are applied when so many have come, before the next one. Reads go to the last replica. No
release of a lock is flushed: where a replica says that a lock is taken, it is left over from before a failure, and the
head releases it and takes it again. After a failure the head, or the one that begins again, calls the CPUs of the
replicas that are left: each destroys the queue pairs of the chains before, by which something might come late. Then the
head makes new chains, reads the logs, completes at all what one of them has, and applies it. Work requests that the
replicas' CPUs do not renew are used up: then the chain stands still.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from typing_extensions import override

from ....models.cpu import Thread
from ....models.durability.rules import FENCE_WAITS_FOR
from ....models.persist.service import Service
from ....models.primitives.plan import plan
from ....models.primitives.vocabulary import VERBS
from ....models.system import Node, System
from ....models.verbs import Opcode, QueuePair, Status
from ....models.verbs.opcodes import KIND
from ....sim.bytespace import LINE_BYTES, round_up
from ....sim.errors import InputError, Mistake
from ...guarantees import Claims, Condition
from ...layout import U32, U64, WORD, Block, Layout, Rest
from ...naming import Option
from ...parts.onesided import Poster, VerbsError
from ...parts.rpc import PATIENCE, Listener
from ...scheme import Request, Role, Scheme, Sizes
from ..calling import CallingClient, ObjectGet, ObjectPut
from .offload import AdapterChain, ChainBroken, ChainHop

Code = Generator[Any, Any, Any]
LOCKED, FREE = 1, 0


class RedoEntry(Layout):
    """An entry of the redo log; its first word lasts as a whole or not at all."""

    crc = U32()
    sequence = U32()
    """From 1."""
    unused = Block(56)
    number = U64()
    value = Rest()


ENTRY_HEAD = RedoEntry.size - WORD


def entry_crc(head: bytes) -> int | None:
    """The checksum that an entry's first line says; None for one that was never written."""
    crc, sequence = int.from_bytes(head[:4], "little"), int.from_bytes(head[4:8], "little")
    return crc if sequence else None


class FenceChains(Layout):
    """End the chains there are: the reply comes when nothing of them can come any more."""

    unused = U32()


class StoreLayout:
    """A replica's memory: the log's head, locks, data, the log."""

    def __init__(self, sizes: Sizes, entries: int) -> None:
        self.entries = entries
        self.value_bytes = round_up(sizes.value_bytes)
        self.used_bytes = RedoEntry.size + sizes.value_bytes
        self.entry_bytes = round_up(self.used_bytes)
        self.head = 0
        self._locks = LINE_BYTES
        self._data = self._locks + LINE_BYTES * len(sizes.objects)
        self._log = self._data + self.value_bytes * len(sizes.objects)
        self.length = self._log + self.entry_bytes * entries

    def lock(self, number: int) -> int:
        """Where an object's lock lies, from the start."""
        return self._locks + LINE_BYTES * number

    def data(self, number: int) -> int:
        """Where an object lies."""
        return self._data + self.value_bytes * number

    def entry(self, sequence: int) -> int:
        """Where an entry of the log lies."""
        return self._log + sequence % self.entries * self.entry_bytes


class ChainReplica(Role, memory=("dram", "pm"), counted_by="replicas"):
    """A machine whose adapter passes operations on; its CPU posts new work requests for those that are used up."""

    scheme: HyperLoop

    def __init__(self, scheme: HyperLoop, node: Node, number: int) -> None:
        super().__init__(scheme, node, number)
        self.pm = node.memory["pm"]
        self.length = scheme.layout.length
        self.base = self.pm.allocate(self.length, "hyperloop", item_bytes=LINE_BYTES, align=4096)

    @override
    def begin(self) -> None:
        self.service = Service(self.scheme.primitive, self.node)
        self.service_domain = self.service.domain
        self.key = self.service.register(self.base, self.length).key
        self.listener = Listener(self.node, {FenceChains: self.on_fence})
        self.read_key = self.listener.register(self.base, self.length).key
        self.used_up = self.node.create_cq()
        self.hops: dict[int, ChainHop] = {}
        """By the number of the queue pair by which a completion says that an operation has been passed on."""
        self.thread = self.node.thread(0, self.node.name)
        requests = [step["verb"] for step in self.service.plan.requester if step.do == "send"]
        kinds = {KIND[VERBS[str(verb)] if verb is not None else Opcode.PRIMITIVE] for verb in requests}
        self.flush_requests = len(requests)
        self.waits = not kinds <= FENCE_WAITS_FOR
        """Whether a WAIT has to be for the primitive's requests, since no fence waits for them."""

    def at(self, offset: int) -> int:
        """The address of a byte of its memory."""
        return self.base + offset

    @override
    def start(self) -> None:
        process = self.node.process(self.node.name)
        process.start(self.renew(self.thread))
        process.start(self.listener.serve(self.node.thread(0, f"{self.node.name} calls")))
        self.listener.listen()

    def renew(self, thread: Thread) -> Code:
        """Post new work requests for each operation that has been passed on, for ever."""
        while True:
            completion = yield from thread.poll(self.used_up)
            hop = self.hops.get(completion.qp.number)
            if hop is not None and completion.status is Status.IBV_WC_SUCCESS:
                yield from hop.post_more(thread)

    def on_fence(self, thread: Thread, request: FenceChains) -> Code:
        """Destroy this machine's ends of all chains; what these had accepted is visible then."""
        self.hops.clear()
        yield from self.service.fence()
        return b"fenced"


class HyperLoop(Scheme, name="hyperloop"):
    """A put is one call to the head, and one operation of the chain; each one that is applied is three more, and one
    moves the log's head behind all that are applied together.
    """

    title = "HyperLoop: adapters replicate a redo log along a chain"
    paper = "Kim et al., SIGCOMM'18 (HyperLoop)"
    section = "as RDMA Flush, section 4.5, and Clover, section 7, tell; partly remembered"
    operations = ("put", "get")
    updates = frozenset({"put"})
    over = "gflush"
    claims: ClassVar[Claims] = {
        Condition.NO_LOST_ACK: "ddio off; replica lost",
        Condition.COMMITTED: "ddio off; replica lost",
    }
    faults: ClassVar = {
        "head": ("power", "process"), "replica": ("power", "lost"), "client": ("power", "process"), "all": ("power",),
    }  # fmt: skip
    options: ClassVar[dict[str, Option]] = {
        "replicas": Option(3, at_least=2, at_most=8, small=2, source="the paper's group size, remembered",
                           text="replicas"),
        "log": Option(64, at_least=4, small=4, source="assumption: no source says how long it is",
                      text="entries of the log"),
        "apply": Option(
            16, at_least=1, small=2, source="assumption: the source says later",
            text="behind how many entries they are applied",
        ),
        "posted": Option(
            8, at_least=4, small=4, source="assumption: no source says how many",
            text="for how many operations work requests are posted in advance",
        ),
    }  # fmt: skip
    Replica = ChainReplica

    def __init__(self, system: System, sizes: Sizes) -> None:
        self.layout = StoreLayout(sizes, int(self.option("log")))
        super().__init__(system, sizes)

    @property
    def posted_ahead(self) -> int:
        """For how many operations work requests are posted in advance."""
        return int(self.option("posted"))

    @override
    @classmethod
    def composed(cls) -> None:
        found = plan(cls.primitive)
        verbs = {step["verb"] for step in found.requester if step.do == "send"}
        others = any(step.do != "send" for step in found.requester)
        if (
            found.needs_thread
            or found.by_message
            or found.programs.get("update")
            or others
            or len(verbs) > 1
            or (verbs - {None, "READ", "FLUSH"})
        ):
            expected = "a primitive that adapters do alone, by at most one kind of request behind the WRITE"
            raise InputError(Mistake(f"'{cls.primitive.name}' in '{cls.name}'", expected, field="scheme"))

    class Client(CallingClient):
        """A machine whose processes call the head."""

        answering = "head"

    class Head(Role, memory=("dram",)):
        """The machine that appends to the log: a database's primary."""

        scheme: HyperLoop
        chain: ClassVar[type[AdapterChain]] = AdapterChain

        @override
        def begin(self) -> None:
            self.tail = self.applied = 0
            """The last entry of the log, and the last that has been applied."""
            self.objects: dict[int, int] = {}
            """By sequence number: the object of an entry that is not applied."""
            self.replicas: list[ChainReplica] = []
            self.writes: AdapterChain | None = None
            self.locals: AdapterChain | None = None
            self.reads: list[tuple[ChainReplica, QueuePair]] = []
            room = 64 + self.sizes.value_bytes
            handlers: Mapping[type[Layout], Any] = {ObjectPut: self.on_put, ObjectGet: self.on_get}
            self.listener = Listener(self.node, handlers, message_bytes=room)

        @override
        def start(self) -> None:
            thread = self.node.thread(0, self.node.name)
            if self.writes is None:
                self.reach(thread, self.scheme.roles["replica"])
            self.node.process(self.node.name).start(self.listener.serve(thread))
            self.listener.listen()

        def reach(self, thread: Thread, replicas: Sequence[ChainReplica]) -> None:
            """New chains over these replicas; what the handshake costs is left out."""
            self.replicas = list(replicas)
            self.poster = Poster(thread, self.node, max(LINE_BYTES, self.scheme.layout.entry_bytes), slots=2)
            self.reads = [(replica, self.poster.connect(replica.listener.door)) for replica in self.replicas]
            if self.replicas:
                self.writes = self.chain(thread, self.node, self.replicas, local=False)
                self.locals = self.chain(thread, self.node, self.replicas, local=True)

        # requests -----------------------------------------------------------------------------------------------------
        def on_get(self, thread: Thread, request: ObjectGet) -> Code:
            """READ the newest version from the last replica, or from the one before it."""
            layout = self.scheme.layout
            own = [sequence for sequence, number in self.objects.items() if number == request.number]
            offset = layout.entry(max(own)) + RedoEntry.size if own else layout.data(request.number)
            while self.reads:
                replica, qp = self.reads[-1]
                try:
                    posted = yield from self.poster.read(
                        qp, replica.at(offset), replica.read_key, self.sizes.value_bytes
                    )
                    return (yield from self.poster.result(posted))
                except VerbsError as error:
                    if not error.disconnected:
                        raise
                    yield from self.mend(thread)
            return b""

        def on_put(self, thread: Thread, request: ObjectPut) -> Code:
            """Append an entry, at all replicas, once those that are due have been applied."""
            layout, due = self.scheme.layout, min(int(self.scheme.option("apply")), self.scheme.layout.entries - 1)
            value = request.number.to_bytes(WORD, "little") + request.value
            crc = yield from thread.crc32_of(value)
            while self.replicas:
                try:
                    if self.tail - self.applied >= due:
                        yield from self.apply()
                    entry = crc.to_bytes(4, "little") + (self.tail + 1).to_bytes(4, "little") + bytes(56) + value
                    assert self.writes is not None
                    yield from self.writes.write(layout.entry(self.tail + 1), entry)
                except ChainBroken:
                    yield from self.mend(thread)
                    continue
                self.tail += 1
                self.objects[self.tail] = request.number
                return b"replicated"
            return b""

        def apply(self) -> Code:
            """Apply the entries that have not been: lock, copy, unlock; then move the log's head."""
            assert self.locals is not None and self.writes is not None
            chain, layout, length = self.locals, self.scheme.layout, self.sizes.value_bytes
            for sequence, number in sorted(self.objects.items()):
                yield from self.lock(chain, layout.lock(number))
                yield from chain.copy(layout.entry(sequence) + RedoEntry.size, layout.data(number), length)
                yield from chain.compare_and_swap(layout.lock(number), LOCKED, FREE)
            yield from self.writes.write(layout.head, self.tail.to_bytes(WORD, "little"))
            self.applied = self.tail
            self.objects.clear()

        def lock(self, chain: AdapterChain, lock: int) -> Code:
            """Take a lock at all replicas. Where it is taken already its release has not lasted, since nobody but the
            head takes locks: it is released, and taken again.
            """
            missing = [True] * len(self.replicas)
            while True:
                found = yield from chain.compare_and_swap(lock, FREE, LOCKED, missing)
                missing = [wanted and word != FREE for wanted, word in zip(missing, found, strict=True)]
                if not any(missing):
                    return
                yield from chain.compare_and_swap(lock, LOCKED, FREE, missing)

        # failures -----------------------------------------------------------------------------------------------------
        def mend(self, thread: Thread) -> Code:
            """A chain is broken: close it over the replicas that are left, once those that come back are there; one may
            fail again meanwhile.
            """
            while True:
                lost = self.scheme.lost("replica")
                left = [replica for replica in self.replicas if replica not in lost]
                try:
                    for replica in left:
                        yield from self.fence(thread, replica)
                    self.reach(thread, left)
                    if not left:
                        return
                    yield from self.complete(thread)
                except ChainBroken:
                    continue
                except VerbsError as error:
                    if not error.disconnected:
                        raise
                    continue
                return

        def fence(self, thread: Thread, replica: ChainReplica) -> Code:
            """Have a replica end the chains before, once it is there: nothing of them comes behind what is read now."""
            yield from replica.listener.until_listening(thread)
            connection = replica.listener.accept(thread, self.node, LINE_BYTES, PATIENCE)
            yield from connection.call(FenceChains, unused=0)

        @override
        def recover(self, thread: Thread) -> Code:
            self.replicas = list(self.scheme.roles["replica"])
            yield from self.mend(thread)

        def complete(self, thread: Thread) -> Code:
            """Read the logs, have all replicas hold what one of them has, and apply each object's newest entry."""
            layout, heads = self.scheme.layout, []
            for replica, qp in self.reads:
                posted = yield from self.poster.read(qp, replica.at(layout.head), replica.read_key, WORD)
                heads.append(int.from_bytes((yield from self.poster.result(posted)), "little"))
            assert self.writes is not None
            self.applied = self.tail = min(heads)
            pieces, newest = dict[int, bytes](), dict[int, int]()
            while (entry := (yield from self.found(self.tail + 1))) is not None:
                self.tail += 1
                newest[RedoEntry.unpack(entry).number] = self.tail
                lap = self.tail // layout.entries
                pieces[lap] = pieces.get(lap, b"") + entry.ljust(layout.entry_bytes, b"\0")
            for lap, data in pieces.items():
                yield from self.writes.write(layout.entry(max(lap * layout.entries, self.applied + 1)), data)
            self.objects = {sequence: number for number, sequence in newest.items()}
            yield from self.apply()

        def found(self, sequence: int) -> Code:
            """An entry that is whole in one of the logs; None if it is in none."""
            layout = self.scheme.layout
            for replica, qp in self.reads:
                address = replica.at(layout.entry(sequence))
                data = yield from self.poster.read_checked(
                    qp, address, replica.read_key, layout.used_bytes, ENTRY_HEAD, partial(crc_if, sequence)
                )
                if data is not None:
                    return data
            return None

    # after a failure ----------------------------------------------------------------------------------------------
    @override
    def recovery(self) -> Iterator[Role]:
        """Replicas begin; a head that comes back asks them then."""
        lost = self.lost("replica")
        yield from (one for one in self.failed("replica") if one not in lost)
        yield from self.failed("head")

    # before time zero -----------------------------------------------------------------------------------------------
    @override
    def load(self, objects: Mapping[Hashable, bytes]) -> None:
        names, layout = self.sizes.objects, self.layout
        first, each = layout.data(0), layout.value_bytes

        def line_of(start: int, line: int) -> bytes:
            offset = line * LINE_BYTES - start
            number, at = divmod(offset, each)
            if number >= len(objects):
                return bytes(LINE_BYTES)
            return objects[names[number]][at : at + LINE_BYTES].ljust(LINE_BYTES, b"\0")

        for replica in self.roles["replica"]:
            start = replica.base + first - replica.pm.base
            replica.pm.space.compute(start, each * len(objects), partial(line_of, start))

    @override
    def probe(self, object: Hashable) -> Request:
        return Request.of("get", object)


def crc_if(sequence: int, head: bytes) -> int | None:
    """The checksum of an entry, if it has this sequence number."""
    return entry_crc(head) if int.from_bytes(head[4:8], "little") == sequence else None
