"""Data nodes, and a client thread's queue pairs to them.

Source: Tsai et al., ATC'20, sections 3.1 and 3.4. A data node is persistent memory behind an adapter. What a client
writes there counts as durable when the WRITE is acknowledged, "since the RDMA durable write commit in the IETF standard
takes one network round trip, same as non-durable RDMA write": so it is with ``durable=write``. With ``durable=commit``
that commit (FLUSH for persistence, IBTA annex A19) follows each WRITE and each CAS, posted with it.

What the paper leaves open is read so. A data node whose power comes back opens its memory under the same layout; a
client whose queue pair broke waits for that, and connects again. That a node is lost for good is known to all (the
paper names no detector); what was to go there is left out.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, NamedTuple

from typing_extensions import override

from ...models.cpu import CrcOf, Deadline, Thread
from ...models.durability.places import Domain
from ...models.system import Node
from ...models.verbs import FLUSHES, REMOTE, FlushType, QueuePair
from ...sim.bytespace import PAGE_BYTES, round_up
from ..guarantees import Condition
from ..naming import Option
from ..parts.onesided import Posted, Poster, VerbsError
from ..parts.rpc import Listener
from ..scheme import Role, Scheme, Sizes

Code = Generator[Any, Any, Any]

DURABLE = Option(
    "write", choices=("write", "commit"),
    source="section 3.4: measured with plain WRITEs, which stand for a durable commit of the same one round trip",
    text="what is waited for as durable: the acknowledgement of a WRITE, or that of a FLUSH posted behind it",
)  # fmt: skip
REPLICAS = Option(1, at_least=1, at_most=4, source="section 5.4; 2 in section 6.2", text="copies of each version")
WORD = 8


class DataPlace(NamedTuple):
    """An address in a data node's memory."""

    node: int
    address: int

    def at(self, offset: int) -> DataPlace:
        """So many bytes further."""
        return DataPlace(self.node, self.address + offset)


class DataRegion(NamedTuple):
    """Items of one size in a data node's memory."""

    label: str
    item_bytes: int
    items: int

    @property
    def length(self) -> int:
        """All of them, in whole pages."""
        return round_up(self.item_bytes * self.items, PAGE_BYTES)


class OverData(Scheme):
    """A scheme that keeps its values on data nodes."""

    paper = "Tsai et al., ATC'20 (Clover)"
    model = "kv"
    recovers_data = False
    """Whether somebody has to recover a data node before clients connect to it again."""

    @override
    @classmethod
    def composed(cls) -> None:
        """With copies on several nodes a node may be lost, by section 5.4; with one copy nothing is said of that."""
        super().composed()
        if int(cls.option("replicas")) > 1:
            where = cls.claims[Condition.NO_LOST_ACK]
            cls.claims = {**cls.claims, Condition.NO_LOST_ACK: f"{where}; data lost"}

    @classmethod
    def data_regions(cls, sizes: Sizes, nodes: int) -> Sequence[DataRegion]:
        """What a data node's memory is divided into, one behind the other, where there are so many nodes."""
        raise NotImplementedError

    @property
    def commits(self) -> bool:
        """Whether a FLUSH follows each WRITE."""
        return bool(self.option("durable") == "commit")


class DataNode(Role, memory=("pm",), cores=0, many=True, passive=True, at_least_by="replicas"):
    """A data node: clients read and write its memory through its adapter."""

    scheme: OverData

    def __init__(self, scheme: OverData, node: Node, number: int) -> None:
        super().__init__(scheme, node, number)
        self.pm = node.memory["pm"]
        regions = scheme.data_regions(self.sizes, len(self.system.nodes["data"]))
        self.starts = {
            one.label: self.pm.allocate(one.length, one.label, item_bytes=one.item_bytes, align=PAGE_BYTES)
            for one in regions
        }
        """By region: its address."""
        self.base, self.length = min(self.starts.values()), sum(one.length for one in regions)

    @override
    def begin(self) -> None:
        self.listener = Listener(self.node, {})
        lasts = self.pm.domain is not Domain.NONE
        self.flush_type = FlushType.IBV_FLUSH_PERSISTENT if lasts else FlushType.IBV_FLUSH_GLOBAL
        flushes = FLUSHES if lasts else FLUSHES & ~FLUSHES.IBV_ACCESS_FLUSH_PERSISTENT
        self.key = self.listener.door.register(self.base, self.length, REMOTE | flushes).key
        if not (self.scheme.recovers_data and self in self.scheme.failed("data")):
            self.listener.listen()


class Links:
    """A thread's queue pairs to all data nodes, on one completion queue."""

    def __init__(
        self, thread: Thread, node: Node, scheme: OverData, most_bytes: int, slots: int, *, recovers: bool = False
    ) -> None:
        """``most_bytes``: the largest request; so many ``slots`` may be under way. A data node that has to be recovered
        first refuses whoever does not come for that (``recovers``): then :meth:`restore` waits for it.
        """
        self.thread = thread
        self.scheme = scheme
        self.nodes: Sequence[DataNode] = scheme.roles["data"]
        self.poster: Poster = Poster(thread, node, most_bytes, slots)
        self.qps: list[QueuePair] = [self.poster.connect(data.listener.door) for data in self.nodes]
        for qp, data in zip(self.qps, self.nodes, strict=True):
            if not (recovers or data.listener.listening or data.node.off):
                qp.fail()

    def is_lost(self, node: int) -> bool:
        """Whether a data node is gone for good, and this thread has found out: nothing reaches it any more."""
        return self.qps[node].error and self.nodes[node] in self.scheme.lost("data")

    def restore(self) -> Code:
        """Connect again where a queue pair is broken and the node comes back; wait for that."""
        for number, data in enumerate(self.nodes):
            if self.qps[number].error and not self.is_lost(number):
                yield from data.listener.until_listening(self.thread)
                self.qps[number] = self.poster.connect(data.listener.door)

    def repeated(self, code: Callable[[], Code]) -> Code:
        """What ``code`` returns; from its beginning again where a data node fails meanwhile, once that is back."""
        while True:
            try:
                return (yield from code())
            except VerbsError as error:
                if not error.disconnected:
                    raise
                yield from self.restore()

    # posts ----------------------------------------------------------------------------------------------------------
    def read(self, place: DataPlace, length: int) -> Code:
        """Post a READ."""
        return self.poster.read(self.qps[place.node], place.address, self.nodes[place.node].key, length)

    def write(self, place: DataPlace, data: bytes) -> Code:
        """Post a WRITE, with its commit where one follows; returns what is to be waited for."""
        qp, key = self.qps[place.node], self.nodes[place.node].key
        if not self.scheme.commits:
            return (yield from self.poster.write(qp, place.address, key, data))
        written = yield from self.poster.write(qp, place.address, key, data, signaled=False)
        self.poster.drop([written])
        return (yield from self._flush(place, len(data)))

    def hint(self, place: DataPlace, data: bytes) -> Code:
        """Post a WRITE that nobody waits for, and nothing depends on."""
        posted = yield from self.poster.write(self.qps[place.node], place.address, self.nodes[place.node].key, data)
        self.poster.drop([posted])

    def post_compare_and_swap(self, place: DataPlace, compare: int, swap: int) -> Code:
        """Post a CAS of a word, with its commit; returns both, the CAS first."""
        qp, key = self.qps[place.node], self.nodes[place.node].key
        posted = [(yield from self.poster.compare_and_swap(qp, place.address, key, compare, swap))]
        if self.scheme.commits:
            posted.append((yield from self._flush(place, WORD)))
        return posted

    def compare_and_swap(self, place: DataPlace, compare: int, swap: int) -> Code:
        """CAS a word, with its commit; returns what was there.

        Raises :class:`VerbsError` for an error.
        """
        posted = yield from self.post_compare_and_swap(place, compare, swap)
        return (yield from self.poster.all(posted))[0]

    def _flush(self, place: DataPlace, length: int) -> Code:
        data = self.nodes[place.node]
        return self.poster.flush(self.qps[place.node], place.address, data.key, length, data.flush_type)

    # waits ----------------------------------------------------------------------------------------------------------
    def read_now(self, place: DataPlace, length: int) -> Code:
        """READ a range; returns its bytes."""
        return (yield from self.poster.result((yield from self.read(place, length))))

    def found(self, posted: Posted, node: int) -> Code:
        """What a READ of a node has found; None if the node is lost. Raises :class:`VerbsError` for other errors."""
        try:
            return (yield from self.poster.result(posted))
        except VerbsError:
            if not self.is_lost(node):
                raise
            return None

    def read_checked(self, place: DataPlace, length: int, head: int, crc: CrcOf) -> Code:
        """READ a record whose checksum is in its first ``head`` bytes; returns it, or None if it has another."""
        qp, key = self.qps[place.node], self.nodes[place.node].key
        return self.poster.read_checked(qp, place.address, key, length, head, crc)

    def write_all(self, writes: Iterable[tuple[DataPlace, bytes]]) -> Code:
        """WRITE to several places at once; returns when all are acknowledged, but for those on lost nodes."""
        yield from self.settled((yield from self.post_all(writes)))

    def post_all(self, writes: Iterable[tuple[DataPlace, bytes]]) -> Code:
        """Post WRITEs, but for those to lost nodes; returns what :meth:`settled` waits for."""
        posted: list[Posted] = []
        for place, data in writes:
            if not self.is_lost(place.node):
                posted.append((yield from self.write(place, data)))
        return posted

    def settled(self, posted: Sequence[Posted]) -> Code:
        """Wait for all; what went to a node that is lost by then counts for nothing.

        Raises :class:`VerbsError` for any other error, once all are complete.
        """
        yield from self.poster.wait(posted)
        failed = None
        for one in posted:
            try:
                yield from self.poster.result(one)
            except VerbsError as error:
                if not self.is_lost(self.qps.index(one.qp)):
                    failed = failed or error
        if failed is not None:
            raise failed

    def first(self, posted: Sequence[Posted], deadline: Deadline | None = None) -> Code:
        """The first of these to complete; None where the deadline passes before."""
        return self.poster.first(posted, deadline)
