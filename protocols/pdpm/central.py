"""pDPM-Central: a coordinator does all for the clients; values are on data nodes.

Source: Tsai et al., ATC'20, section 4.2, figure 2b. Clients call by HERD's RPC. For a get the coordinator reads from
the data node under the entry's read lock; for a put it writes to a fresh space, and then switches the entry's location
in its own persistent memory. Two round trips each.

What the paper leaves open is read so (it omits replication and recovery). The location is one word; the copies of a
space are at the same place of the nodes behind. A put may use a space as long as one of these nodes is not lost. The
switch is a store of that word and its flush, under the entry's write lock: so no reader is in the old space, which is
free from then on. A thread that reaches a data node no more waits until it is back, and goes on with the request. After
a failure the coordinator loads all locations; other space is free. That it is lost for good is known to all, as it is
of a data node: a client without an answer gives the operation up then.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

from typing_extensions import override

from ...models.cpu import Thread
from ...models.system import Node
from ...sim.bytespace import LINE_BYTES, round_up
from ..guarantees import ALWAYS, Claims, Condition
from ..naming import Option
from ..parts.onesided import VerbsError
from ..rflush.baselines import DATAGRAMS
from ..rflush.calls import CallClient, CallScheme, CallServer, Code
from ..rflush.ends import CallConnection, CallSession
from ..rflush.messages import DONE, READ, REFUSED, CallMessage
from ..rflush.options import RESEND_LOST
from ..rflush.paths import ByDatagram, ByUnreliableWrite, MessagePath
from ..scheme import OutcomeUnknown, Role, Sizes
from .data import DURABLE, REPLICAS, WORD, DataNode, DataPlace, DataRegion, Links, OverData

LOST = 16
"""The reply of a coordinator whose data nodes are lost."""
SPARE = 0.25
"""The share of spaces beyond those of the keys; and one for each client process."""


class CentralClient(CallClient, invokes=True):
    """A machine whose processes call the coordinator."""

    @override
    def begin(self) -> None:
        self.server: Coordinator = self.scheme.roles["coordinator"][0]

    @override
    def call(self, session: CallSession, message: CallMessage, length: int) -> Code:
        reply = yield from super().call(session, message, length)
        if reply.kind == LOST:
            raise OutcomeUnknown("the nodes of all its copies are lost")
        return reply


class Coordinator(CallServer, memory=("dram", "pm"), served=True):
    """The machine that knows where everything is; its threads serve the calls."""

    scheme: Central

    def __init__(self, scheme: Central, node: Node, number: int) -> None:
        Role.__init__(self, scheme, node, number)
        self.pm = node.memory["pm"]
        self.locations = self.pm.allocate(WORD * len(self.sizes.objects), "locations", item_bytes=WORD)

    @override
    def begin(self) -> None:
        super().begin()
        self.links: dict[str, Links] = {}
        self.free = [deque(self.scheme.spare_spaces()) for _ in self.scheme.roles["data"]]
        self.turn = 0

    @override
    def alone(self, thread: Thread, number: int, code: Code) -> Code:
        """A request takes the locks that it needs."""
        return code

    def links_of(self, thread: Thread) -> Links:
        """The queue pairs of a thread."""
        if thread.name not in self.links:
            slots = 2 + 2 * self.scheme.copies
            self.links[thread.name] = Links(thread, self.node, self.scheme, self.sizes.value_bytes, slots)
        return self.links[thread.name]

    @override
    def execute(self, thread: Thread, end: CallConnection, request: CallMessage) -> Code:
        links = self.links_of(thread)
        code = self.get if request.kind == READ else partial(self.put, value=request.data)
        found = yield from links.repeated(lambda: code(thread, links, request.object))
        if found is not None:
            return CallMessage(DONE, request.object, found)
        full = request.kind != READ and not all(map(links.is_lost, range(len(self.free))))
        return CallMessage(REFUSED if full else LOST, request.object)

    def get(self, thread: Thread, links: Links, number: int) -> Code:
        """Read a value under the entry's read lock; None where all copies are lost."""
        return (yield from self.locks.under(thread, number, self.read(thread, links, number), shared=True))

    def read(self, thread: Thread, links: Links, number: int) -> Code:
        word = int.from_bytes((yield from thread.load(self.location(number), WORD)), "little")
        places = [place for place in self.scheme.places(word) if not links.is_lost(place.node)]
        return (yield from links.read_now(places[0], self.sizes.value_bytes)) if places else None

    def put(self, thread: Thread, links: Links, number: int, value: bytes) -> Code:
        """Write to a fresh space, then switch the entry's location; returns no bytes, None where no space is left."""
        word = self.take(links)
        if word is None:
            return None
        try:
            yield from links.write_all([(place, value) for place in self.scheme.places(word)])
        except VerbsError:
            self.give_back(word)
            raise
        before = yield from self.locks.under(thread, number, self.switch(thread, number, word))
        self.give_back(before)
        return b""

    def switch(self, thread: Thread, number: int, word: int) -> Code:
        """Point an entry at its new space, durably; returns where it pointed before."""
        before = int.from_bytes((yield from thread.load(self.location(number), WORD)), "little")
        yield from thread.store(self.location(number), word.to_bytes(WORD, "little"))
        yield from thread.flush(self.location(number), WORD)
        return before

    def location(self, number: int) -> int:
        """The address of an entry's location."""
        return self.locations + WORD * number

    def take(self, links: Links) -> int | None:
        """A free space, of each node in turn; one of its copies at least is on a node that is not lost."""
        nodes = len(self.free)
        for step in range(nodes):
            node = (self.turn + step) % nodes
            if not self.free[node]:
                continue
            word = self.scheme.word(node, self.free[node][0])
            if not all(links.is_lost(place.node) for place in self.scheme.places(word)):
                self.turn = (node + 1) % nodes
                self.free[node].popleft()
                return word
        return None

    def give_back(self, word: int) -> None:
        """A space is free."""
        node, space = self.scheme.space_of(word)
        self.free[node].append(space)

    # after a failure --------------------------------------------------------------------------------------------------
    @override
    def recovery_units(self) -> Iterable[Hashable]:
        return range(len(self.sizes.objects))

    @override
    def recover_unit(self, thread: Thread, unit: Any) -> Code:
        return int.from_bytes((yield from thread.load(self.location(unit), WORD)), "little")

    @override
    def finish_recovery(self, thread: Thread, results: list[Any]) -> Code:
        """What no location points to is free."""
        yield from thread.compute()
        taken = {self.scheme.space_of(word) for word in results if word}
        spaces = self.scheme.spaces(self.sizes, len(self.free))
        self.free = [deque(s for s in range(spaces) if (node, s) not in taken) for node in range(len(self.free))]


class Central(OverData, CallScheme, name="pdpm-central"):
    """Two round trips each, one of them the coordinator's."""

    title = "pDPM-Central: a coordinator reads and writes data nodes, and switches locations in its own memory"
    section = "section 4.2, figure 2b"
    requests: ClassVar[type[MessagePath]] = ByUnreliableWrite
    replies: ClassVar[type[MessagePath]] = ByDatagram
    limits = DATAGRAMS
    claims: ClassVar[Claims] = {
        Condition.COMMITTED: ALWAYS,
        Condition.NO_LOST_ACK: (
            "data power; coordinator power; coordinator process; all power; client power; client process"
        ),
    }
    faults: ClassVar = {
        "data": ("power", "lost"), "coordinator": ("power", "process", "lost"), "client": ("power", "process"),
        "all": ("power",),
    }  # fmt: skip
    options: ClassVar[dict[str, Option]] = {"resend": RESEND_LOST, "durable": DURABLE, "replicas": REPLICAS}
    role_types: ClassVar[Mapping[str, type[Role]]] = {}
    Data = DataNode
    Coordinator = Coordinator
    Client = CentralClient

    @property
    def copies(self) -> int:
        """Of each value."""
        return int(self.option("replicas"))

    @classmethod
    def spaces(cls, sizes: Sizes, nodes: int) -> int:
        """How many spaces a node has."""
        row = -(-len(sizes.objects) // nodes)
        return row + int(SPARE * row) + sizes.clients + 1

    def spare_spaces(self) -> range:
        """Those that no key of before time zero is in."""
        nodes = len(self.roles["data"])
        return range(-(-len(self.sizes.objects) // nodes), self.spaces(self.sizes, nodes))

    @override
    @classmethod
    def data_regions(cls, sizes: Sizes, nodes: int) -> Sequence[DataRegion]:
        size = round_up(sizes.value_bytes)
        return [DataRegion("spaces", size, int(cls.option("replicas")) * cls.spaces(sizes, nodes))]

    def word(self, node: int, space: int) -> int:
        """A location: which space of which node; not zero."""
        return 1 + space * len(self.roles["data"]) + node

    def space_of(self, word: int) -> tuple[int, int]:
        """Node and space of a location."""
        space, node = divmod(word - 1, len(self.roles["data"]))
        return node, space

    def places(self, word: int) -> list[DataPlace]:
        """Where the copies of what is at a location are: as many as there are other nodes for."""
        first, space = self.space_of(word)
        nodes = self.roles["data"]
        each, row = self.data_regions(self.sizes, len(nodes))[0].item_bytes, self.spaces(self.sizes, len(nodes))
        return [
            DataPlace(node, nodes[node].base + (copy * row + space) * each)
            for copy in range(self.copies)
            for node in [(first + copy) % len(nodes)]
        ]

    @override
    def load(self, objects: Mapping[Hashable, bytes]) -> None:
        names, nodes, there = self.sizes.objects, self.roles["data"], len(objects)
        each, row = self.data_regions(self.sizes, len(nodes))[0].item_bytes, self.spaces(self.sizes, len(nodes))

        def value_line(data: DataNode, line: int) -> bytes:
            at = line * LINE_BYTES - (data.base - data.pm.base)
            place, offset = divmod(at, each)
            copy, space = divmod(place, row)
            number = space * len(nodes) + (data.number - copy) % len(nodes)
            value = objects[names[number]] if number < there and space < -(-len(names) // len(nodes)) else b""
            return value[offset : offset + LINE_BYTES].ljust(LINE_BYTES, b"\0")

        for data in nodes:
            data.pm.space.compute(data.base - data.pm.base, data.length, partial(value_line, data))
        coordinator: Coordinator = self.roles["coordinator"][0]
        start = coordinator.locations - coordinator.pm.base

        def location_line(line: int) -> bytes:
            first = (line * LINE_BYTES - start) // WORD
            numbers = range(first, first + LINE_BYTES // WORD)
            words = (self.word(one % len(nodes), one // len(nodes)) if one < there else 0 for one in numbers)
            return b"".join(word.to_bytes(WORD, "little") for word in words)

        coordinator.pm.space.compute(start, round_up(WORD * len(names)), location_line)
